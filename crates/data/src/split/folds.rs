//! Cross-validation: a data set in folds, each of which is tested once.
//!
//! In fold `k` of `n` the `k`-th part is test, the one after it val, and the rest is train, so that every sample is tested by one of `n`
//! models and validates one other. Groups are never parted, and the classes are spread evenly over the folds.
//!
//! As in [`keyed`](super::keyed), a sample's fold depends on the seed and its name: in the order of keys a stratum (samples with the
//! same classes) is cut into `n` stretches of one length. Where that leaves a class out of a fold or makes folds uneven, as few groups
//! do, [`mend`] moves what it takes.

use std::fmt;
use std::str::FromStr;

use kindling_given::UnknownName;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::keyed::{by_strata, of_members, share_of, units_of};
use super::mend::{Sides, mend};
use super::{Member, Split};

/// The fewest folds that can be drawn: one to learn from, one to validate, one to test. Data that brings its folds may have fewer.
pub const FEWEST_FOLDS: usize = 3;
/// The most folds that a cross-validation can have.
pub const MOST_FOLDS: usize = 1000;

/// One fold of a cross-validation. Written `2/5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fold {
    /// From 0.
    index: usize,
    /// 1 to [`MOST_FOLDS`].
    of: usize,
}

impl Fold {
    /// All folds of a cross-validation; none if there cannot be so many.
    pub fn all(of: usize) -> impl Iterator<Item = Self> {
        let count = if of <= MOST_FOLDS { of } else { 0 };
        (0..count).map(move |index| Self { index, of })
    }

    /// Its number, from 1.
    pub fn number(self) -> usize {
        self.index + 1
    }

    /// How many folds there are.
    pub fn of(self) -> usize {
        self.of
    }

    /// What a part of the data is in this fold.
    fn role(self, part: usize) -> Split {
        match part {
            part if part == self.index => Split::Test,
            part if part == (self.index + 1) % self.of => Split::Val,
            _ => Split::Train,
        }
    }
}

impl fmt::Display for Fold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number(), self.of)
    }
}

impl FromStr for Fold {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        text.split_once('/')
            .and_then(|(fold, of)| Some((number(fold)?, number(of)?)))
            .and_then(|(fold, of)| Self::all(of).nth(fold.checked_sub(1)?))
            .ok_or_else(|| {
                UnknownName::new(
                    "fold",
                    text,
                    &["1/5, 2/5 ... 5/5, or those of another number of folds, 3 to 1000, or as few as the data brings"],
                )
            })
    }
}

impl TryFrom<String> for Fold {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

impl From<Fold> for String {
    fn from(fold: Fold) -> Self {
        fold.to_string()
    }
}

/// What each sample is in a fold of at least [`FEWEST_FOLDS`]. `None` if there are fewer groups than folds.
pub(crate) fn fold_split(members: &[Member], classes: usize, fold: Fold, seed: u64) -> Option<Vec<Split>> {
    Some(parts_of(members, classes, fold.of, seed)?.into_iter().map(|part| fold.role(part)).collect())
}

/// The part that each sample is in, the same for every fold.
fn parts_of(members: &[Member], classes: usize, folds: usize, seed: u64) -> Option<Vec<usize>> {
    let mut units = units_of(members, classes);
    if units.len() < folds {
        return None;
    }
    units.sort_by_key(|unit| unit.key);
    let stretches = |classes: &[usize], sizes: &[(u128, usize)]| stretches(classes, sizes, folds, seed);
    let by_key: Vec<usize> = (0..units.len()).collect();
    let home = by_strata(&units, &by_key, stretches);
    let given = mend(&units, classes, &Sides::of_folds(folds), home, seed, |order| by_strata(&units, order, stretches));
    Some(of_members(&units, &given, members.len()))
}

/// The parts of a stratum's units, given their places and sizes in order: the one in whose stretch the middle of a unit lies, counted
/// from a part of the stratum's own, so that what is over in each does not always go to the same. Of fewer units than folds each goes
/// where its own place says.
fn stretches(classes: &[usize], units: &[(u128, usize)], folds: usize, seed: u64) -> Vec<usize> {
    let total: usize = units.iter().map(|(_, size)| size).sum();
    let first = first_part(classes, folds, seed);
    let mut before = 0;
    let place = |&(key, size): &(u128, usize)| {
        let part = match units.len() < folds {
            true => (share_of(key) * folds as f64) as usize,
            // In whole numbers: (before + size / 2) / total in units of a stretch.
            false => (2 * before + size) * folds / (2 * total.max(1)) + first,
        };
        before += size;
        part % folds
    };
    units.iter().map(place).collect()
}

/// The part that a stratum begins with.
fn first_part(classes: &[usize], folds: usize, seed: u64) -> usize {
    let mut hash = Sha256::new();
    hash.update(b"kindling folds 1");
    hash.update(seed.to_le_bytes());
    classes.iter().for_each(|class| hash.update((*class as u64).to_le_bytes()));
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.finalize()[..8]);
    (u64::from_le_bytes(bytes) % folds as u64) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::split::{group_key, sample_key};

    /// Images of patients: class, patient.
    type People = Vec<(usize, Option<String>)>;

    fn members(people: &People, seed: u64) -> Vec<Member<'_>> {
        let key = |(at, (_, group)): (usize, &(usize, Option<String>))| match group {
            Some(group) => group_key(seed, group),
            None => sample_key(seed, &format!("{at}.png")),
        };
        let keys = people.iter().enumerate().map(key);
        people
            .iter()
            .zip(keys)
            .map(|((class, group), key)| Member { labels: std::slice::from_ref(class), group: group.as_deref(), key })
            .collect()
    }

    /// `patients` patients with 1 to 7 images each, most of one of three classes.
    fn hospital(patients: usize) -> People {
        (0..patients)
            .flat_map(|patient| (0..1 + patient * 5 % 7).map(move |image| (patient, image)))
            .map(|(patient, image)| {
                let class = if patient % 5 == 0 { image % 2 } else { patient % 3 };
                (class, Some(format!("p{patient}")))
            })
            .collect()
    }

    fn count(parts: &[usize], folds: usize) -> Vec<usize> {
        (0..folds).map(|fold| parts.iter().filter(|part| **part == fold).count()).collect()
    }

    #[test]
    fn folds_are_written_as_they_are_read_and_others_are_refused() {
        for text in ["1/1", "2/2", "1/3", "2/5", "5/5", "1000/1000"] {
            let fold: Fold = text.parse().unwrap();
            assert_eq!(fold.to_string(), text);
            assert_eq!(serde_json::to_string(&fold).unwrap(), format!("\"{text}\""));
        }
        for text in ["", "5", "0/5", "6/5", "1/0", "0/0", "1/1001", "-1/5", "+1/5", "1/5/5", "a/5", "1 / 5"] {
            assert!(text.parse::<Fold>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_sample_is_tested_once_validates_once_and_is_learnt_from_otherwise() {
        for (folds, patients) in [(3, 3), (3, 40), (5, 40), (10, 200)] {
            let people = hospital(patients);
            let members = members(&people, 7);
            let roles: Vec<Vec<Split>> =
                Fold::all(folds).map(|fold| fold_split(&members, 3, fold, 7).unwrap()).collect();
            assert_eq!(roles.len(), folds);
            for sample in 0..people.len() {
                let times = |split: Split| roles.iter().filter(|of_fold| of_fold[sample] == split).count();
                assert_eq!(Split::ALL.map(times), [folds - 2, 1, 1]);
            }
            for split in Split::ALL {
                assert!(roles.iter().all(|of_fold| of_fold.contains(&split)), "no fold has an empty {split}");
            }
        }
    }

    #[test]
    fn a_fold_tests_the_part_of_its_number_and_validates_on_the_next() {
        let roles = |fold: &str| -> Vec<Split> {
            let fold: Fold = fold.parse().unwrap();
            (0..4).map(|part| fold.role(part)).collect()
        };
        let (train, val, test) = (Split::Train, Split::Val, Split::Test);
        assert_eq!(roles("2/4"), [train, test, val, train]);
        assert_eq!(roles("4/4"), [val, train, train, test]);
    }

    #[test]
    fn the_order_in_which_samples_are_listed_does_not_matter() {
        let people = hospital(60);
        let members = members(&people, 3);
        let parts = parts_of(&members, 3, 5, 3).unwrap();
        let (backwards, mut again): (Vec<Member>, Vec<usize>) = (members.into_iter().rev().collect(), parts);
        again.reverse();
        assert_eq!(parts_of(&backwards, 3, 5, 3).unwrap(), again);
    }

    #[test]
    fn what_is_over_in_each_of_many_small_classes_does_not_go_to_the_same_folds() {
        // Of seven samples two of the five folds have two; two samples are fewer than folds.
        for of_a_class in [7, 2] {
            let people: People = (0..60 * of_a_class).map(|at| (at % 60, None)).collect();
            for seed in 0..4 {
                let parts = parts_of(&members(&people, seed), 60, 5, seed).unwrap();
                let even = people.len() as f64 / 5.0;
                let counts = count(&parts, 5);
                // Samples are only moved out of a fold that holds a third more than its even share.
                assert!(counts.iter().all(|count| *count as f64 <= even * 1.3), "seed {seed}: {counts:?}");
            }
        }
    }

    #[test]
    fn no_patient_is_parted_and_folds_have_one_size_and_every_class() {
        let people = hospital(200);
        for (seed, folds) in [(0, 3), (1, 5), (2, 5), (3, 10)] {
            let parts = parts_of(&members(&people, seed), 3, folds, seed).unwrap();
            let mut of_patient: BTreeMap<&Option<String>, BTreeSet<usize>> = BTreeMap::new();
            people.iter().zip(&parts).for_each(|((_, group), part)| {
                of_patient.entry(group).or_default().insert(*part);
            });
            assert!(of_patient.values().all(|parts| parts.len() == 1));
            for class in 0..3 {
                let of_class: Vec<usize> =
                    people.iter().zip(&parts).filter(|((of, _), _)| *of == class).map(|(_, part)| *part).collect();
                let even = of_class.len() as f64 / folds as f64;
                for found in count(&of_class, folds) {
                    assert!(
                        (found as f64 / even - 1.0).abs() < 0.35,
                        "{found} of {even} of class {class}, seed {seed}"
                    );
                }
            }
        }
    }

    #[test]
    fn samples_drawn_alone_make_folds_that_differ_by_one_in_every_class() {
        let people: People = (0..103).map(|at| (usize::from(at % 7 == 0), None)).collect();
        let parts = parts_of(&members(&people, 4), 2, 5, 4).unwrap();
        for class in 0..2 {
            let of_class: Vec<usize> =
                people.iter().zip(&parts).filter(|((of, _), _)| *of == class).map(|(_, part)| *part).collect();
            let counts = count(&of_class, 5);
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }

    #[test]
    fn a_fold_belongs_to_a_name_and_a_seed_and_few_move_when_samples_are_added() {
        let people: People = (0..200).map(|at| (at % 3, None)).collect();
        let parts = parts_of(&members(&people, 1), 3, 5, 1).unwrap();
        assert_eq!(parts_of(&members(&people, 1), 3, 5, 1).unwrap(), parts);
        assert_ne!(parts_of(&members(&people, 2), 3, 5, 2).unwrap(), parts);
        let more: People = (0..203).map(|at| (at % 3, None)).collect();
        let after = parts_of(&members(&more, 1), 3, 5, 1).unwrap();
        let moved = parts.iter().zip(&after).filter(|(one, other)| one != other).count();
        // One more in each of three classes; at each of four borders of a class one may move.
        assert!(moved <= 3 * 4, "{moved} moved");
    }

    #[test]
    fn rare_classes_of_few_patients_are_in_as_many_folds_as_they_can() {
        for seed in 0..20 {
            let mut people = hospital(60);
            for at in 0..5 {
                // They have another class as well.
                people.push((3, Some(format!("rare-{at}"))));
                people.push((at % 3, Some(format!("rare-{at}"))));
            }
            let parts = parts_of(&members(&people, seed), 4, 5, seed).unwrap();
            let of_rare: Vec<usize> =
                people.iter().zip(&parts).filter(|((class, _), _)| *class == 3).map(|(_, part)| *part).collect();
            assert!(!count(&of_rare, 5).contains(&0), "seed {seed}: {of_rare:?}");
        }
    }

    #[test]
    fn fewer_groups_than_folds_are_refused() {
        let people = hospital(4);
        assert_eq!(parts_of(&members(&people, 0), 3, 5, 0), None);
        assert!(parts_of(&members(&people, 0), 3, 4, 0).is_some());
    }
}
