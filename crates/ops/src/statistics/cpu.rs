//! Mean and variance on the CPU: one thread computes a channel of a group, in two passes over its planes.
//!
//! The second pass adds up squared differences from the mean, so a large mean does not cancel the digits of a small variance.

use burn::backend::Flex;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::Statistics;
use crate::cpu::lanes::{sum, vectorised};
use crate::cpu::real::Real;
use crate::cpu::values::{computed_in, dims, tensor, values};

impl Statistics for Flex {
    fn statistics(x: FlexTensor, groups: Vec<usize>) -> FlexTensor {
        let shape = dims(&x);
        computed_in!(T = x.dtype(); {
            let of_groups = statistics::<T>(&values(&x), shape, &groups);
            tensor(of_groups, [2, groups.len(), shape[1]], T::DTYPE)
        })
    }
}

/// Mean and biased variance of each channel of each group of samples: `[2, groups, channels]`.
pub(crate) fn statistics<T: Real>(x: &[T], [_, channels, height, width]: [usize; 4], groups: &[usize]) -> Vec<T> {
    let plane = height * width;
    let starts = starts(groups);
    let pairs: Vec<(T, T)> = (0..groups.len() * channels)
        .into_par_iter()
        .map(|index| {
            let (group, channel) = (index / channels, index % channels);
            let samples = starts[group]..starts[group] + groups[group];
            let count = (groups[group] * plane) as f64;
            vectorised(
                #[inline(always)]
                || {
                    // Plain loops: the code inside an iterator's methods would be compiled for the baseline instruction set.
                    let (mut total, mut about_centre) = (0.0, 0.0);
                    for sample in samples.clone() {
                        total += sum(&x[(sample * channels + channel) * plane..][..plane], |value| value);
                    }
                    let mean = total / count;
                    let centre = T::of(mean);
                    for sample in samples {
                        let plane = &x[(sample * channels + channel) * plane..][..plane];
                        about_centre += sum(plane, |value| (value - centre) * (value - centre));
                    }
                    about_centre /= count;
                    // `centre` is the mean rounded to the format of the kernel. The error of that rounding is known, and taken out.
                    let error = mean - centre.wide();
                    (centre, T::of((about_centre - error * error).max(0.0)))
                },
            )
        })
        .collect();
    let means = pairs.iter().map(|(mean, _)| *mean);
    means.chain(pairs.iter().map(|(_, variance)| *variance)).collect()
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
            pool.install(|| statistics(&x, shape, &[2, 1]))
        };
        assert_eq!(run(1), run(2));
        assert_eq!(run(1), run(5));
    }
}
