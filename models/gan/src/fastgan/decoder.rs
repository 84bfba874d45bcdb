//! The discriminator's self-supervision: images from its maps (section 3.2).

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{Activation, Conv2d, Conv2dConfig};

use crate::fastgan::{FastGanConfig, FastGanFeatures, UpBlock};

/// Channels of a decoder's maps, from 16x16 to 128x128.
const WIDTHS: [usize; 4] = [128, 64, 64, 32];

/// Side of the map a decoder starts from.
const SIDE: usize = 8;

/// An image of 128x128 from a map of 8x8: four blocks and a convolution.
#[derive(Module, Debug)]
pub struct FastGanDecoder {
    /// Each doubles the sides of its map: from 8x8 to 128x128.
    pub blocks: Vec<UpBlock>,
    /// A 3x3 convolution to the channels of the image.
    pub image: Conv2d,
}

impl FastGanDecoder {
    /// A decoder of maps of `input` channels.
    pub fn new(input: usize, channels: usize, device: &Device) -> Self {
        let mut previous = input;
        let block = |width| UpBlock::plain(std::mem::replace(&mut previous, width), width, device);
        let blocks = WIDTHS.into_iter().map(block).collect();
        Self { blocks, image: Conv2dConfig::new(previous, channels, 3, 1).init(device) }
    }

    /// `[batch, input, 8, 8]` to `[batch, channels, 128, 128]` in `[-1, 1]`.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        Activation::Tanh.forward(self.image.forward(x))
    }
}

impl Describe for FastGanDecoder {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = input;
        for (index, block) in self.blocks.iter().enumerate() {
            x = trace.scope(format!("blocks.{index}"), |trace| block.describe(x, trace));
        }
        trace.scope("image", |trace| {
            let image = self.image.describe(x, trace);
            trace.activation(Activation::Tanh, image)
        })
    }
}

/// Two decoders, trained with the discriminator on real images only, so that its maps keep what images consist of.
#[derive(Module, Debug)]
pub struct FastGanDecoders {
    /// Of the whole image, from the last map.
    pub whole: FastGanDecoder,
    /// Of a quarter of the image, from a quarter of the map of 16x16.
    pub part: FastGanDecoder,
}

impl FastGanConfig {
    /// The decoders that a discriminator can be trained with, on `device`, their convolutions zero until
    /// `kindling_layers::init` or a weights file fills them.
    ///
    /// # Panics
    /// As [`FastGanConfig::generator`].
    pub fn decoders(&self, device: &Device) -> FastGanDecoders {
        self.check();
        FastGanDecoders::new(self, device)
    }
}

impl FastGanDecoders {
    pub(crate) fn new(config: &FastGanConfig, device: &Device) -> Self {
        let widest = config.widest();
        Self {
            whole: FastGanDecoder::new(widest / 2, config.channels, device),
            part: FastGanDecoder::new(widest / 4, config.channels, device),
        }
    }

    /// The whole images and one quarter of each, both `[batch, channels, 128, 128]`, to be compared with the real ones
    /// at that size.
    ///
    /// `quarter`: 0 is above left, 1 above right, 2 below left, 3 below right.
    ///
    /// # Panics
    /// If `quarter` is larger than 3.
    pub fn forward(&self, features: &FastGanFeatures, quarter: usize) -> [Tensor<4>; 2] {
        assert!(quarter < 4, "an image has no quarter {quarter}");
        let (row, column) = (quarter / 2, quarter % 2);
        let part = features.middle.clone().narrow(2, row * SIDE, SIDE).narrow(3, column * SIDE, SIDE);
        [self.whole.forward(features.last.clone()), self.part.forward(part)]
    }
}
