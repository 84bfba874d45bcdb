//! The order of the samples in an epoch, and the shuffle behind it and the splits.

use kindling_random::{Purpose, Rng, rng};
use rand::RngExt;

/// The index of the stream; 0 is [`order`](crate::order())'s.
const STRETCHES: u64 = 1;

/// The samples `0..len` in the order of an epoch: a permutation that depends on (seed, epoch, len) alone.
pub fn order(seed: u64, epoch: u64, len: usize) -> Vec<u64> {
    let mut samples: Vec<u64> = (0..len as u64).collect();
    shuffle(&mut samples, &mut rng(seed, Purpose::Order, epoch, 0));
    samples
}

/// The samples of an epoch: the stretches in a random order, read one after another through a buffer of `buffer`
/// samples from which the next is drawn at random. A permutation that depends on (seed, epoch, lengths, buffer) alone, so
/// that a run is resumed without reading what it has seen. A buffer of 0 is taken as 1: stretches in random order, each
/// from its start.
pub fn order_of_stretches(seed: u64, epoch: u64, lengths: &[usize], buffer: usize) -> Vec<u64> {
    let mut rng = rng(seed, Purpose::Order, epoch, STRETCHES);
    let mut start = 0;
    let mut stretches: Vec<std::ops::Range<u64>> = Vec::with_capacity(lengths.len());
    for &length in lengths {
        stretches.push(start..start + length as u64);
        start += length as u64;
    }
    shuffle(&mut stretches, &mut rng);
    let mut waiting: Vec<u64> = Vec::with_capacity(buffer.clamp(1, start.max(1) as usize));
    let mut order = Vec::with_capacity(start as usize);
    let mut draw = |waiting: &mut Vec<u64>| {
        let word = u128::from(rng.random::<u64>());
        waiting.swap_remove(((word * waiting.len() as u128) >> 64) as usize)
    };
    for sample in stretches.into_iter().flatten() {
        waiting.push(sample);
        if waiting.len() >= buffer.max(1) {
            order.push(draw(&mut waiting));
        }
    }
    while !waiting.is_empty() {
        order.push(draw(&mut waiting));
    }
    order
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

    #[test]
    fn every_sample_comes_once_and_not_long_before_or_after_its_neighbours() {
        let lengths = [100; 10];
        let order = order_of_stretches(1, 0, &lengths, 50);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<u64>>());
        assert_ne!(order, order_of_stretches(1, 1, &lengths, 50));
        assert_ne!(order, order_of_stretches(2, 0, &lengths, 50));
        assert_eq!(order, order_of_stretches(1, 0, &lengths, 50));
        // One behind the other, but in another order of stretches.
        let plain = order_of_stretches(1, 0, &lengths, 0);
        assert!(plain.chunks(100).all(|stretch| stretch.windows(2).all(|pair| pair[0] + 1 == pair[1])));
        assert!(!plain.is_sorted());
        // Reading is never more than a buffer ahead.
        for (place, sample) in order.iter().enumerate() {
            let read = plain.iter().position(|other| other == sample).unwrap_or(usize::MAX);
            assert!(read < place + 50, "sample {sample} is read as number {read} and comes as number {place}");
        }
        assert_eq!(order_of_stretches(1, 0, &[], 5), Vec::<u64>::new());
    }
}
