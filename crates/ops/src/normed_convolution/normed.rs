//! The normalisation with known statistics and the activation of a layer.

use burn::backend::Flex;
use burn::tensor::DType;

use super::Layer;
use crate::activation::cpu::Exact;
use crate::convolution::cpu::depthwise::Split;
use crate::cpu::tensors::{dims, values};
use crate::cpu::values::{Source, Stored};
use crate::deferred::cpu::epilogue::Epilogue;
use crate::deferred::cpu::normalisation::NormAct;
use crate::deferred::cpu::reading::{normalise, normalise_split, normalise_stored};

impl Layer<Flex> {
    /// For maps of a format, a channel at a time.
    pub(crate) fn normed<T: Stored>(&self, format: DType) -> Normed<T> {
        let [channels, ..] = dims(&self.filters);
        // One set of statistics for all samples, whatever their size.
        Normed { norm: self.norm([1, channels, 1, 1]), activation: self.activation(format) }
    }

    /// What follows the convolution of a map of a format, with an output of this shape, which the shortcut has.
    pub(crate) fn epilogue<'a, T: Stored>(
        &self,
        output: [usize; 4],
        format: DType,
        shortcut: Option<Source<'a, T>>,
    ) -> Epilogue<'a, T> {
        Epilogue { norm: self.norm(output), shortcut, activation: self.activation(format) }
    }

    fn norm<T: Stored>(&self, shape: [usize; 4]) -> NormAct<T> {
        let (weight, bias, statistics) = (values(&self.weight), values(&self.bias), values(&self.statistics));
        NormAct::new(shape, &weight, &bias, &statistics, &[shape[0]], self.epsilon)
    }

    fn activation(&self, format: DType) -> Exact {
        Exact { activation: self.activation, to_bf16: format == DType::BF16 }
    }
}

/// Normalisation and activation.
pub(crate) struct Normed<T> {
    norm: NormAct<T>,
    activation: Exact,
}

impl<T: Stored> Normed<T> {
    pub(crate) fn apply(&self, channel: usize, x: Source<'_, T>, out: &mut [T]) {
        normalise(self.activation, self.norm.of_plane(channel), x, out);
    }

    /// The same of numbers that a layer would store as bf16, and as this one would store them.
    pub(crate) fn apply_stored(&self, channel: usize, x: &[T], out: &mut [u16]) {
        normalise_stored(self.activation, self.norm.of_plane(channel), x, out);
    }

    /// [`Normed::apply`] to whole rows, which are split.
    pub(crate) fn split(&self, channel: usize, x: Source<'_, T>, to: &mut [T], split: &Split, buffer: &mut Vec<T>) {
        normalise_split(self.activation, self.norm.of_plane(channel), x, to, split, buffer);
    }
}
