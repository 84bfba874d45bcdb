//! What every classifier can do.

use burn::module::Module;
use burn::tensor::Tensor;

/// A network that gives each image a score for each class.
///
/// A network may also say where it can be cut: then a trainer that lacks memory keeps the maps at the cuts only and
/// computes what lies between them again when their gradients are due.
pub trait Classifier: Module {
    /// Images `[batch, in_channels, height, width]` to logits `[batch, classes]`.
    fn forward(&self, images: Tensor<4>) -> Tensor<2>;

    /// How many segments precede [`Classifier::finish`]; none if the network cannot be cut.
    fn segments(&self, _cuts: Cuts) -> usize {
        0
    }

    /// The first segments that do not train: nothing has to be computed again for them.
    fn frozen_segments(&self, _cuts: Cuts) -> usize {
        0
    }

    /// Runs segment `index`; segment 0 takes the images.
    fn run_segment(&self, _cuts: Cuts, _index: usize, x: Tensor<4>) -> Tensor<4> {
        x
    }

    /// What the last segment made (the images, if there are no segments) to logits.
    fn finish(&self, x: Tensor<4>) -> Tensor<2> {
        self.forward(x)
    }
}

/// Where a network is cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// After the stem and after each stage: few maps are kept, and a stage at a time is computed again.
    Stages,
    /// After the stem and after each block: more maps are kept, and only a block at a time is computed again.
    Blocks,
}
