//! The order of an epoch for samples that are best read one after another.

use kindling_random::{Purpose, rng};
use rand::RngExt;

use crate::order::shuffle;

/// The index of the stream; 0 is [`order`](crate::order())'s.
const STRETCHES: u64 = 1;

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

#[cfg(test)]
mod tests {
    use super::*;

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
