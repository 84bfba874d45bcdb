//! The normalisation with known statistics and the activation of a layer of a block.

use burn::backend::Flex;

use super::Layer;
use crate::activation::Activation;
use crate::convolution::cpu::depthwise::Split;
use crate::cpu::elements::Filled;
use crate::cpu::values::{Source, Stored, dims, values};
use crate::deferred::cpu::normalisation::NormAct;
use crate::deferred::cpu::reading::{normalise, normalise_split};

impl Layer<Flex> {
    pub(super) fn normed<T: Stored>(&self) -> Normed<T> {
        let [channels, ..] = dims(&self.filters);
        let (weight, bias, statistics) = (values(&self.weight), values(&self.bias), values(&self.statistics));
        // One set of statistics for all samples, whatever their size.
        let norm = NormAct::new([1, channels, 1, 1], &weight, &bias, &statistics, &[1], self.epsilon);
        Normed { norm, activation: self.activation }
    }
}

/// Normalisation and activation.
pub(super) struct Normed<T> {
    norm: NormAct<T>,
    activation: Activation,
}

impl<T: Stored> Normed<T> {
    pub(super) fn apply<Y: Filled<T>>(&self, channel: usize, x: Source<'_, T>, out: &mut [Y]) {
        normalise(self.activation, self.norm.of_plane(channel), x, out);
    }

    /// [`Normed::apply`] to whole rows, which are split.
    pub(super) fn split(&self, channel: usize, x: Source<'_, T>, to: &mut [T], split: &Split, buffer: &mut Vec<T>) {
        normalise_split(self.activation, self.norm.of_plane(channel), x, to, split, buffer);
    }
}
