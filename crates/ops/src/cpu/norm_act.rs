//! The statistics and the numbers of a normalisation; [`super::reading`] applies them.

use rayon::prelude::*;

use super::lanes::{sum, vectorised};
use super::reading::Sums;
use super::real::Real;

/// Mean and biased variance of each channel of each group of samples: `[2, groups, channels]`.
pub(super) fn statistics<T: Real>(x: &[T], [_, channels, height, width]: [usize; 4], groups: &[usize]) -> Vec<T> {
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
                    // Loops: an iterator's own loop keeps the instructions of the build.
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
                    // The centre is the mean rounded to the map's format; its error is known.
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

/// Normalisation with known statistics.
pub(super) struct NormAct<T> {
    channels: usize,
    /// Pixels of a plane.
    pub(super) plane: usize,
    groups: Vec<usize>,
    /// The group of each sample.
    group_of: Vec<usize>,
    /// For each group and channel.
    per_channel: Vec<PerChannel<T>>,
}

/// `z = x * scale + shift` is the normalised value with scale and shift; `(x - mean) * inverse` the one without.
#[derive(Clone, Copy)]
pub(super) struct PerChannel<T> {
    pub(super) scale: T,
    pub(super) shift: T,
    pub(super) mean: T,
    pub(super) inverse: T,
}

/// What a normalisation and the reading of its output hand back.
pub(super) struct Gradients<T> {
    /// Of the map, in its shape.
    pub(super) x: Vec<T>,
    /// Of scale and shift, `[channels]`.
    pub(super) weight: Vec<T>,
    pub(super) bias: Vec<T>,
    /// Of the factor of each plane, if there were factors.
    pub(super) gate: Vec<T>,
}

impl<T: Real> NormAct<T> {
    pub(super) fn new(
        [batch, channels, height, width]: [usize; 4],
        weight: &[T],
        bias: &[T],
        statistics: &[T],
        groups: &[usize],
        epsilon: f64,
    ) -> Self {
        let (means, variances) = statistics.split_at(groups.len() * channels);
        let per_channel = means
            .iter()
            .zip(variances)
            .enumerate()
            .map(|(index, (&mean, &variance))| {
                let channel = index % channels;
                let inverse = T::of(1.0 / (variance.wide() + epsilon).sqrt());
                let scale = weight[channel] * inverse;
                PerChannel { scale, shift: bias[channel] - mean * scale, mean, inverse }
            })
            .collect();
        let group_of = groups.iter().enumerate().flat_map(|(group, &size)| std::iter::repeat_n(group, size)).collect();
        debug_assert_eq!(groups.iter().sum::<usize>(), batch);
        Self { channels, plane: height * width, groups: groups.to_vec(), group_of, per_channel }
    }

    /// The numbers of plane `index`, counted over samples and channels.
    pub(super) fn of_plane(&self, index: usize) -> PerChannel<T> {
        self.per_channel[self.slot(index)]
    }

    /// Where the numbers of a plane's group and channel are.
    fn slot(&self, index: usize) -> usize {
        self.group_of[index / self.channels] * self.channels + index % self.channels
    }

    /// Sums of planes added up over the samples of a group, in their order: for each group and channel.
    pub(super) fn over_samples(&self, of_planes: &[Sums]) -> Vec<Sums> {
        let mut of_channels = vec![Sums::default(); self.per_channel.len()];
        for (index, sums) in of_planes.iter().enumerate() {
            of_channels[self.slot(index)] += *sums;
        }
        of_channels
    }

    /// The means behind the gradient of plane `index`.
    pub(super) fn means(&self, index: usize, of_channels: &[Sums]) -> (T, T) {
        let count = (self.groups[self.group_of[index / self.channels]] * self.plane) as f64;
        let (sum, weighted) = of_channels[self.slot(index)].normalised;
        (T::of(sum / count), T::of(weighted / count))
    }

    /// The gradients, with those of the parameters from the sums of each group and channel.
    pub(super) fn gradients(&self, x: Vec<T>, of_channels: &[Sums], gate: Vec<T>) -> Gradients<T> {
        let over_groups = |part: fn(&Sums) -> f64| {
            (0..self.channels)
                .map(|channel| T::of(of_channels.iter().skip(channel).step_by(self.channels).map(part).sum::<f64>()))
                .collect()
        };
        let (weight, bias) = (over_groups(|sums| sums.normalised.1), over_groups(|sums| sums.normalised.0));
        Gradients { x, weight, bias, gate }
    }
}
