//! What every classifier can do.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::Checkpointing;

/// A network that gives each image a score for each class.
///
/// A network may also say where it can be cut into segments: then a trainer that lacks memory keeps what the segments hand on
/// and computes what lies inside them again when its gradients are due ([`Checkpointing`]).
pub trait Classifier: Module {
    /// Images `[batch, in_channels, height, width]` to logits `[batch, classes]`.
    fn forward(&self, images: Tensor<4>) -> Tensor<2>;

    /// How many segments precede [`Classifier::finish`]; none if the network cannot be cut, or is not to be.
    fn segments(&self, _checkpointing: Checkpointing) -> usize {
        0
    }

    /// The first segments that do not train: nothing has to be computed again for them.
    fn frozen_segments(&self, _checkpointing: Checkpointing) -> usize {
        0
    }

    /// Runs segment `index`; segment 0 takes the images.
    fn run_segment(&self, _checkpointing: Checkpointing, _index: usize, x: Tensor<4>) -> Tensor<4> {
        x
    }

    /// What the last segment made (the images, if there are no segments) to logits.
    fn finish(&self, x: Tensor<4>) -> Tensor<2> {
        self.forward(x)
    }
}
