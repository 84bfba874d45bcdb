//! The order of the samples in an epoch, and the shuffle behind it and the splits.

use kindling_random::{Purpose, Rng, rng};
use rand::RngExt;

/// The samples `0..len` in the order of an epoch: a permutation that depends on (seed, epoch, len) alone.
pub fn order(seed: u64, epoch: u64, len: usize) -> Vec<u64> {
    let mut samples: Vec<u64> = (0..len as u64).collect();
    shuffle(&mut samples, &mut rng(seed, Purpose::Order, epoch, 0));
    samples
}

/// Fisher and Yates' shuffle. Written out, because a stored run must find the same order after `rand` is updated.
pub(crate) fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for last in (1..items.len()).rev() {
        // The high half of the product is uniform in 0..=last, but for a bias of at most len / 2^64.
        let word = u128::from(rng.random::<u64>());
        let chosen = ((word * (last as u128 + 1)) >> 64) as usize;
        items.swap(last, chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_every_sample_once_in_an_order_of_its_own() {
        let first = order(1, 0, 1000);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<u64>>());
        assert_eq!(first, order(1, 0, 1000));
        assert_ne!(first, order(1, 1, 1000));
        assert_ne!(first, order(2, 0, 1000));
        assert_eq!((order(1, 0, 0), order(1, 0, 1)), (vec![], vec![0]));
    }

    #[test]
    fn the_order_of_a_seed_is_the_same_in_every_release() {
        assert_eq!(order(42, 3, 10), PINNED);
    }

    /// A change here means that no stored run can be resumed.
    const PINNED: [u64; 10] = [9, 2, 4, 7, 6, 1, 3, 0, 8, 5];

    #[test]
    fn every_place_is_equally_likely() {
        let mut counts = [[0u32; 5]; 5];
        for epoch in 0..5000 {
            for (place, &sample) in order(7, epoch, 5).iter().enumerate() {
                counts[place][sample as usize] += 1;
            }
        }
        // 1000 expected, standard deviation 28.
        assert!(counts.iter().flatten().all(|count| (860..1140).contains(count)), "{counts:?}");
    }
}
