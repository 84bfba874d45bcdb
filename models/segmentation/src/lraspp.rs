//! Lite R-ASPP: "Searching for MobileNetV3", Howard et al. 2019, <https://arxiv.org/abs/1905.02244>, section 6.4 and figure 10, as
//! torchvision builds it.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Op, Trace, Value};
use kindling_layers::{
    Activation, BiasedConv2d, Conv2d, Conv2dConfig, ConvNorm, Interpolation, describe_resized, precision, resized,
};

use crate::aspp::{conv_relu, describe_mean_pixel, mean_pixel};
use crate::decoder::Decoder;

/// Channels of the map that is gated.
const CHANNELS: usize = 128;

/// A 1x1 convolution of the encoder's last map, gated by its mean and enlarged to the map before it; logits are the sum of those of
/// both maps.
#[derive(Module, Debug)]
pub struct Lraspp {
    /// The 1x1 convolution of the last map.
    pub conv: ConvNorm,
    /// The 1x1 convolution of its mean, to the gate.
    pub gate: Conv2d,
    /// From the finer map to one logit a class.
    pub low: BiasedConv2d,
    /// From the gated map to one logit a class.
    pub high: BiasedConv2d,
}

impl Lraspp {
    /// For an encoder whose two maps have these channels.
    pub(crate) fn new([low, high]: [usize; 2], classes: usize, device: &Device) -> Self {
        let to_logits = |input| BiasedConv2d::new(Conv2dConfig::pointwise(input, classes), device);
        Self {
            conv: conv_relu(Conv2dConfig::pointwise(high, CHANNELS), device),
            gate: Conv2dConfig::pointwise(high, CHANNELS).init(device),
            low: to_logits(low),
            high: to_logits(CHANNELS),
        }
    }
}

impl Decoder for Lraspp {
    const ENLARGED: Interpolation = Interpolation::Bilinear;

    fn forward(&self, mut maps: Vec<Tensor<4>>) -> Tensor<4> {
        let high = maps.pop().expect("an encoder makes maps");
        let low = maps.pop().expect("and this one two");
        drop(maps);
        let gate = precision::full(self.gate.forward(mean_pixel(&high))).flatten(1, 3);
        let gate = Activation::Sigmoid.forward(gate);
        let x = self.conv.pass(high.into()).gated(gate).whole();
        let [.., height, width] = low.dims();
        let x = resized(x, [height, width], Interpolation::Bilinear);
        self.low.forward(low) + self.high.forward(x)
    }

    fn describe(&self, maps: &[Value], trace: &mut Trace) -> Value {
        let [.., low, high] = *maps else { unreachable!("the encoder makes two maps") };
        let x = trace.scope("conv", |trace| self.conv.describe(high, trace));
        let gate = trace.scope("gate", |trace| {
            let mean = describe_mean_pixel(high, trace);
            let gate = self.gate.describe(mean, trace);
            trace.activation(Activation::Sigmoid, gate)
        });
        let x = trace.apply("scale", Op::Multiply, &[x, gate], x.map);
        let size = [low.map.height, low.map.width];
        let x = trace.scope("upsample", |trace| describe_resized(x, size, Interpolation::Bilinear, trace));
        let low = trace.scope("low", |trace| self.low.describe(low, trace));
        let high = trace.scope("high", |trace| self.high.describe(x, trace));
        trace.add(low, high)
    }

    fn names(&self, names: &mut Names) {
        names.conv_norm("decoder.conv", "classifier.cbr.0", "classifier.cbr.1");
        names.plain("decoder.gate", "classifier.scale.1");
        names.plain("decoder.low", "classifier.low_classifier");
        names.plain("decoder.high", "classifier.high_classifier");
    }
}
