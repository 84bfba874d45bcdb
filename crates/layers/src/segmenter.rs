//! The trait that every network of pixels implements.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::Checkpointing;

/// A network that gives each pixel of an image a score for each class.
///
/// As a [`Classifier`](crate::Classifier) it may be divided into segments. What a decoder will read of earlier maps is handed on from
/// segment to segment, so that a segment takes and makes several maps.
pub trait Segmenter: Module + Sync {
    /// Images `[batch, in_channels, height, width]` to logits `[batch, classes, height, width]`, in float32 for half formats. In a training
    /// pass a network with an auxiliary classifier makes `[batch, 2 * classes, height, width]`, of which the second half is that one's.
    fn forward(&self, images: Tensor<4>) -> Tensor<4>;

    /// Number of segments before [`Segmenter::finish`]; 0 if the network cannot be divided, or is not to be.
    fn segments(&self, _checkpointing: Checkpointing) -> usize {
        0
    }

    /// How many of the first segments are frozen. They have no backward pass, so nothing is recomputed for them.
    fn frozen_segments(&self, _checkpointing: Checkpointing) -> usize {
        0
    }

    /// Runs segment `index`. Segment 0 takes the images alone, and the last one makes one map.
    fn run_segment(&self, _checkpointing: Checkpointing, _index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        maps
    }

    /// The map of the last segment, or the images if there are no segments, to logits.
    fn finish(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward(x)
    }
}
