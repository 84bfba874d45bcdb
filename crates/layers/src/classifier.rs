//! The trait that every classifier implements.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::Checkpointing;

/// A network that gives each image a score for each class.
///
/// A network may also be divided into segments. A trainer that lacks memory then keeps only the maps between segments, and
/// recomputes the inside of a segment in the backward pass ([`Checkpointing`]).
pub trait Classifier: Module + Sync {
    /// Images `[batch, in_channels, height, width]` to logits `[batch, classes]`.
    fn forward(&self, images: Tensor<4>) -> Tensor<2>;

    /// Number of segments before [`Classifier::finish`]; 0 if the network cannot be divided, or is not to be.
    fn segments(&self, _checkpointing: Checkpointing) -> usize {
        0
    }

    /// How many of the first segments are frozen. They have no backward pass, so nothing is recomputed for them.
    fn frozen_segments(&self, _checkpointing: Checkpointing) -> usize {
        0
    }

    /// Runs segment `index`; segment 0 takes the images.
    fn run_segment(&self, _checkpointing: Checkpointing, _index: usize, x: Tensor<4>) -> Tensor<4> {
        x
    }

    /// The output of the last segment, or the images if there are no segments, to logits.
    fn finish(&self, x: Tensor<4>) -> Tensor<2> {
        self.forward(x)
    }
}
