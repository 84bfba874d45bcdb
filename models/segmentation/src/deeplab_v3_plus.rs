//! DeepLabV3+: "Encoder-Decoder with Atrous Separable Convolution for Semantic Image Segmentation", Chen et al. 2018,
//! <https://arxiv.org/abs/1802.02611>, as `segmentation_models_pytorch` 0.5.0 builds it.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_layers::{BiasedConv2d, Conv2dConfig, ConvNorm, Interpolation, describe_resized, resized};

use crate::aspp::{Aspp, AtrousConv, CHANNELS, conv_relu};
use crate::decoder::Decoder;

/// Channels that the map of a quarter of the image's size is reduced to (section 4.1).
const LOW_CHANNELS: usize = 48;

/// Separable pyramid pooling of the encoder's last map, enlarged and put beside the map of a quarter of the image's size.
#[derive(Module, Debug)]
pub struct DeepLabV3Plus {
    /// The pyramid.
    pub aspp: Aspp,
    /// The 3x3 convolution after it.
    pub refine: AtrousConv,
    /// The 1x1 convolution of the map of a quarter of the size.
    pub low: ConvNorm,
    /// The 3x3 convolution of both.
    pub fuse: AtrousConv,
    /// To one logit a class.
    pub head: BiasedConv2d,
}

impl DeepLabV3Plus {
    /// Share of the values that are dropped after the pyramid, in `segmentation_models_pytorch`.
    pub(crate) const DROP_RATE: f64 = 0.5;

    /// For an encoder whose two maps have these channels.
    pub(crate) fn new([low, input]: [usize; 2], classes: usize, drop_rate: f64, device: &Device) -> Self {
        Self {
            aspp: Aspp::new(input, true, drop_rate, device),
            refine: AtrousConv::separable(CHANNELS, CHANNELS, 1, device),
            low: conv_relu(Conv2dConfig::pointwise(low, LOW_CHANNELS), device),
            fuse: AtrousConv::separable(CHANNELS + LOW_CHANNELS, CHANNELS, 1, device),
            head: BiasedConv2d::new(Conv2dConfig::pointwise(CHANNELS, classes), device),
        }
    }
}

impl Decoder for DeepLabV3Plus {
    const ENLARGED: Interpolation = Interpolation::BilinearCorners;

    fn forward(&self, mut maps: Vec<Tensor<4>>) -> Tensor<4> {
        let x = maps.pop().expect("an encoder makes maps");
        let low = maps.pop().expect("and this one two");
        drop(maps);
        let [.., height, width] = low.dims();
        let x = self.refine.forward(self.aspp.forward(x));
        let x = resized(x, [height, width], Interpolation::BilinearCorners);
        let both = Tensor::cat(vec![x, self.low.forward(low)], 1);
        self.head.read(self.fuse.pass(both))
    }

    fn describe(&self, maps: &[Value], trace: &mut Trace) -> Value {
        let [.., low, x] = *maps else { unreachable!("the encoder makes two maps") };
        let x = trace.scope("aspp", |trace| self.aspp.describe(x, trace));
        let x = trace.scope("refine", |trace| self.refine.describe(x, trace));
        let size = [low.map.height, low.map.width];
        let x = trace.scope("upsample", |trace| describe_resized(x, size, Interpolation::BilinearCorners, trace));
        let low = trace.scope("low", |trace| self.low.describe(low, trace));
        let both = FeatureMap { channels: x.map.channels + low.map.channels, ..low.map };
        let both = trace.apply("concat", Op::Concat, &[x, low], both);
        let x = trace.scope("fuse", |trace| self.fuse.describe(both, trace));
        trace.scope("head", |trace| self.head.describe(x, trace))
    }

    fn names(&self, names: &mut Names) {
        self.aspp.names("decoder.aspp", "decoder.aspp.0", names);
        self.refine.names("decoder.refine", "decoder.aspp.1", "decoder.aspp.2", names);
        names.conv_norm("decoder.low", "decoder.block1.0", "decoder.block1.1");
        self.fuse.names("decoder.fuse", "decoder.block2.0", "decoder.block2.1", names);
        names.plain("decoder.head", "segmentation_head.0");
    }
}
