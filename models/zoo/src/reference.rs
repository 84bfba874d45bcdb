//! The reference implementations' names for a model's tensors.

use burn::tensor::TensorData;
use kindling_layers::parameters::{self, Mismatch};
use kindling_layers::tensors::Tensors;

use crate::network::Network;

/// Fills a network from tensors under the reference implementation's names (torchvision's here).
///
/// The 1x1 convolutions of squeeze-excite are linear layers in Kindling; their weights lose two axes of length one.
///
/// # Errors
/// The first tensor, by Kindling's name if it is one of the model's, that is missing, unknown or of another shape.
pub fn load(network: Network, tensors: Tensors) -> Result<Network, Mismatch> {
    let slots = parameters::slots(&network);
    let prefixes = network.reference_prefixes();
    let mut own = Tensors::new();
    for (name, data) in tensors {
        let (prefix, leaf) = name.rsplit_once('.').unwrap_or(("", &name));
        let Some((layer, _)) = prefixes.iter().find(|(_, reference)| reference == prefix) else {
            return Err(Mismatch::Unexpected(name));
        };
        let own_name = format!("{layer}.{leaf}");
        let expected = slots.iter().find(|slot| slot.name == own_name).map(|slot| slot.shape.as_slice());
        let data = match (data.shape().as_slice(), expected) {
            (&[output, input, 1, 1], Some([_, _])) => {
                let (bytes, _, dtype) = data.into_parts();
                TensorData::from_bytes(bytes, [output, input], dtype)
            }
            _ => data,
        };
        own.insert(own_name, data);
    }
    parameters::write(network, own)
}
