//! Normalisation and activation in one pass over the data.
//!
//! For backward only the input and per-channel numbers are needed: what the activation saw is computed again from them.

use rayon::prelude::*;

use super::activation::{ForActivation, Function, dispatch};
use super::lanes::{sum, sum_pairs, vectorised};
use crate::activation::Activation;

/// Mean and biased variance of each channel of each group of samples: `[2, groups, channels]`.
pub(super) fn statistics(x: &[f32], [_, channels, height, width]: [usize; 4], groups: &[usize]) -> Vec<f32> {
    let plane = height * width;
    let starts = starts(groups);
    let pairs: Vec<(f32, f32)> = (0..groups.len() * channels)
        .into_par_iter()
        .map(|index| {
            let (group, channel) = (index / channels, index % channels);
            let planes = || {
                (starts[group]..starts[group] + groups[group])
                    .map(move |sample| &x[(sample * channels + channel) * plane..][..plane])
            };
            let count = (groups[group] * plane) as f64;
            vectorised(
                #[inline(always)]
                || {
                    let mean = planes().map(|plane| sum(plane, |value| value)).sum::<f64>() / count;
                    let centre = mean as f32;
                    let square = |value: f32| (value - centre) * (value - centre);
                    let about_centre = planes().map(|plane| sum(plane, square)).sum::<f64>() / count;
                    // The centre is the mean rounded to float32; its error is known.
                    let error = mean - f64::from(centre);
                    (centre, (about_centre - error * error).max(0.0) as f32)
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

/// Normalisation with known statistics.
pub(super) struct NormAct {
    channels: usize,
    plane: usize,
    groups: Vec<usize>,
    /// The group of each sample.
    group_of: Vec<usize>,
    /// For each group and channel.
    per_channel: Vec<PerChannel>,
}

/// `z = x * scale + shift` is the normalised value with scale and shift; `(x - mean) * inverse` the one without.
#[derive(Clone, Copy)]
struct PerChannel {
    scale: f32,
    shift: f32,
    mean: f32,
    inverse: f32,
}

/// What [`NormAct::backward`] returns.
pub(super) struct Gradients {
    pub(super) x: Vec<f32>,
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl NormAct {
    pub(super) fn new(
        [batch, channels, height, width]: [usize; 4],
        weight: &[f32],
        bias: &[f32],
        statistics: &[f32],
        groups: Vec<usize>,
        epsilon: f64,
    ) -> Self {
        let (means, variances) = statistics.split_at(groups.len() * channels);
        let per_channel = means
            .iter()
            .zip(variances)
            .enumerate()
            .map(|(index, (&mean, &variance))| {
                let channel = index % channels;
                let inverse = (1.0 / (f64::from(variance) + epsilon).sqrt()) as f32;
                let scale = weight[channel] * inverse;
                PerChannel { scale, shift: bias[channel] - mean * scale, mean, inverse }
            })
            .collect();
        let group_of = groups.iter().enumerate().flat_map(|(group, &size)| std::iter::repeat_n(group, size)).collect();
        debug_assert_eq!(groups.iter().sum::<usize>(), batch);
        Self { channels, plane: height * width, groups, group_of, per_channel }
    }

    /// The numbers of plane `index`, counted over samples and channels.
    fn of_plane(&self, index: usize) -> PerChannel {
        self.per_channel[self.group_of[index / self.channels] * self.channels + index % self.channels]
    }

    /// The output for `x`.
    pub(super) fn forward(&self, x: &[f32], activation: Activation) -> Vec<f32> {
        dispatch(activation, Forward { norm: self, x })
    }

    /// The gradients for the gradient `dy` of the output.
    pub(super) fn backward(&self, x: &[f32], dy: &[f32], activation: Activation) -> Gradients {
        dispatch(activation, Backward { norm: self, x, dy })
    }
}

struct Forward<'a> {
    norm: &'a NormAct,
    x: &'a [f32],
}

impl ForActivation for Forward<'_> {
    type Output = Vec<f32>;

    fn run<F: Function>(self, _: F) -> Vec<f32> {
        let plane = self.norm.plane;
        let mut y = vec![0.0; self.x.len()];
        y.par_chunks_mut(plane).zip(self.x.par_chunks(plane)).enumerate().for_each(|(index, (y, x))| {
            let PerChannel { scale, shift, .. } = self.norm.of_plane(index);
            vectorised(
                #[inline(always)]
                || {
                    for (y, x) in y.iter_mut().zip(x) {
                        *y = F::value(*x * scale + shift);
                    }
                },
            );
        });
        y
    }
}

struct Backward<'a> {
    norm: &'a NormAct,
    x: &'a [f32],
    dy: &'a [f32],
}

impl ForActivation for Backward<'_> {
    type Output = Gradients;

    fn run<F: Function>(self, _: F) -> Gradients {
        let Self { norm, x, dy } = self;
        let (plane, channels) = (norm.plane, norm.channels);
        // Sums over each plane of dz and of dz times the normalised value.
        let of_planes: Vec<(f64, f64)> = x
            .par_chunks(plane)
            .zip(dy.par_chunks(plane))
            .enumerate()
            .map(|(index, (x, dy))| {
                let PerChannel { scale, shift, mean, inverse } = norm.of_plane(index);
                vectorised(
                    #[inline(always)]
                    || {
                        sum_pairs(x, dy, |x, dy| {
                            let dz = dy * F::derivative(x * scale + shift);
                            (dz, dz * (x - mean) * inverse)
                        })
                    },
                )
            })
            .collect();
        // Added up in the order of the samples, whatever thread made them.
        let mut of_channels = vec![(0.0f64, 0.0f64); norm.per_channel.len()];
        for (index, sums) in of_planes.iter().enumerate() {
            let slot = &mut of_channels[norm.group_of[index / channels] * channels + index % channels];
            *slot = (slot.0 + sums.0, slot.1 + sums.1);
        }

        let mut dx = vec![0.0; x.len()];
        dx.par_chunks_mut(plane).zip(x.par_chunks(plane)).zip(dy.par_chunks(plane)).enumerate().for_each(
            |(index, ((dx, x), dy))| {
                let PerChannel { scale, shift, mean, inverse } = norm.of_plane(index);
                let group = norm.group_of[index / channels];
                let count = (norm.groups[group] * plane) as f64;
                let (sum, weighted) = of_channels[group * channels + index % channels];
                let (centre, slope) = ((sum / count) as f32, (weighted / count) as f32);
                vectorised(
                    #[inline(always)]
                    || {
                        for ((dx, x), dy) in dx.iter_mut().zip(x).zip(dy) {
                            let dz = *dy * F::derivative(*x * scale + shift);
                            *dx = scale * (dz - centre - (*x - mean) * inverse * slope);
                        }
                    },
                );
            },
        );
        let over_groups = |part: fn(&(f64, f64)) -> f64| {
            (0..channels)
                .map(|channel| of_channels.iter().skip(channel).step_by(channels).map(part).sum::<f64>() as f32)
                .collect()
        };
        Gradients { x: dx, weight: over_groups(|sums| sums.1), bias: over_groups(|sums| sums.0) }
    }
}
