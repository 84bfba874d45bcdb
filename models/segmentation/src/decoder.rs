//! What stands between an encoder's feature maps and the logits.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Tensor;
use kindling_layers::Interpolation;
use kindling_layers::names::Names;
use kindling_layers::trace::{Trace, Value};

/// What makes logits of an encoder's feature maps.
pub trait Decoder: Module + ModuleDisplay + Sync {
    /// How logits are enlarged to the size of the images.
    const ENLARGED: Interpolation;

    /// Maps `[batch, channels, height, width]`, finest first, to logits `[batch, classes, height, width]` of any height and width.
    fn forward(&self, maps: Vec<Tensor<4>>) -> Tensor<4>;

    /// Describes [`Decoder::forward`].
    fn describe(&self, maps: &[Value], trace: &mut Trace) -> Value;

    /// Adds the names of its layers in the library that has the network.
    fn names(&self, names: &mut Names);
}
