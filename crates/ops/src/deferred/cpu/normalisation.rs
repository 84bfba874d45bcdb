//! The factors and shifts of a normalisation, and its gradients; [`super::reading`] applies them.

use super::sums::Sums;
use crate::cpu::real::Real;
use crate::cpu::values::Elements;

/// Normalisation with known statistics.
pub(crate) struct NormAct<T> {
    pub(crate) channels: usize,
    /// Pixels of a plane.
    pub(crate) plane: usize,
    /// Pixels of a row.
    pub(crate) width: usize,
    groups: Vec<usize>,
    /// The group of each sample.
    group_of: Vec<usize>,
    /// `[groups, channels]`.
    per_channel: Vec<PerChannel<T>>,
}

/// The coefficients of a channel in a group. `x * scale + shift` is the normalised value after scale and shift, and
/// `(x - mean) * inverse` the one before.
#[derive(Clone, Copy)]
pub(crate) struct PerChannel<T> {
    pub(crate) scale: T,
    pub(crate) shift: T,
    pub(crate) mean: T,
    pub(crate) inverse: T,
}

impl<T: Real> PerChannel<T> {
    /// For maps of bf16, which are computed in float32.
    pub(crate) fn in_float32(self) -> PerChannel<f32> {
        let Self { scale, shift, mean, inverse } = self;
        let [scale, shift, mean, inverse] = [scale, shift, mean, inverse].map(|number| number.wide() as f32);
        PerChannel { scale, shift, mean, inverse }
    }
}

/// The gradients of a deferred map.
pub(crate) struct Gradients<T> {
    /// The gradient of the map, in its shape and format.
    pub(crate) x: Elements<T>,
    /// The gradients of scale and shift, `[channels]`.
    pub(crate) weight: Vec<T>,
    pub(crate) bias: Vec<T>,
    /// The gradient of the factor of each plane; zeros if there are no factors.
    pub(crate) gate: Vec<T>,
}

impl<T: Real> NormAct<T> {
    pub(crate) fn new(
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
        Self { channels, plane: height * width, width, groups: groups.to_vec(), group_of, per_channel }
    }

    /// The coefficients of plane `index`, counted over samples and channels.
    pub(crate) fn of_plane(&self, index: usize) -> PerChannel<T> {
        self.per_channel[self.slot(index)]
    }

    /// How many channels there are in all groups.
    pub(crate) fn slots(&self) -> usize {
        self.per_channel.len()
    }

    /// The index of the group and channel of a plane.
    pub(crate) fn slot(&self, index: usize) -> usize {
        self.group_of[index / self.channels] * self.channels + index % self.channels
    }

    /// Adds up the sums of planes over the samples of each group, in their order: `[groups, channels]`.
    pub(crate) fn over_samples(&self, of_planes: &[Sums]) -> Vec<Sums> {
        let mut of_channels = vec![Sums::default(); self.per_channel.len()];
        for (index, sums) in of_planes.iter().enumerate() {
            of_channels[self.slot(index)] += *sums;
        }
        of_channels
    }

    /// The two means over the group that the gradient of plane `index` needs, from the sums of its channel over the group.
    pub(crate) fn means(&self, index: usize, of_channel: Sums) -> (T, T) {
        let count = (self.groups[self.group_of[index / self.channels]] * self.plane) as f64;
        let (sum, weighted) = of_channel.normalised;
        (T::of(sum / count), T::of(weighted / count))
    }

    /// Adds the gradients of the parameters, which follow from the sums of each group and channel.
    pub(crate) fn gradients(&self, x: Elements<T>, of_channels: &[Sums], gate: Vec<T>) -> Gradients<T> {
        let over_groups = |part: fn(&Sums) -> f64| {
            (0..self.channels)
                .map(|channel| T::of(of_channels.iter().skip(channel).step_by(self.channels).map(part).sum::<f64>()))
                .collect()
        };
        let (weight, bias) = (over_groups(|sums| sums.normalised.1), over_groups(|sums| sums.normalised.0));
        Gradients { x, weight, bias, gate }
    }
}
