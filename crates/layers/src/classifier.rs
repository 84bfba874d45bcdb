//! What every classifier can do.

use burn::module::Module;
use burn::tensor::Tensor;

/// A network that gives each image a score for each class.
pub trait Classifier: Module {
    /// Images `[batch, in_channels, height, width]` to logits `[batch, classes]`.
    fn forward(&self, images: Tensor<4>) -> Tensor<2>;
}
