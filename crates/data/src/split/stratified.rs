//! Stratified splits: seeded, each class shared out alike, and never through a group.

use std::collections::BTreeMap;

use kindling_random::{Purpose, rng};

use super::Split;
use crate::order::shuffle;

/// The share of the samples that goes to each split that is split off.
const HELD_OUT: f64 = 0.15;
/// The epoch of the stream that shuffles groups; 0 shuffles the samples of a class.
const GROUPS: u64 = 1;

/// Divides the samples of one class among train and the splits that are missing. `samples` is sorted; the parts are
/// sorted again. There are more samples than splits missing.
pub(crate) fn stratified_split<T: Ord>(
    mut samples: Vec<T>,
    missing: &[Split],
    seed: u64,
    label: u64,
) -> Vec<(Split, Vec<T>)> {
    let mut parts = Vec::with_capacity(1 + missing.len());
    let held_out = ((samples.len() as f64 * HELD_OUT).round() as usize).max(1);
    if !missing.is_empty() {
        shuffle(&mut samples, &mut rng(seed, Purpose::Split, 0, label));
    }
    for &split in missing {
        let mut part = samples.split_off(samples.len().saturating_sub(held_out));
        part.sort();
        parts.push((split, part));
    }
    samples.sort();
    parts.push((Split::Train, samples));
    parts
}

/// What a split needs to know of a sample.
pub(crate) struct Member<'a> {
    /// Its classes.
    pub(crate) labels: &'a [usize],
    /// What it must not be parted from; a sample without is alone.
    pub(crate) group: Option<&'a str>,
}

/// Divides samples among train and the splits that are missing, group by group: the largest first, those of one size
/// in an order of the seed, each to where it brings the shares of the classes closest to what is wanted. `None` if
/// there are fewer groups than splits.
///
/// Greedy as in scikit-learn's `StratifiedGroupKFold`, with shares instead of equal folds.
pub(crate) fn stratified_group_split(
    members: &[Member],
    classes: usize,
    missing: &[Split],
    seed: u64,
) -> Option<Vec<Split>> {
    let splits: Vec<Split> = [Split::Train].into_iter().chain(missing.iter().copied()).collect();
    let wanted: Vec<f64> = splits
        .iter()
        .map(|&split| if split == Split::Train { 1.0 - HELD_OUT * missing.len() as f64 } else { HELD_OUT })
        .collect();

    let mut named: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, member) in members.iter().enumerate() {
        match member.group {
            Some(group) => named.entry(group).or_default().push(index),
            None => groups.push(vec![index]),
        }
    }
    groups.extend(named.into_values());
    if groups.len() < splits.len() {
        return None;
    }
    shuffle(&mut groups, &mut rng(seed, Purpose::Split, GROUPS, 0));
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));

    // One more column counts the samples themselves, so that samples without a class are shared out too.
    let counts_of = |group: &[usize]| {
        let mut counts = vec![0.0; classes + 1];
        for &index in group {
            counts[classes] += 1.0;
            members[index].labels.iter().for_each(|&label| counts[label] += 1.0);
        }
        counts
    };
    let all: Vec<usize> = (0..members.len()).collect();
    let totals = counts_of(&all);
    let mut shares = vec![vec![0.0; classes + 1]; splits.len()];
    let mut given = vec![Split::Train; members.len()];
    for (place, group) in groups.iter().enumerate() {
        let counts = counts_of(group);
        // How much further from what is wanted a split is with the group than without it.
        let cost = |split: usize| -> f64 {
            let parts = counts.iter().zip(&totals).zip(&shares[split]).filter(|((count, _), _)| **count > 0.0);
            parts
                .map(|((count, total), share)| {
                    let (before, after) = (share - wanted[split], share + count / total - wanted[split]);
                    after * after - before * before
                })
                .sum()
        };
        let empty: Vec<usize> = (0..splits.len()).filter(|&split| shares[split][classes] == 0.0).collect();
        // No split may stay empty: the last groups fill what is.
        let open = if groups.len() - place <= empty.len() { empty } else { (0..splits.len()).collect() };
        let chosen = open.into_iter().min_by(|&a, &b| cost(a).total_cmp(&cost(b)))?;
        for (share, (count, total)) in shares[chosen].iter_mut().zip(counts.iter().zip(&totals)) {
            *share += if *total > 0.0 { count / total } else { 0.0 };
        }
        group.iter().for_each(|&index| given[index] = splits[chosen]);
    }
    Some(given)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const BOTH: [Split; 2] = [Split::Val, Split::Test];

    /// `patients` patients with 1 to 7 images each, of one of three classes or, every fifth, of two.
    fn hospital(patients: usize) -> Vec<(Vec<usize>, String)> {
        (0..patients)
            .flat_map(|patient| (0..1 + patient * 5 % 7).map(move |image| (patient, image)))
            .map(|(patient, image)| {
                let class = if patient % 5 == 0 { image % 2 } else { patient % 3 };
                (vec![class], format!("p{patient}"))
            })
            .collect()
    }

    fn divide(people: &[(Vec<usize>, String)], seed: u64) -> Option<Vec<Split>> {
        let members: Vec<Member> = people.iter().map(|(labels, group)| Member { labels, group: Some(group) }).collect();
        stratified_group_split(&members, 3, &BOTH, seed)
    }

    #[test]
    fn no_group_is_parted_and_every_class_keeps_its_share() {
        let people = hospital(200);
        for seed in 0..5 {
            let given = divide(&people, seed).unwrap();
            let mut side = BTreeMap::new();
            for ((_, group), split) in people.iter().zip(&given) {
                assert_eq!(side.entry(group).or_insert(*split), split, "{group} is on two sides");
            }
            for class in 0..3 {
                let of_class = people.iter().zip(&given).filter(|((labels, _), _)| labels[0] == class);
                let total = of_class.clone().count() as f64;
                for split in BOTH {
                    let share = of_class.clone().filter(|(_, given)| **given == split).count() as f64 / total;
                    assert!((share - HELD_OUT).abs() < 0.02, "{share} of class {class} are in {split}");
                }
            }
        }
        assert_eq!(divide(&people, 3), divide(&people, 3));
        assert_ne!(divide(&people, 3), divide(&people, 4));
    }

    #[test]
    fn no_split_stays_empty_and_too_few_groups_are_refused() {
        let three: Vec<_> = ["a", "b", "c"].map(|group| (vec![0], group.to_owned())).into();
        let given = divide(&three, 0).unwrap();
        assert!(Split::ALL.iter().all(|split| given.contains(split)), "{given:?}");
        assert_eq!(divide(&three[..2], 0), None);
    }

    #[test]
    fn samples_of_several_classes_or_none_are_shared_out_by_class() {
        let labels: Vec<Vec<usize>> =
            (0..1000).map(|i| (0..3).filter(|class| i % (2 + class * 3) == 0).collect()).collect();
        let members: Vec<Member> = labels.iter().map(|labels| Member { labels, group: None }).collect();
        let given = stratified_group_split(&members, 3, &BOTH, 9).unwrap();
        for class in [Some(0), Some(1), Some(2), None] {
            let has = |labels: &[usize]| class.map_or(labels.is_empty(), |class| labels.contains(&class));
            let of_class = labels.iter().zip(&given).filter(|(labels, _)| has(labels));
            let total = of_class.clone().count() as f64;
            let share = of_class.filter(|(_, given)| **given == Split::Test).count() as f64 / total;
            assert!((share - HELD_OUT).abs() < 0.03, "{share} of {class:?}");
        }
    }
}
