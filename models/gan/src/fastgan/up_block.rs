//! The generator's and the decoders' block.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, NoiseInjection, Upsample};

use crate::glu::Glu;

/// Every pixel becomes four, then one convolution, or two with noise (figure 3).
#[derive(Module, Debug)]
pub struct UpBlock {
    /// The convolutions in order.
    pub layers: Vec<GluConv>,
}

/// A 3x3 convolution to twice the channels, noise, batch normalisation, and a gated linear unit that halves them.
#[derive(Module, Debug)]
pub struct GluConv {
    /// The convolution.
    pub conv: Conv2d,
    /// Noise, if it is injected here.
    pub noise: Option<NoiseInjection>,
    /// Normalisation.
    pub norm: BatchNorm,
}

const DOUBLE: Upsample = Upsample { factor: 2 };

impl UpBlock {
    /// A block of one convolution without noise.
    pub fn plain(input: usize, output: usize, device: &Device) -> Self {
        Self { layers: vec![GluConv::new(input, output, None, device)] }
    }

    /// A block of two convolutions with noise; they are numbers `layer` and `layer + 1` of those that have it.
    pub fn noisy(input: usize, output: usize, layer: u64, device: &Device) -> Self {
        let first = GluConv::new(input, output, Some(NoiseInjection::new(layer, device)), device);
        let second = GluConv::new(output, output, Some(NoiseInjection::new(layer + 1, device)), device);
        Self { layers: vec![first, second] }
    }

    /// `[batch, input, height, width]` to `[batch, output, 2 * height, 2 * width]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.layers.iter().fold(DOUBLE.forward(x), |x, layer| layer.forward(x))
    }

    /// The reference implementation's names: numbers of a sequence, `Upsample` being 0.
    pub(crate) fn names(&self, own: &str, reference: &str, names: &mut Names) {
        let mut number = 1;
        for (index, layer) in self.layers.iter().enumerate() {
            let own = format!("{own}.layers.{index}");
            names.plain(&format!("{own}.conv"), &format!("{reference}.{number}"));
            if layer.noise.is_some() {
                number += 1;
                names.plain(&format!("{own}.noise"), &format!("{reference}.{number}"));
            }
            names.norm(&format!("{own}.norm"), &format!("{reference}.{}", number + 1));
            number += 3;
        }
    }
}

impl Describe for UpBlock {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = trace.scope("upsample", |trace| DOUBLE.describe(input, trace));
        for (index, layer) in self.layers.iter().enumerate() {
            x = trace.scope(format!("layers.{index}"), |trace| layer.describe(x, trace));
        }
        x
    }
}

impl GluConv {
    fn new(input: usize, output: usize, noise: Option<NoiseInjection>, device: &Device) -> Self {
        Self {
            conv: Conv2dConfig::new(input, 2 * output, 3, 1).init(device),
            noise,
            norm: BatchNormConfig::default().init(2 * output, device),
        }
    }

    /// `[batch, input, height, width]` to `[batch, output, height, width]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let mut x = self.conv.forward(x);
        if let Some(noise) = &self.noise {
            x = noise.forward(x);
        }
        Glu.forward(self.norm.forward(x))
    }
}

impl Describe for GluConv {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = trace.scope("conv", |trace| self.conv.describe(input, trace));
        if let Some(noise) = &self.noise {
            x = trace.scope("noise", |trace| noise.describe(x, trace));
        }
        x = trace.scope("norm", |trace| self.norm.describe(x, trace));
        Glu.describe(x, trace)
    }
}
