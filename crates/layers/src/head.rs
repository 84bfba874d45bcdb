//! The head of a classifier, which turns the last feature map into logits.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::linear::{Linear, global_average_pool};
use crate::names::Names;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value};
use crate::{Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, Dropout};

/// Configuration of a [`Head`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadConfig {
    /// Channels and activation of a last 1x1 convolution before pooling.
    pub features: Option<(usize, Activation)>,
    /// A layer between pooling and classifier.
    pub hidden: Option<HiddenConfig>,
    /// Share of the classifier's input that is dropped while training, in `[0, 1)`.
    pub drop_rate: f64,
}

/// Configuration of a [`Hidden`] layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HiddenConfig {
    /// With bias (MobileNetV3, GhostNet).
    Linear(usize, Activation),
    /// With normalisation (MobileNetV4).
    Norm(usize, Activation),
}

impl HeadConfig {
    /// A head for maps of `input` channels.
    pub fn init(&self, input: usize, classes: usize, norm: BatchNormConfig, device: &Device) -> Head {
        let pointwise = |input, output, activation| {
            ConvNormConfig { conv: Conv2dConfig::pointwise(input, output), norm, activation }.init(device)
        };
        let pooled = self.features.map_or(input, |(channels, _)| channels);
        let (hidden, last) = match self.hidden {
            None => (None, pooled),
            Some(HiddenConfig::Linear(width, activation)) => {
                (Some(Hidden::Linear(HiddenLinear { linear: Linear::new(pooled, width, device), activation })), width)
            }
            Some(HiddenConfig::Norm(width, activation)) => {
                (Some(Hidden::Norm(pointwise(pooled, width, activation))), width)
            }
        };
        Head {
            features: self.features.map(|(channels, activation)| pointwise(input, channels, activation)),
            hidden,
            dropout: Dropout { probability: self.drop_rate, layer: 0 },
            classifier: Linear::new(last, classes, device),
        }
    }
}

/// Last convolution, pooling, hidden layer, dropout, classifier.
#[derive(Module, Debug)]
pub struct Head {
    /// A 1x1 convolution to the channels that are pooled.
    pub features: Option<ConvNorm>,
    /// A layer between pooling and classifier.
    pub hidden: Option<Hidden>,
    #[module(skip)]
    dropout: Dropout,
    /// To one logit a class.
    pub classifier: Linear,
}

/// A layer between pooling and classifier.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one of them in a network
pub enum Hidden {
    /// With bias.
    Linear(HiddenLinear),
    /// With normalisation instead of bias.
    Norm(ConvNorm),
}

/// A linear layer and an activation.
#[derive(Module, Debug)]
pub struct HiddenLinear {
    /// The layer.
    pub linear: Linear,
    #[module(skip)]
    activation: Activation,
}

impl Head {
    /// Whether the last convolution counts as a stage. As in timm, it belongs to the body if a hidden layer follows the pooling
    /// (MobileNetV3 and V4), and to the head if the classifier does.
    pub(crate) fn features_are_a_stage(&self) -> bool {
        self.hidden.is_some()
    }

    /// The map that is pooled, `[batch, channels, height, width]`, to logits `[batch, classes]`.
    pub(crate) fn classify(&self, x: Tensor<4>) -> Tensor<2> {
        let x = global_average_pool(x);
        let x = match &self.hidden {
            None => x,
            Some(Hidden::Linear(HiddenLinear { linear, activation })) => activation.forward(linear.forward(x)),
            Some(Hidden::Norm(layer)) => {
                let [batch, channels] = x.dims();
                layer.forward(x.reshape([batch, channels, 1, 1])).flatten(1, 3)
            }
        };
        self.classifier.forward(self.dropout.forward(x))
    }

    /// timm's names. With a hidden layer, the convolution is the last of `stages + 1` stages.
    pub(crate) fn timm_names(&self, stages: usize, names: &mut Names) {
        if self.features.is_some() {
            if self.features_are_a_stage() {
                let block = format!("blocks.{stages}.0");
                names.conv_norm("head.features", &format!("{block}.conv"), &format!("{block}.bn1"));
            } else {
                names.conv_norm("head.features", "conv_head", "bn2");
            }
        }
        match &self.hidden {
            None => {}
            Some(Hidden::Linear(_)) => names.pointwise("head.hidden.linear", "conv_head"),
            Some(Hidden::Norm(_)) => names.conv_norm("head.hidden", "conv_head", "norm_head"),
        }
        names.plain("head.classifier", "classifier");
    }
}

impl Describe for Head {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = input;
        if let Some(features) = &self.features {
            x = trace.scope("features", |trace| {
                let x = features.describe(x, trace);
                if self.features_are_a_stage() {
                    trace.stage(x);
                }
                x
            });
        }
        x = trace.apply("pool", Op::GlobalAveragePool, &[x], FeatureMap::vector(x.map.channels));
        x = trace.scope("hidden", |trace| match &self.hidden {
            None => x,
            Some(Hidden::Linear(HiddenLinear { linear, activation })) => {
                let x = trace.scope("linear", |trace| linear.describe(x, trace));
                trace.activation(*activation, x)
            }
            Some(Hidden::Norm(layer)) => layer.describe(x, trace),
        });
        trace.scope("classifier", |trace| self.classifier.describe(x, trace))
    }
}
