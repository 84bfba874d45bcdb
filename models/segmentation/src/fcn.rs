//! FCN: "Fully Convolutional Networks for Semantic Segmentation", Long et al. 2015, <https://arxiv.org/abs/1411.4038>, as torchvision
//! builds it: without the paper's skips, on an encoder that divides less. It is torchvision's auxiliary classifier, too.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{BiasedConv2d, Conv2dConfig, ConvNorm, Dropout, Interpolation};

use crate::aspp::conv_relu;
use crate::decoder::Decoder;

/// A 3x3 convolution of the encoder's last map to a quarter of its channels, and a 1x1 convolution to the logits.
#[derive(Module, Debug)]
pub struct Fcn {
    /// The 3x3 convolution.
    pub conv: ConvNorm,
    #[module(skip)]
    dropout: Dropout,
    /// To one logit a class.
    pub head: BiasedConv2d,
}

impl Fcn {
    /// Share of the values that are dropped before the logits, in torchvision.
    pub(crate) const DROP_RATE: f64 = 0.1;

    pub(crate) fn new(input: usize, classes: usize, dropout: Dropout, device: &Device) -> Self {
        let between = input / 4;
        Self {
            conv: conv_relu(Conv2dConfig::new(input, between, 3, 1), device),
            dropout,
            head: BiasedConv2d::new(Conv2dConfig::pointwise(between, classes), device),
        }
    }

    /// Adds the names of its layers, which torchvision has under the path `reference`.
    pub(crate) fn names_in(&self, own: &str, reference: &str, names: &mut Names) {
        names.conv_norm(&format!("{own}.conv"), &format!("{reference}.0"), &format!("{reference}.1"));
        names.plain(&format!("{own}.head"), &format!("{reference}.4"));
    }
}

impl Decoder for Fcn {
    const ENLARGED: Interpolation = Interpolation::Bilinear;

    /// Reads the last map.
    fn forward(&self, mut maps: Vec<Tensor<4>>) -> Tensor<4> {
        let x = maps.pop().expect("an encoder makes maps");
        drop(maps);
        self.head.forward(self.dropout.forward(self.conv.forward(x)))
    }

    fn describe(&self, maps: &[Value], trace: &mut Trace) -> Value {
        let x = *maps.last().expect("an encoder makes maps");
        let x = trace.scope("conv", |trace| self.conv.describe(x, trace));
        trace.scope("head", |trace| self.head.describe(x, trace))
    }

    fn names(&self, names: &mut Names) {
        self.names_in("decoder", "classifier", names);
    }
}
