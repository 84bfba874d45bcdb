//! One type for every network of the zoo.

use burn::module::Module;
use burn::tensor::Tensor;
use kindling_layers::Classifier;
use kindling_layers::trace::{Describe, FeatureMap, Trace};
use kindling_mobilenet::MobileNet;

/// A network of the zoo.
///
/// An enum rather than a trait object because Burn's modules are cloned, visited and mapped by type.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one network a process
pub enum Network {
    /// The MobileNet family.
    MobileNet(MobileNet),
}

impl Network {
    /// The reference implementation's name of each layer, as pairs of prefixes (own, reference).
    pub fn reference_prefixes(&self) -> Vec<(String, String)> {
        match self {
            Self::MobileNet(network) => network.reference_prefixes(),
        }
    }

    /// The layers for one square image, in the order they run.
    pub fn trace(&self, in_channels: usize, image_size: usize) -> Trace {
        let mut trace = Trace::default();
        self.describe(FeatureMap::square(in_channels, image_size), &mut trace);
        trace
    }
}

impl Classifier for Network {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        match self {
            Self::MobileNet(network) => network.forward(images),
        }
    }
}

impl Describe for Network {
    fn describe(&self, input: FeatureMap, trace: &mut Trace) -> FeatureMap {
        match self {
            Self::MobileNet(network) => network.describe(input, trace),
        }
    }
}
