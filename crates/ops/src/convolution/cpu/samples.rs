//! The samples of a batch, one after the other or at the same time, and sums over them.

use rayon::prelude::*;

use crate::cpu::gemm::Threads;
use crate::cpu::halves::SHARE;
use crate::cpu::real::Real;
use crate::cpu::reserve;

/// Runs `work` for each sample: the samples in parallel, or one after the other with all threads inside each.
pub(crate) fn over_samples<T: Send>(threads: Threads, samples: Vec<T>, work: impl Fn(T) + Send + Sync) {
    match threads {
        Threads::One => samples.into_par_iter().for_each(work),
        Threads::All => samples.into_iter().for_each(work),
    }
}

/// Adds up over the samples what `work` computes for each, `size` numbers that `work` adds to zeros.
///
/// The samples are added in their order, whatever thread computed them, so the sum does not depend on the number of threads. Only the
/// parts of the samples that are computed at the same time are in memory, and the sum of those before.
pub(crate) fn sum_over_samples<S: Send, T: Real>(
    threads: Threads,
    size: usize,
    samples: Vec<S>,
    work: impl Fn(S, &mut [T]) + Send + Sync,
) -> Vec<T> {
    let at_once = match threads {
        Threads::One => rayon::current_num_threads().min(samples.len()),
        Threads::All => 1,
    };
    reserve(parts_of_sum(samples.len(), at_once) * size, T::DTYPE);
    let mut parts: Vec<Vec<T>> = vec![Vec::new(); at_once];
    let mut sum: Option<Vec<T>> = None;
    let mut samples = samples.into_iter().peekable();
    while samples.peek().is_some() {
        let wave: Vec<_> = parts.iter_mut().zip(samples.by_ref().take(at_once)).collect();
        let made = wave.len();
        over_samples(threads, wave, |(part, sample)| {
            part.clear();
            part.resize(size, T::of(0.0));
            work(sample, part);
        });
        let mut parts = parts[..made].iter_mut();
        let sum = match &mut sum {
            Some(sum) => sum,
            None => sum.insert(parts.next().map(std::mem::take).unwrap_or_default()),
        };
        let parts = parts.into_slice();
        sum.par_chunks_mut(SHARE).enumerate().for_each(|(share, sum)| {
            for part in &*parts {
                sum.iter_mut().zip(&part[share * SHARE..]).for_each(|(sum, value)| *sum += *value);
            }
        });
    }
    sum.unwrap_or_else(|| vec![T::of(0.0); size])
}

/// How many parts, each of the size of the sum, are in memory while so many samples are added up: those of the samples that are computed at
/// the same time, and the sum of those before.
pub(crate) fn parts_of_sum(samples: usize, at_once: usize) -> usize {
    at_once + usize::from(samples > at_once)
}
