//! Atrous spatial pyramid pooling: the same map seen through filters of several distances, and as a whole ("Rethinking Atrous
//! Convolution for Semantic Image Segmentation", Chen et al. 2017, <https://arxiv.org/abs/1706.05587>, section 3.3).

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_layers::{
    Activation, BatchNormConfig, Conv2d, Conv2dConfig, ConvNorm, ConvNormConfig, Dropout, Interpolation, Map,
    describe_resized, global_average_pool, precision, resized,
};

/// Channels of every map from here to the logits.
pub(crate) const CHANNELS: usize = 256;
/// Pixels between the taps of the three 3x3 kernels, for an encoder that divides by 16.
const RATES: [usize; 3] = [12, 24, 36];

/// A convolution with normalisation and ReLU.
pub(crate) fn conv_relu(conv: Conv2dConfig, device: &Device) -> ConvNorm {
    ConvNormConfig { conv, norm: BatchNormConfig::default(), activation: Activation::Relu }.init(device)
}

/// The mean of each plane, as a map of one pixel in the format of `x`.
pub(crate) fn mean_pixel(x: &Tensor<4>) -> Tensor<4> {
    let [batch, channels, ..] = x.dims();
    precision::like(global_average_pool(x.clone()), x).reshape([batch, channels, 1, 1])
}

/// Describes [`mean_pixel`].
pub(crate) fn describe_mean_pixel(x: Value, trace: &mut Trace) -> Value {
    trace.apply("mean", Op::GlobalAveragePool, &[x], FeatureMap::vector(x.map.channels))
}

/// A 3x3 convolution with normalisation and ReLU: dense, or depthwise and then 1x1 with nothing between ("Encoder-Decoder with Atrous
/// Separable Convolution", Chen et al. 2018, section 3.1).
#[derive(Module, Debug)]
pub struct AtrousConv {
    /// The 3x3 convolution of each channel, if it is separate.
    pub depthwise: Option<Conv2d>,
    /// The dense 3x3 convolution, or the 1x1 convolution after the depthwise one.
    pub conv: ConvNorm,
}

impl AtrousConv {
    pub(crate) fn dense(input: usize, output: usize, dilation: usize, device: &Device) -> Self {
        let conv = Conv2dConfig::new(input, output, 3, 1).dilated(dilation);
        Self { depthwise: None, conv: conv_relu(conv, device) }
    }

    pub(crate) fn separable(input: usize, output: usize, dilation: usize, device: &Device) -> Self {
        let depthwise = Conv2dConfig::depthwise(input, 3, 1).dilated(dilation).init(device);
        Self { depthwise: Some(depthwise), conv: conv_relu(Conv2dConfig::pointwise(input, output), device) }
    }

    /// `[batch, input, height, width]` to `[batch, output, height, width]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.pass(x).whole()
    }

    /// As [`AtrousConv::forward`], to a map whose normalisation may be deferred.
    pub fn pass(&self, x: Tensor<4>) -> Map {
        match &self.depthwise {
            Some(depthwise) => self.conv.pass(depthwise.forward(x).into()),
            None => self.conv.pass(x.into()),
        }
    }

    /// Adds the names of its layers: those of the convolution, or of both, are in `convs`.
    pub(crate) fn names(&self, own: &str, convs: &str, norm: &str, names: &mut Names) {
        match self.depthwise {
            None => names.conv_norm(&format!("{own}.conv"), convs, norm),
            Some(_) => {
                names.plain(&format!("{own}.depthwise"), &format!("{convs}.0"));
                names.conv_norm(&format!("{own}.conv"), &format!("{convs}.1"), norm);
            }
        }
    }
}

impl Describe for AtrousConv {
    fn describe(&self, mut x: Value, trace: &mut Trace) -> Value {
        if let Some(depthwise) = &self.depthwise {
            x = trace.scope("depthwise", |trace| depthwise.describe(x, trace));
        }
        trace.scope("conv", |trace| self.conv.describe(x, trace))
    }
}

/// A 1x1 convolution, three 3x3 ones whose taps are further and further apart, and the mean of the map, side by side; a 1x1
/// convolution of them all.
#[derive(Module, Debug)]
pub struct Aspp {
    /// The 1x1 convolution.
    pub conv: ConvNorm,
    /// The 3x3 convolutions.
    pub atrous: Vec<AtrousConv>,
    /// The 1x1 convolution of the mean.
    pub pooled: ConvNorm,
    /// The 1x1 convolution of all five.
    pub project: ConvNorm,
    #[module(skip)]
    dropout: Dropout,
}

impl Aspp {
    /// For maps of `input` channels. While training, the share `drop_rate` of the values is dropped at the end.
    pub(crate) fn new(input: usize, separable: bool, drop_rate: f64, device: &Device) -> Self {
        let pointwise = |input| conv_relu(Conv2dConfig::pointwise(input, CHANNELS), device);
        let atrous = if separable { AtrousConv::separable } else { AtrousConv::dense };
        Self {
            conv: pointwise(input),
            atrous: RATES.into_iter().map(|rate| atrous(input, CHANNELS, rate, device)).collect(),
            pooled: pointwise(input),
            project: pointwise((2 + RATES.len()) * CHANNELS),
            dropout: Dropout { probability: drop_rate, layer: 0 },
        }
    }

    /// `[batch, input, height, width]` to `[batch, 256, height, width]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let mut branches = vec![self.conv.forward(x.clone())];
        branches.extend(self.atrous.iter().map(|conv| conv.forward(x.clone())));
        branches.push(self.mean(x));
        let all = Map::from(Tensor::cat(branches, 1));
        self.dropout.forward(self.project.pass(all).whole())
    }

    /// The convolution of the mean of each channel, at every pixel.
    fn mean(&self, x: Tensor<4>) -> Tensor<4> {
        let [.., height, width] = x.dims();
        resized(self.pooled.forward(mean_pixel(&x)), [height, width], Interpolation::Bilinear)
    }

    /// Adds the names of its layers, which torchvision and `segmentation_models_pytorch` have under the path `reference`.
    pub(crate) fn names(&self, own: &str, reference: &str, names: &mut Names) {
        let branch = |index: usize, part: usize| format!("{reference}.convs.{index}.{part}");
        names.conv_norm(&format!("{own}.conv"), &branch(0, 0), &branch(0, 1));
        for (index, conv) in self.atrous.iter().enumerate() {
            conv.names(&format!("{own}.atrous.{index}"), &branch(index + 1, 0), &branch(index + 1, 1), names);
        }
        let pooled = self.atrous.len() + 1;
        names.conv_norm(&format!("{own}.pooled"), &branch(pooled, 1), &branch(pooled, 2));
        let project = format!("{reference}.project");
        names.conv_norm(&format!("{own}.project"), &format!("{project}.0"), &format!("{project}.1"));
    }
}

impl Describe for Aspp {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut branches = vec![trace.scope("conv", |trace| self.conv.describe(input, trace))];
        for (index, conv) in self.atrous.iter().enumerate() {
            branches.push(trace.scope(format!("atrous.{index}"), |trace| conv.describe(input, trace)));
        }
        branches.push(trace.scope("pooled", |trace| {
            let mean = describe_mean_pixel(input, trace);
            let mean = self.pooled.describe(mean, trace);
            let size = [input.map.height, input.map.width];
            trace.scope("spread", |trace| describe_resized(mean, size, Interpolation::Bilinear, trace))
        }));
        let channels = branches.iter().map(|branch| branch.map.channels).sum();
        let all = trace.apply("concat", Op::Concat, &branches, FeatureMap { channels, ..input.map });
        trace.scope("project", |trace| self.project.describe(all, trace))
    }
}
