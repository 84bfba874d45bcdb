//! From an image of 64x64 to a score.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{Activation, Conv2d, Conv2dConfig};

use crate::dcgan::{DcganConfig, WIDTHS};
use crate::down::DownConv;

/// A layer without normalisation to 32x32, three with it to 16x16, 8x8 and 4x4, and one to the score; leaky ReLU
/// between them.
///
/// PyTorch's example ends in a sigmoid, for the loss of the paper. This one does not, for the hinge loss.
#[derive(Module, Debug)]
pub struct DcganDiscriminator {
    /// From the image.
    pub stem: Conv2d,
    /// The layers with normalisation.
    pub layers: Vec<DownConv>,
    /// From the last map, 4x4, to the score.
    pub score: Conv2d,
}

impl DcganDiscriminator {
    pub(crate) fn new(config: &DcganConfig, device: &Device) -> Self {
        let widths = WIDTHS.map(|width| width * config.features);
        Self {
            stem: Conv2dConfig::halving(config.channels, config.features).init(device),
            layers: widths.windows(2).rev().map(|pair| DownConv::new(pair[1], pair[0], device)).collect(),
            score: Conv2dConfig::valid(widths[0], 1, 4).init(device),
        }
    }

    /// Images `[batch, channels, 64, 64]` in `[-1, 1]` to scores `[batch, 1]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = Activation::LeakyRelu.forward(self.stem.forward(images));
        let x = self.layers.iter().fold(x, |x, layer| layer.forward(x));
        self.score.forward(x).flatten(1, 3)
    }
}

impl Describe for DcganDiscriminator {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = trace.scope("stem", |trace| {
            let x = self.stem.describe(input, trace);
            trace.activation(Activation::LeakyRelu, x)
        });
        for (index, layer) in self.layers.iter().enumerate() {
            x = trace.scope(format!("layers.{index}"), |trace| layer.describe(x, trace));
        }
        trace.scope("score", |trace| self.score.describe(x, trace))
    }
}
