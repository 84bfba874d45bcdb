//! [`SplitRule::Shuffled`](super::SplitRule::Shuffled): the splits of earlier versions, kept so that their runs are resumed and
//! scored with the samples they were trained on. Seeded, stratified, and never through a group; a sample that is added or
//! removed draws everything anew.

use std::collections::BTreeMap;

use kindling_random::{Purpose, rng};

use super::{HELD_OUT, Member, Split};
use crate::order::shuffle;

/// The epoch of the stream that shuffles groups; 0 shuffles the samples of a class.
const GROUPS: u64 = 1;

/// Divides the samples of one class among train and the splits that are missing. `samples` is sorted; the parts are
/// sorted again. There are more samples than splits missing.
pub(crate) fn shuffled_split<T: Ord>(
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

/// Divides samples among train and the splits that are missing, group by group: the largest first, those of one size
/// in an order of the seed, each to where it brings the shares of the classes closest to what is wanted. `None` if
/// there are fewer groups than splits.
///
/// Greedy as in scikit-learn's `StratifiedGroupKFold`, with shares instead of equal folds.
pub(crate) fn shuffled_group_split(
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

    /// What the last version that drew so gave. A change here means that runs of earlier versions cannot be resumed.
    #[test]
    fn what_earlier_versions_drew_is_drawn_again() {
        let parts = shuffled_split((0..20).collect::<Vec<usize>>(), &BOTH, 3, 1);
        let of = |wanted: Split| parts.iter().find(|(split, _)| *split == wanted).unwrap().1.clone();
        assert_eq!((of(Split::Val), of(Split::Test)), (VAL.to_vec(), TEST.to_vec()));

        let names: Vec<String> = (0..9).map(|patient| format!("p{patient}")).collect();
        let labels: Vec<[usize; 1]> = (0..18).map(|at| [at % 2]).collect();
        let member = |at: usize| Member { labels: &labels[at], group: Some(&names[at / 2]), key: 0 };
        let members: Vec<Member> = (0..18).map(member).collect();
        let given = shuffled_group_split(&members, 2, &BOTH, 3).unwrap();
        let side: String = given.iter().step_by(2).map(|split| ["-", "v", "t"][*split as usize]).collect();
        assert_eq!(side, GROUPS_DRAWN);
        assert_eq!(shuffled_group_split(&members[..4], 2, &BOTH, 3), None, "too few groups");
    }

    const VAL: [usize; 3] = [5, 16, 19];
    const TEST: [usize; 3] = [2, 6, 15];
    /// Patient by patient: train, val or test.
    const GROUPS_DRAWN: &str = "---v--vt-";
}
