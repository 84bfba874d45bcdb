//! The normalisation with known statistics and the activation of a layer of a block.

use burn::backend::Flex;
use burn::tensor::DType;

use super::Layer;
use crate::activation::cpu::Exact;
use crate::convolution::cpu::depthwise::Split;
use crate::cpu::values::{Source, Stored, dims, values};
use crate::deferred::cpu::normalisation::NormAct;
use crate::deferred::cpu::reading::{normalise, normalise_split, normalise_stored};

impl Layer<Flex> {
    /// For maps of a format.
    pub(super) fn normed<T: Stored>(&self, format: DType) -> Normed<T> {
        let [channels, ..] = dims(&self.filters);
        let (weight, bias, statistics) = (values(&self.weight), values(&self.bias), values(&self.statistics));
        // One set of statistics for all samples, whatever their size.
        let norm = NormAct::new([1, channels, 1, 1], &weight, &bias, &statistics, &[1], self.epsilon);
        Normed { norm, activation: Exact { activation: self.activation, to_bf16: format == DType::BF16 } }
    }
}

/// Normalisation and activation.
pub(super) struct Normed<T> {
    norm: NormAct<T>,
    activation: Exact,
}

impl<T: Stored> Normed<T> {
    pub(super) fn apply(&self, channel: usize, x: Source<'_, T>, out: &mut [T]) {
        normalise(self.activation, self.norm.of_plane(channel), x, out);
    }

    /// The same of numbers that a layer would store as bf16, and as this one would store them.
    pub(super) fn apply_stored(&self, channel: usize, x: &[T], out: &mut [u16]) {
        normalise_stored(self.activation, self.norm.of_plane(channel), x, out);
    }

    /// [`Normed::apply`] to whole rows, which are split.
    pub(super) fn split(&self, channel: usize, x: Source<'_, T>, to: &mut [T], split: &Split, buffer: &mut Vec<T>) {
        normalise_split(self.activation, self.norm.of_plane(channel), x, to, split, buffer);
    }
}
