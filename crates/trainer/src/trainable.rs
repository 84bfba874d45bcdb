//! Networks that the step engine trains, whatever shape their logits have.

use burn::module::Module;
use burn::tensor::Tensor;
use kindling_layers::{Checkpointing, Classifier, Segmenter};

/// A network from images to logits with `D` axes: 2 for classes of images, 4 for classes of pixels. Every [`Classifier`] and every
/// [`Segmenter`] is one.
pub trait Trainable<const D: usize>: Module + Sync {
    /// Images `[batch, in_channels, height, width]` to logits.
    fn logits(&self, images: Tensor<4>) -> Tensor<D>;

    /// As [`Segmenter::segments`].
    fn segments(&self, checkpointing: Checkpointing) -> usize;

    /// As [`Segmenter::frozen_segments`].
    fn frozen_segments(&self, checkpointing: Checkpointing) -> usize;

    /// As [`Segmenter::run_segment`].
    fn run_segment(&self, checkpointing: Checkpointing, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>>;

    /// As [`Segmenter::finish`].
    fn finish(&self, x: Tensor<4>) -> Tensor<D>;
}

impl<M: Classifier> Trainable<2> for M {
    fn logits(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward(images)
    }

    fn segments(&self, checkpointing: Checkpointing) -> usize {
        Classifier::segments(self, checkpointing)
    }

    fn frozen_segments(&self, checkpointing: Checkpointing) -> usize {
        Classifier::frozen_segments(self, checkpointing)
    }

    fn run_segment(&self, checkpointing: Checkpointing, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        maps.into_iter().map(|x| Classifier::run_segment(self, checkpointing, index, x)).collect()
    }

    fn finish(&self, x: Tensor<4>) -> Tensor<2> {
        Classifier::finish(self, x)
    }
}

impl<M: Segmenter> Trainable<4> for M {
    fn logits(&self, images: Tensor<4>) -> Tensor<4> {
        self.forward(images)
    }

    fn segments(&self, checkpointing: Checkpointing) -> usize {
        Segmenter::segments(self, checkpointing)
    }

    fn frozen_segments(&self, checkpointing: Checkpointing) -> usize {
        Segmenter::frozen_segments(self, checkpointing)
    }

    fn run_segment(&self, checkpointing: Checkpointing, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        Segmenter::run_segment(self, checkpointing, index, maps)
    }

    fn finish(&self, x: Tensor<4>) -> Tensor<4> {
        Segmenter::finish(self, x)
    }
}
