//! Half of the features by a convolution, the other half from the first by a cheap one.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_layers::{Activation, BatchNormConfig, ConvConfig, ConvNorm, ConvNormConfig, Map};

/// A pointwise convolution to half of the channels and a depthwise 3x3 convolution of those to the other half (section
/// 3.1, ratio 2).
#[derive(Module, Debug)]
pub struct GhostModule {
    primary: ConvNorm,
    cheap: ConvNorm,
}

impl GhostModule {
    /// A module on `device`.
    ///
    /// # Panics
    /// If `output` is odd.
    pub fn new(input: usize, output: usize, activation: Activation, norm: BatchNormConfig, device: &Device) -> Self {
        assert!(output.is_multiple_of(2), "a ghost module makes pairs of features, not {output}");
        let layer = |conv| ConvNormConfig { conv, norm, activation }.init(device);
        let half = output / 2;
        Self { primary: layer(ConvConfig::pointwise(input, half)), cheap: layer(ConvConfig::depthwise(half, 3, 1)) }
    }

    /// `[batch, input, height, width]` to `[batch, output, height, width]`.
    pub fn forward(&self, x: Map) -> Tensor<4> {
        let primary = self.primary.pass(x).whole();
        let cheap = self.cheap.forward(primary.clone());
        Tensor::cat(vec![primary, cheap], 1)
    }

    /// timm's names.
    pub(crate) fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        for (part, timm) in [("primary", "primary_conv"), ("cheap", "cheap_operation")] {
            let reference = format!("{reference}.{timm}");
            names.conv_norm(&format!("{own}.{part}"), &format!("{reference}.0"), &format!("{reference}.1"));
        }
    }
}

impl Describe for GhostModule {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let primary = trace.scope("primary", |trace| self.primary.describe(input, trace));
        let cheap = trace.scope("cheap", |trace| self.cheap.describe(primary, trace));
        let channels = primary.map.channels + cheap.map.channels;
        trace.apply("concat", Op::Concat, &[primary, cheap], FeatureMap { channels, ..primary.map })
    }
}
