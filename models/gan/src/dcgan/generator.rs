//! From a latent vector to an image of 64x64.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{
    Activation, BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig, Upsample,
};

use crate::dcgan::{DcganConfig, Upsampling, WIDTHS};
use crate::pixel;

/// Four layers with normalisation and ReLU, to 4x4, 8x8, 16x16 and 32x32, and one to the image, with tanh.
#[derive(Module, Debug)]
pub struct DcganGenerator {
    /// The layers with normalisation.
    pub layers: Vec<UpConv>,
    /// From 32x32 to the image of 64x64.
    pub image: Up,
}

impl DcganGenerator {
    pub(crate) fn new(config: &DcganConfig, device: &Device) -> Self {
        let widths = WIDTHS.map(|width| width * config.features);
        let project =
            ConvTranspose2dConfig { input: config.latent, output: widths[0], kernel: 4, stride: 1, padding: 0 };
        let mut layers = vec![UpConv::new(Up::Transposed(project.init(device)), widths[0], device)];
        for pair in widths.windows(2) {
            let up = Up::new(config.upsampling, pair[0], pair[1], device);
            layers.push(UpConv::new(up, pair[1], device));
        }
        Self { layers, image: Up::new(config.upsampling, config.features, config.channels, device) }
    }

    /// Latent vectors `[batch, latent]` to images `[batch, channels, 64, 64]` in `[-1, 1]`.
    pub fn forward(&self, latent: Tensor<2>) -> Tensor<4> {
        let x = self.layers.iter().fold(pixel(latent), |x, layer| layer.forward(x));
        Activation::Tanh.forward(self.image.forward(x))
    }
}

impl Describe for DcganGenerator {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = input;
        for (index, layer) in self.layers.iter().enumerate() {
            x = trace.scope(format!("layers.{index}"), |trace| layer.describe(x, trace));
        }
        trace.scope("image", |trace| {
            let image = self.image.describe(x, trace);
            trace.activation(Activation::Tanh, image)
        })
    }
}

/// A convolution upwards, batch normalisation, ReLU.
#[derive(Module, Debug)]
pub struct UpConv {
    /// The convolution.
    pub conv: Up,
    /// Its normalisation.
    pub norm: BatchNorm,
}

impl UpConv {
    fn new(conv: Up, output: usize, device: &Device) -> Self {
        Self { conv, norm: BatchNormConfig::default().init(output, device) }
    }

    /// `[batch, input, height, width]` to `[batch, output, ...]`, where `conv` says how large.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.norm.forward_then(self.conv.forward(x), Activation::Relu)
    }
}

impl Describe for UpConv {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let x = trace.scope("conv", |trace| self.conv.describe(input, trace));
        let x = trace.scope("norm", |trace| self.norm.describe(x, trace));
        trace.activation(Activation::Relu, x)
    }
}

/// A convolution whose output is larger than its input.
#[derive(Module, Debug)]
pub enum Up {
    /// [`Upsampling::Transposed`], and the first layer of every generator.
    Transposed(ConvTranspose2d),
    /// [`Upsampling::Resize`].
    Resize(Conv2d),
}

impl Up {
    fn new(upsampling: Upsampling, input: usize, output: usize, device: &Device) -> Self {
        match upsampling {
            Upsampling::Transposed => {
                let config = ConvTranspose2dConfig { input, output, kernel: 4, stride: 2, padding: 1 };
                Self::Transposed(config.init(device))
            }
            Upsampling::Resize => Self::Resize(Conv2dConfig::new(input, output, 3, 1).init(device)),
        }
    }

    /// `[batch, input, height, width]` to `[batch, output, 2 * height, 2 * width]`; the first layer makes 4x4 of a
    /// single pixel.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        match self {
            Self::Transposed(conv) => conv.forward(x),
            Self::Resize(conv) => conv.forward(DOUBLE.forward(x)),
        }
    }
}

impl Describe for Up {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        match self {
            Self::Transposed(conv) => conv.describe(input, trace),
            Self::Resize(conv) => {
                let x = trace.scope("upsample", |trace| DOUBLE.describe(input, trace));
                conv.describe(x, trace)
            }
        }
    }
}

const DOUBLE: Upsample = Upsample { factor: 2 };
