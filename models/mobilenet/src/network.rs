//! The shape all MobileNets from V2 on share: stem, inverted residuals, a last 1x1 convolution, pooling, classifier.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{Describe, FeatureMap, Trace};
use kindling_layers::{
    Activation, BatchNormConfig, ConvConfig, ConvNorm, ConvNormConfig, Dropout, Linear, global_average_pool,
};

use crate::inverted_residual::{InvertedResidual, InvertedResidualConfig};

/// The first convolution: 3x3, stride 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StemConfig {
    /// Output channels.
    pub channels: usize,
    /// After its normalisation.
    pub activation: Activation,
}

/// Configuration of a [`MobileNet`]; the functions named after the papers' models make it.
#[derive(Clone, Debug, PartialEq)]
pub struct MobileNetConfig {
    /// The stem.
    pub stem: StemConfig,
    /// The blocks in order.
    pub blocks: Vec<InvertedResidualConfig>,
    /// Channels of the last 1x1 convolution, which are pooled.
    pub features: usize,
    /// Its activation.
    pub features_activation: Activation,
    /// Width of a linear layer with hard-swish between pooling and classifier (MobileNetV3).
    pub hidden: Option<usize>,
    /// Normalisation of stem and last convolution.
    pub norm: BatchNormConfig,
    /// Share of the classifier's input dropped while training.
    pub drop_rate: f64,
}

impl MobileNetConfig {
    /// A network for images of `in_channels` channels and `classes` classes.
    pub fn init(&self, in_channels: usize, classes: usize, device: &Device) -> MobileNet {
        let conv = |input, output, kernel, stride, activation| {
            let conv = ConvConfig { input, output, kernel, stride, depthwise: false };
            ConvNormConfig { conv, norm: self.norm, activation }.init(device)
        };
        let last = self.blocks.last().map_or(self.stem.channels, |block| block.output);
        MobileNet {
            stem: conv(in_channels, self.stem.channels, 3, 2, self.stem.activation),
            blocks: self.blocks.iter().map(|block| block.init(device)).collect(),
            features: conv(last, self.features, 1, 1, self.features_activation),
            hidden: self.hidden.map(|hidden| Linear::new(self.features, hidden, device)),
            dropout: Dropout { probability: self.drop_rate, layer: 0 },
            classifier: Linear::new(self.hidden.unwrap_or(self.features), classes, device),
        }
    }
}

/// A MobileNet classifier.
#[derive(Module, Debug)]
pub struct MobileNet {
    stem: ConvNorm,
    blocks: Vec<InvertedResidual>,
    features: ConvNorm,
    hidden: Option<Linear>,
    #[module(skip)]
    dropout: Dropout,
    classifier: Linear,
}

impl MobileNet {
    /// Images `[batch, in_channels, height, width]` to logits `[batch, classes]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut x = self.stem.forward(images);
        for block in &self.blocks {
            x = block.forward(x);
        }
        let mut x = global_average_pool(self.features.forward(x));
        if let Some(hidden) = &self.hidden {
            x = Activation::HardSwish.forward(hidden.forward(x));
        }
        self.classifier.forward(self.dropout.forward(x))
    }

    /// torchvision's name of each of this model's layers, as pairs of prefixes: (`stem.conv`, `features.0.0`), ...
    pub fn reference_prefixes(&self) -> Vec<(String, String)> {
        let mut names = Vec::new();
        let mut conv_norm = |own: String, conv: String, norm: String| {
            names.push((format!("{own}.conv"), conv));
            names.push((format!("{own}.norm"), norm));
        };
        let mut squeeze_excites = Vec::new();
        let v3 = self.hidden.is_some();
        conv_norm("stem".into(), "features.0.0".into(), "features.0.1".into());
        for (index, block) in self.blocks.iter().enumerate() {
            let (own, reference) =
                (format!("blocks.{index}"), format!("features.{}.{}", index + 1, if v3 { "block" } else { "conv" }));
            let mut step = 0;
            let mut numbered = |own: String, step: usize| {
                conv_norm(own, format!("{reference}.{step}.0"), format!("{reference}.{step}.1"));
            };
            if block.expand.is_some() {
                numbered(format!("{own}.expand"), step);
                step += 1;
            }
            numbered(format!("{own}.depthwise"), step);
            step += 1;
            if block.squeeze_excite.is_some() {
                for (layer, fc) in [("reduce", "fc1"), ("expand", "fc2")] {
                    squeeze_excites.push((format!("{own}.squeeze_excite.{layer}"), format!("{reference}.{step}.{fc}")));
                }
                step += 1;
            }
            let project = format!("{own}.project");
            if v3 {
                numbered(project, step);
            } else {
                // torchvision's V2 has the projection's convolution and norm directly in the block's sequence.
                conv_norm(project, format!("{reference}.{step}"), format!("{reference}.{}", step + 1));
            }
        }
        let last = self.blocks.len() + 1;
        conv_norm("features".into(), format!("features.{last}.0"), format!("features.{last}.1"));
        names.extend(squeeze_excites);
        if v3 {
            names.push(("hidden".into(), "classifier.0".into()));
        }
        names.push(("classifier".into(), if v3 { "classifier.3" } else { "classifier.1" }.into()));
        names
    }
}

impl Describe for MobileNet {
    fn describe(&self, input: FeatureMap, trace: &mut Trace) -> FeatureMap {
        let mut map = trace.scope("stem", |trace| self.stem.describe(input, trace));
        for (index, block) in self.blocks.iter().enumerate() {
            map = trace.scope(format!("blocks.{index}"), |trace| block.describe(map, trace));
        }
        map = trace.scope("features", |trace| self.features.describe(map, trace));
        if let Some(hidden) = &self.hidden {
            map = trace.scope("hidden", |trace| hidden.describe(map, trace));
        }
        trace.scope("classifier", |trace| self.classifier.describe(map, trace))
    }
}
