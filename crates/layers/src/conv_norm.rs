//! Convolution, batch normalisation, activation.

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::batch_norm::{BatchNorm, BatchNormConfig};
use crate::conv2d::{Conv2d, Conv2dConfig};
use crate::map::{Content, Map};
use crate::trace::{Describe, Trace, Value};
use crate::{pass, precision};
use kindling_ops::{self as ops, Activation, Deferred, NormedConvolution, normed_convolution, supports_residual_add};

/// Configuration of a [`ConvNorm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConvNormConfig {
    /// The convolution.
    pub conv: Conv2dConfig,
    /// Its normalisation.
    pub norm: BatchNormConfig,
    /// The activation after the normalisation.
    pub activation: Activation,
}

impl ConvNormConfig {
    /// A block on `device`; see [`Conv2dConfig::init`] for the panics.
    pub fn init(&self, device: &Device) -> ConvNorm {
        ConvNorm {
            conv: self.conv.init(device),
            norm: self.norm.init(self.conv.output, device),
            activation: self.activation,
        }
    }
}

/// Convolution without bias, batch normalisation, activation.
#[derive(Module, Debug)]
pub struct ConvNorm {
    /// The convolution.
    pub conv: Conv2d,
    /// Its normalisation.
    pub norm: BatchNorm,
    #[module(skip)]
    activation: Activation,
}

impl ConvNorm {
    /// As [`Conv2d::atrous`].
    pub fn atrous(self, dilation: usize) -> Self {
        Self { conv: self.conv.atrous(dilation), ..self }
    }

    /// Shapes as in [`Conv2d::forward`].
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.pass(x.into()).whole()
    }

    /// As [`ConvNorm::forward`], from and to maps whose normalisation may be deferred.
    pub fn pass(&self, x: Map) -> Map {
        match self.infer_folded(&x) {
            Some(y) => y.into(),
            None => self.normalised(self.conv.read(x)),
        }
    }

    /// Folds the normalisation into the convolution: outside training it is a factor and a summand for each filter. `None` while
    /// training, and on devices whose operations normalise while they read.
    fn infer_folded(&self, x: &Map) -> Option<Tensor<4>> {
        let Content::Whole(x) = &x.0 else { return None };
        if pass::is_training() || ops::serves(x) {
            return None;
        }
        let (scale, shift) = self.norm.scale_and_shift();
        Some(self.activation.forward(self.conv.forward_scaled(x.clone(), scale, shift)))
    }

    /// The layer for an operation that infers several layers at once, from a map of the format of `x`.
    pub(crate) fn inferred(&self, x: &Tensor<4>) -> NormedConvolution {
        precision::assert_fits(&self.conv.weight.val(), x);
        precision::assert_fits(&self.norm.weight.val(), x);
        self.norm.after(self.conv.weight.val(), self.activation)
    }

    /// The activation of the operation that infers this layer as the last of a block whose own one, after the sum with a shortcut if there is
    /// one, is given. `None` if there is no such operation.
    pub(crate) fn activation_at_end(&self, has_shortcut: bool, of_block: Activation) -> Option<Activation> {
        match (self.activation, of_block) {
            (Activation::Identity, of_block) if has_shortcut && supports_residual_add(of_block) => Some(of_block),
            (own, Activation::Identity) if !has_shortcut => Some(own),
            _ => None,
        }
    }

    /// The layer as the last of a block, in inference on the CPU.
    pub(crate) fn infer_to_end(&self, x: Deferred, shortcut: Option<Tensor<4>>, activation: Activation) -> Tensor<4> {
        let layer = NormedConvolution { activation, ..self.inferred(&x.x) };
        let convolution = self.conv.reserved(&x.x);
        normed_convolution(x, layer, convolution, shortcut)
    }

    /// Normalisation and activation of the convolution's output: the rest of [`ConvNorm::pass`] in training.
    pub fn normalised(&self, y: Tensor<4>) -> Map {
        self.norm.then(y, self.activation)
    }

    /// As [`ConvNorm::pass`], but the output of the convolution is recomputed in the backward pass instead of being kept. This is for
    /// convolutions that are cheap compared to the size of their output.
    pub fn pass_rebuilt(&self, x: Map) -> Map {
        let conv = self.conv.rebuild(&x);
        self.pass(x).rebuilt_by(conv)
    }
}

impl ConvNorm {
    /// Describes [`ConvNorm::pass_rebuilt`].
    pub fn describe_rebuilt(&self, input: Value, trace: &mut Trace) -> Value {
        self.describe_with(input, trace, Trace::rebuilt)
    }

    /// Describes [`ConvNorm::pass_enlarged`], from the enlarged map with what is beside it.
    pub fn describe_enlarged(&self, input: Value, trace: &mut Trace) -> Value {
        self.describe_with(input, trace, Trace::enlarged)
    }

    fn describe_with(&self, input: Value, trace: &mut Trace, note: impl FnOnce(&mut Trace, Value)) -> Value {
        let output = trace.scope("conv", |trace| self.conv.describe(input, trace));
        note(trace, output);
        let output = trace.scope("norm", |trace| self.norm.describe(output, trace));
        trace.activation(self.activation, output)
    }
}

impl Describe for ConvNorm {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        self.describe_with(input, trace, |_, _| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{TrainingPass, training};
    use burn::tensor::{Distribution, Tolerance};

    #[test]
    fn a_folded_normalisation_is_the_convolution_and_then_the_normalisation() {
        let device = Device::flex();
        let config = ConvNormConfig {
            conv: Conv2dConfig::new(3, 5, 3, 2),
            norm: BatchNormConfig::default(),
            activation: Activation::HardSwish,
        };
        let layer = crate::init::initialise(config.init(&device), 7);
        let images = Tensor::<4>::random([4, 3, 9, 8], Distribution::Normal(1.0, 2.0), &device);
        let (_, statistics) = training(TrainingPass::whole_batch(4), || layer.forward(images.clone()));
        let layer = statistics.commit(layer, 0.9);
        let (scale, shift) = layer.norm.scale_and_shift();
        let folded = Activation::HardSwish.forward(layer.conv.forward_scaled(images.clone(), scale, shift));
        folded.into_data().assert_approx_eq::<f32>(&layer.forward(images).into_data(), Tolerance::absolute(1e-4));
    }
}
