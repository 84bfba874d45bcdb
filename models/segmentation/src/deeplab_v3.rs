//! DeepLabV3: "Rethinking Atrous Convolution for Semantic Image Segmentation", Chen et al. 2017, <https://arxiv.org/abs/1706.05587>, as
//! torchvision builds it.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{BiasedConv2d, Conv2dConfig, ConvNorm, Interpolation};

use crate::aspp::{Aspp, CHANNELS, conv_relu};
use crate::decoder::Decoder;

/// Pyramid pooling of the encoder's last map, a 3x3 convolution, and a 1x1 convolution to the logits.
#[derive(Module, Debug)]
pub struct DeepLabV3 {
    /// The pyramid.
    pub aspp: Aspp,
    /// The 3x3 convolution.
    pub conv: ConvNorm,
    /// To one logit a class.
    pub head: BiasedConv2d,
}

impl DeepLabV3 {
    /// Share of the values that are dropped after the pyramid, in torchvision.
    pub(crate) const DROP_RATE: f64 = 0.5;

    pub(crate) fn new(input: usize, classes: usize, drop_rate: f64, device: &Device) -> Self {
        Self {
            aspp: Aspp::new(input, false, drop_rate, device),
            conv: conv_relu(Conv2dConfig::new(CHANNELS, CHANNELS, 3, 1), device),
            head: BiasedConv2d::new(Conv2dConfig::pointwise(CHANNELS, classes), device),
        }
    }
}

impl Decoder for DeepLabV3 {
    const ENLARGED: Interpolation = Interpolation::Bilinear;

    /// Reads the last map.
    fn forward(&self, mut maps: Vec<Tensor<4>>) -> Tensor<4> {
        let x = maps.pop().expect("an encoder makes maps");
        drop(maps);
        self.head.read(self.conv.pass(self.aspp.forward(x).into()))
    }

    fn describe(&self, maps: &[Value], trace: &mut Trace) -> Value {
        let x = *maps.last().expect("an encoder makes maps");
        let x = trace.scope("aspp", |trace| self.aspp.describe(x, trace));
        let x = trace.scope("conv", |trace| self.conv.describe(x, trace));
        trace.scope("head", |trace| self.head.describe(x, trace))
    }

    fn names(&self, names: &mut Names) {
        self.aspp.names("decoder.aspp", "classifier.0", names);
        names.conv_norm("decoder.conv", "classifier.1", "classifier.2");
        names.plain("decoder.head", "classifier.4");
    }
}
