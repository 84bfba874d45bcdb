//! [`SplitRule::Keyed`](super::SplitRule::Keyed): a sample's place depends on the seed and its name, so that a data set that grows
//! keeps its sides.
//!
//! Every sample, or every group of samples that belong together, has a key: a hash of the seed and its name. Samples with the
//! same classes are a stratum. In the order of keys the first 15 % of a stratum are test, the last 15 % are val, and train lies
//! between them. A sample that is added or removed moves only what lies at the two borders of its stratum: of samples drawn one
//! by one at most as many as were added, and one more; of groups at most as many samples, and two groups more for each
//! stratum that changed.
//!
//! Where that leaves a class out of a split or far from its share, as few groups do, [`mend`] moves what it takes.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::mend::{Sides, Unit, mend};
use super::{Member, Split};

/// The place of a sample that is drawn alone, by its name within its data set.
pub(crate) fn sample_key(seed: u64, name: &str) -> u128 {
    key(seed, b"sample", name)
}

/// The place of a group, by its name: all its samples share it.
pub(crate) fn group_key(seed: u64, name: &str) -> u128 {
    key(seed, b"group\0", name)
}

/// So many bits that no two names share a place.
fn key(seed: u64, kind: &[u8; 6], name: &str) -> u128 {
    let mut hash = Sha256::new();
    hash.update(b"kindling split 1");
    hash.update(kind);
    hash.update(seed.to_le_bytes());
    hash.update(name);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    u128::from_be_bytes(bytes)
}

/// Divides the samples of one class, given as places and numbers, among train and the splits that are missing. There are more
/// samples than splits missing.
pub(crate) fn keyed_split(mut samples: Vec<(u128, usize)>, missing: &[Split]) -> Vec<(usize, Split)> {
    samples.sort_unstable();
    let sizes: Vec<(u128, usize)> = samples.iter().map(|(key, _)| (*key, 1)).collect();
    samples.iter().map(|(_, sample)| *sample).zip(quotas(&sizes, missing)).collect()
}

/// Divides samples among train and the splits that are missing, group by group. `None` if there are fewer groups than splits.
pub(crate) fn keyed_group_split(
    members: &[Member],
    classes: usize,
    missing: &[Split],
    seed: u64,
) -> Option<Vec<Split>> {
    let mut units = units_of(members, classes);
    if units.len() < 1 + missing.len() {
        return None;
    }
    units.sort_by_key(|unit| unit.key);
    let splits: Vec<Split> = [Split::Train].into_iter().chain(missing.iter().copied()).collect();
    let side = |split: Split| splits.iter().position(|known| *known == split).unwrap_or(0);
    let quotas = |_: &[usize], sizes: &[(u128, usize)]| quotas(sizes, missing).into_iter().map(side).collect();
    let by_key: Vec<usize> = (0..units.len()).collect();
    let home = by_strata(&units, &by_key, quotas);
    let sides = Sides::of_splits(missing.len());
    let given = mend(&units, classes, &sides, home, seed, |order| by_strata(&units, order, quotas));
    Some(of_members(&units, &given, members.len()).into_iter().map(|side| splits[side]).collect())
}

/// The side of every member, given that of its unit.
pub(super) fn of_members(units: &[Unit], given: &[usize], members: usize) -> Vec<usize> {
    let mut sides = vec![0; members];
    for (unit, &side) in units.iter().zip(given) {
        unit.members.iter().for_each(|&member| sides[member] = side);
    }
    sides
}

/// What goes to one side together.
pub(super) fn units_of(members: &[Member], classes: usize) -> Vec<Unit> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    let mut units: Vec<Unit> = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let new = units.len();
        let place = member.group.map_or(new, |group| *named.entry(group).or_insert(new));
        if place == new {
            units.push(Unit { key: member.key, members: Vec::new(), counts: Vec::new() });
        }
        units[place].members.push(index);
    }
    for unit in &mut units {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for label in unit.members.iter().flat_map(|&member| members[member].labels) {
            *counts.entry(*label).or_default() += 1;
        }
        // One more column counts the samples themselves.
        counts.insert(classes, unit.members.len());
        unit.counts = counts.into_iter().collect();
    }
    units
}

/// The side of every unit, stratum by stratum, in the order given. `quotas` divides one stratum, given its classes and the places
/// and sizes of its units in order.
pub(super) fn by_strata(
    units: &[Unit],
    order: &[usize],
    quotas: impl Fn(&[usize], &[(u128, usize)]) -> Vec<usize>,
) -> Vec<usize> {
    let mut strata: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for &unit in order {
        let classes = units[unit].counts.iter().map(|(class, _)| *class).collect();
        strata.entry(classes).or_default().push(unit);
    }
    let mut sides = vec![0; units.len()];
    for (classes, stratum) in strata {
        let sizes: Vec<(u128, usize)> =
            stratum.iter().map(|&unit| (units[unit].key, units[unit].members.len())).collect();
        stratum.into_iter().zip(quotas(&classes, &sizes)).for_each(|(unit, side)| sides[unit] = side);
    }
    sides
}

/// A key as a share of all keys, 0 to 1.
pub(super) fn share_of(key: u128) -> f64 {
    // The first 64 bits are far more than enough.
    (key >> 64) as f64 / 2f64.powi(64)
}

/// The sides of a stratum's units, given their places and sizes in order: test from the front and val from the back as far as
/// the middle of a unit lies within 15 % of the samples, and one of each at least. Of fewer units than sides each goes where
/// its own place says.
fn quotas(units: &[(u128, usize)], missing: &[Split]) -> Vec<Split> {
    let [val, test] = [Split::Val, Split::Test].map(|split| missing.contains(&split));
    let total: usize = units.iter().map(|(_, size)| size).sum();
    // Whether a unit with so many samples before it lies in 15 %, in whole numbers: (before + size / 2) / total <= 3 / 20.
    let within = |before: usize, size: usize| 10 * (2 * before + size) <= 3 * total;
    let few = units.len() < 1 + missing.len();
    let mut before = 0;
    let place = |(index, &(key, size)): (usize, &(u128, usize))| {
        let behind = total - before - size;
        let alone = share_of(key);
        let (low, high) = match few {
            true => (alone < super::HELD_OUT, alone >= 1.0 - super::HELD_OUT),
            false => (index == 0 || within(before, size), index + 1 == units.len() || within(behind, size)),
        };
        before += size;
        match (test && low, val && high) {
            (true, _) => Split::Test,
            (_, true) => Split::Val,
            _ => Split::Train,
        }
    };
    units.iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::RngExt;

    const BOTH: [Split; 2] = [Split::Val, Split::Test];

    /// Images of patients: class, patient.
    type People = Vec<(Vec<usize>, String)>;

    /// `patients` patients with 1 to 7 images each, of one of three classes or, every fifth, of two.
    fn hospital(patients: usize) -> People {
        (0..patients)
            .flat_map(|patient| (0..1 + patient * 5 % 7).map(move |image| (patient, image)))
            .map(|(patient, image)| {
                let class = if patient % 5 == 0 { image % 2 } else { patient % 3 };
                (vec![class], format!("p{patient}"))
            })
            .collect()
    }

    fn divide(people: &People, classes: usize, seed: u64) -> Option<Vec<Split>> {
        let members: Vec<Member> = people
            .iter()
            .map(|(labels, group)| Member { labels, group: Some(group), key: group_key(seed, group) })
            .collect();
        keyed_group_split(&members, classes, &BOTH, seed)
    }

    /// Samples of each class in a split.
    fn count(people: &People, given: &[Split], classes: usize, split: Split) -> Vec<usize> {
        let of_class = |class| {
            let of_split = people.iter().zip(given).filter(|(_, given)| **given == split);
            of_split.filter(|((labels, _), _)| labels.contains(&class)).count()
        };
        (0..classes).map(of_class).collect()
    }

    /// The side of every patient, after a check that none is parted.
    fn sides(people: &People, given: &[Split]) -> BTreeMap<String, Split> {
        let mut side = BTreeMap::new();
        for ((_, group), split) in people.iter().zip(given) {
            assert_eq!(side.entry(group.clone()).or_insert(*split), split, "{group} is on two sides");
        }
        side
    }

    #[test]
    fn no_group_is_parted_and_every_class_keeps_its_share() {
        let people = hospital(200);
        for seed in 0..20 {
            let given = divide(&people, 3, seed).unwrap();
            sides(&people, &given);
            let [train, val, test] = Split::ALL.map(|split| count(&people, &given, 3, split));
            for class in 0..3 {
                let total = (train[class] + val[class] + test[class]) as f64;
                for part in [val[class], test[class]] {
                    let share = part as f64 / total;
                    assert!((share - 0.15).abs() <= 0.05, "{share} of class {class} with seed {seed}");
                }
            }
        }
        assert_eq!(divide(&people, 3, 3), divide(&people, 3, 3));
        assert_ne!(divide(&people, 3, 3), divide(&people, 3, 4));
    }

    #[test]
    fn a_side_belongs_to_a_name_and_not_to_a_place_in_a_list() {
        let mut people = hospital(40);
        let before = sides(&people, &divide(&people, 3, 1).unwrap());
        people.reverse();
        assert_eq!(sides(&people, &divide(&people, 3, 1).unwrap()), before);
        let names: Vec<(u128, usize)> = (0..50).map(|at| (sample_key(1, &format!("{at}.png")), at)).collect();
        let mut turned = names.clone();
        turned.reverse();
        assert_eq!(keyed_split(names, &BOTH), keyed_split(turned, &BOTH));
    }

    /// What the documents promise: of samples drawn one by one, adding `k` moves at most `k + 1`.
    #[test]
    fn adding_samples_moves_at_most_as_many_and_one() {
        let draw = |seed: u64, count: usize| -> BTreeMap<usize, Split> {
            let keys = (0..count).map(|at| (sample_key(seed, &format!("{at:05}.png")), at)).collect();
            keyed_split(keys, &BOTH).into_iter().collect()
        };
        let (mut moved_in_all, mut cases) = (0, 0);
        for seed in 0..40 {
            for (count, added) in [(3, 1), (10, 1), (57, 1), (57, 5), (200, 1), (200, 30), (1000, 1), (1000, 300)] {
                let (before, after) = (draw(seed, count), draw(seed, count + added));
                let moved = before.iter().filter(|(name, split)| after[*name] != **split).count();
                assert!(moved <= added + 1, "{moved} of {count} moved for {added}, seed {seed}");
                if added == 1 {
                    (moved_in_all, cases) = (moved_in_all + moved, cases + 1);
                }
                for (split, wanted) in [(Split::Val, 0.15), (Split::Test, 0.15)] {
                    let given = after.values().filter(|given| **given == split).count();
                    let wanted = (((count + added) as f64 * wanted).round() as usize).max(1);
                    assert_eq!(given, wanted, "the share is exact");
                }
            }
        }
        assert!(moved_in_all <= cases, "hardly any moves: {moved_in_all} in {cases} cases");
    }

    /// The same of groups: at most as many samples as were added, and two groups for each stratum that changed.
    #[test]
    fn adding_images_or_patients_moves_at_most_as_many_images_and_a_few_patients() {
        for seed in 0..40 {
            let people = hospital(200);
            let before = sides(&people, &divide(&people, 3, seed).unwrap());
            let mut rng = kindling_random::rng(seed, kindling_random::Purpose::Display, 0, 0);
            let mut draw = |most: usize| (rng.random::<u64>() % most as u64) as usize;
            let mut more = people.clone();
            let added = 1 + draw(10);
            let mut touched = std::collections::BTreeSet::new();
            for at in 0..added {
                // A patient that is known, with a class it has, or a new one.
                let (labels, group) = people[draw(people.len())].clone();
                let group = if at % 2 == 0 { group } else { format!("new-{at}") };
                touched.insert(group.clone());
                more.push((labels, group));
            }
            let after = sides(&more, &divide(&more, 3, seed).unwrap());
            let moved = people.iter().filter(|(_, group)| before[group] != after[group]).count();
            // Four strata ({0}, {1}, {2} and {0, 1}), patients of at most 8 images.
            assert!(moved <= added + 2 * 4 * 8, "{moved} images moved for {added}, seed {seed}");
        }
    }

    #[test]
    fn no_split_stays_empty_and_too_few_groups_are_refused() {
        let three: People = ["a", "b", "c"].map(|group| (vec![0], group.to_owned())).into();
        let given = divide(&three, 1, 0).unwrap();
        assert!(Split::ALL.iter().all(|split| given.contains(split)), "{given:?}");
        assert_eq!(divide(&three[..2].to_vec(), 1, 0), None);
        let members: Vec<Member> =
            three.iter().map(|(labels, group)| Member { labels, group: Some(group), key: 1 }).collect();
        let one = keyed_group_split(&members[..2], 1, &[Split::Test], 0).unwrap();
        assert!(one.contains(&Split::Train) && one.contains(&Split::Test), "{one:?}");
    }

    #[test]
    fn samples_of_several_classes_or_none_are_shared_out_by_class() {
        let people: People = (0..1000)
            .map(|i| ((0..3).filter(|class| i % (2 + class * 3) == 0).collect(), format!("{i}.png")))
            .collect();
        let members: Vec<Member> =
            people.iter().map(|(labels, name)| Member { labels, group: None, key: sample_key(9, name) }).collect();
        let given = keyed_group_split(&members, 3, &BOTH, 9).unwrap();
        for class in [Some(0), Some(1), Some(2), None] {
            let has = |labels: &[usize]| class.map_or(labels.is_empty(), |class| labels.contains(&class));
            let of_class = people.iter().zip(&given).filter(|((labels, _), _)| has(labels));
            let total = of_class.clone().count() as f64;
            let share = of_class.filter(|(_, given)| **given == Split::Test).count() as f64 / total;
            assert!((share - 0.15).abs() < 0.03, "{share} of {class:?}");
        }
    }

    /// Whether some assignment has every class in every split; tries them all.
    fn can_have_all(people: &People, classes: usize) -> bool {
        let names: Vec<&String> =
            people.iter().map(|(_, group)| group).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        (0..3usize.pow(names.len() as u32)).any(|number| {
            let side = |group: &String| {
                let place = names.iter().position(|name| *name == group).unwrap();
                Split::ALL[number / 3usize.pow(place as u32) % 3]
            };
            let given: Vec<Split> = people.iter().map(|(_, group)| side(group)).collect();
            Split::ALL.iter().all(|split| count(people, &given, classes, *split).iter().all(|count| *count > 0))
        })
    }

    /// A few patients with several classes each: the order of keys alone often leaves one out.
    fn ward(seed: u64, patients: usize, classes: usize) -> People {
        let mut rng = kindling_random::rng(seed, kindling_random::Purpose::Display, 1, 0);
        let mut draw = |most: usize| (rng.random::<u64>() % most as u64) as usize;
        let mut people = Vec::new();
        for patient in 0..patients {
            for _ in 0..1 + draw(3) {
                let class = draw(classes);
                (0..1 + draw(9)).for_each(|_| people.push((vec![class], format!("p{patient}"))));
            }
        }
        (0..classes).for_each(|class| people.push((vec![class], "p0".to_owned())));
        people
    }

    #[test]
    fn a_class_is_missing_from_a_split_only_where_no_assignment_has_it() {
        let (mut whole, mut not) = (0, 0);
        for ward_seed in 0..40 {
            let people = ward(ward_seed, 7, 4);
            let given = divide(&people, 4, 1).unwrap();
            sides(&people, &given);
            let lacking = Split::ALL.iter().any(|split| count(&people, &given, 4, *split).contains(&0));
            assert_eq!(!lacking, can_have_all(&people, 4), "ward {ward_seed}: {given:?}");
            assert!(!count(&people, &given, 4, Split::Train).contains(&0), "every class can be learnt");
            (whole, not) = (whole + usize::from(!lacking), not + usize::from(lacking));
        }
        assert!(whole > 5 && not > 5, "both happen: {whole}, {not}");
    }

    /// More groups than can all be tried: three patients for each rare class, among many others.
    #[test]
    fn rare_classes_of_few_groups_are_found_a_place_among_many_groups() {
        for seed in 0..20 {
            let mut people = hospital(60);
            for rare in 3..9 {
                for at in 0..3 {
                    // They have other classes as well, and one patient two rare ones.
                    let group = format!("rare-{}", (rare - 3) * 2 + at);
                    people.push((vec![rare], group.clone()));
                    people.push((vec![rare % 3], group));
                }
            }
            let given = divide(&people, 9, seed).unwrap();
            sides(&people, &given);
            for split in Split::ALL {
                let counts = count(&people, &given, 9, split);
                assert!(!counts.contains(&0), "{split} has {counts:?} with seed {seed}");
            }
        }
    }
}
