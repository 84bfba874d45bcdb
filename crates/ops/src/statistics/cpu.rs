//! Mean and variance on the CPU: one thread computes a channel of a group, in two passes over its planes.
//!
//! The second pass adds up squared differences from the mean, so a large mean does not cancel the digits of a small variance.

use burn::backend::Flex;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::Statistics;
use crate::cpu::lanes::{sum, vectorised};
use crate::cpu::tensors::{computed_in, contiguous, dims, tensor};
use crate::cpu::values::{Source, Stored};

impl Statistics for Flex {
    fn statistics(x: FlexTensor, groups: Vec<usize>) -> FlexTensor {
        let shape = dims(&x);
        computed_in!(T = x.dtype(); {
            let of_groups = statistics::<T>(contiguous(&x).source(), shape, &groups);
            tensor(of_groups, [2, groups.len(), shape[1]])
        })
    }
}

/// Mean and biased variance of each channel of each group of samples: `[2, groups, channels]`.
pub(crate) fn statistics<T: Stored>(
    x: Source<'_, T>,
    [_, channels, height, width]: [usize; 4],
    groups: &[usize],
) -> Vec<T> {
    let plane = height * width;
    let starts = starts(groups);
    let pairs: Vec<(T, T)> = (0..groups.len() * channels)
        .into_par_iter()
        .map(|index| {
            let (group, channel) = (index / channels, index % channels);
            let samples = starts[group]..starts[group] + groups[group];
            let planes = samples.map(|sample| x.chunk(sample * channels + channel, plane));
            let count = (groups[group] * plane) as f64;
            let mean = planes.clone().map(|plane| total(plane, |value| value)).sum::<f64>() / count;
            let centre = T::of(mean);
            let about_centre =
                planes.map(|plane| total(plane, |value| (value - centre) * (value - centre))).sum::<f64>();
            // `centre` is the mean rounded to the format of the kernel. The error of that rounding is known, and taken out.
            let error = mean - centre.wide();
            (centre, T::of((about_centre / count - error * error).max(0.0)))
        })
        .collect();
    let means = pairs.iter().map(|(mean, _)| *mean);
    means.chain(pairs.iter().map(|(_, variance)| *variance)).collect()
}

/// The sum of a function of each pixel of a plane.
fn total<T: Stored>(plane: Source<'_, T>, term: impl Fn(T) -> T + Copy) -> f64 {
    let mut total = 0.0;
    plane.in_pieces(|_, values| {
        total = vectorised(
            #[inline(always)]
            || sum(total, values, term),
        );
    });
    total
}

/// The first sample of each group.
fn starts(groups: &[usize]) -> Vec<usize> {
    groups
        .iter()
        .scan(0, |start, size| {
            let this = *start;
            *start += size;
            Some(this)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn statistics_do_not_depend_on_the_number_of_threads() {
        let shape = [3, 5, 20, 19];
        let mut rng = kindling_random::rng(11, kindling_random::Purpose::Display, 0, 7);
        let x: Vec<f32> = (0..shape.iter().product()).map(|_| rng.random::<f32>() * 4.0 - 2.0).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| statistics(Source::Same(&x), shape, &[2, 1]))
        };
        assert_eq!(run(1), run(2));
        assert_eq!(run(1), run(5));
    }
}
