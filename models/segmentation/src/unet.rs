//! U-Net with an encoder of the zoo (Ronneberger et al. 2015, figure 1), as `segmentation_models_pytorch` 0.5.0 builds it.
//!
//! The encoder halves height and width five times and hands on a map of each resolution. The decoder goes back: five times, a map is
//! enlarged to the size of the next finer one, which is appended to its channels, and two 3x3 convolutions follow. The last block has
//! the size of the image and nothing to append.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_classification::AnyBlock;
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_layers::{
    Activation, Backbone, BatchNormConfig, BiasedConv2d, Checkpointing, Conv2dConfig, ConvNorm, ConvNormConfig,
    Enlarged, Interpolation, Segmenter, describe_resized, precision,
};

use crate::encoder::Encoder;
use crate::encoder_decoder::{run_encoder, through_segments};

/// Channels of the decoder's blocks.
const CHANNELS: [usize; 5] = [256, 128, 64, 32, 16];

/// Configuration of a [`Unet`].
#[derive(Clone, Copy, Debug)]
pub struct UnetConfig {
    /// The encoder.
    pub encoder: Encoder,
    /// Channels of the images.
    pub in_channels: usize,
    /// Classes of a pixel.
    pub classes: usize,
    /// Takes the place of the encoder's share of residual branches that are left out while training.
    pub drop_path_rate: Option<f64>,
}

impl UnetConfig {
    /// A network with the encoder's own rate of drop-path.
    pub fn new(encoder: &Encoder, in_channels: usize, classes: usize) -> Self {
        Self { encoder: *encoder, in_channels, classes, drop_path_rate: None }
    }

    /// A network whose weights are zero until [`kindling_layers::init::initialise`] or a weights file fills them.
    pub fn init(&self, device: &Device) -> Unet {
        let encoder = self.encoder.init(self.in_channels, self.drop_path_rate, device);
        // The size is arbitrary; channels do not depend on it.
        let maps = Trace::of(&encoder, FeatureMap::square(self.in_channels, 64)).stages;
        let mut channels = maps.iter().rev().map(|stage| stage.value.map.channels);
        let mut input = channels.next().unwrap_or(self.in_channels);
        let conv = |input, output| {
            let (conv, norm) = (Conv2dConfig::new(input, output, 3, 1), BatchNormConfig::default());
            ConvNormConfig { conv, norm, activation: Activation::Relu }.init(device)
        };
        let decoder = CHANNELS.map(|output| {
            let read = input + channels.next().unwrap_or(0);
            input = output;
            DecoderBlock { conv1: conv(read, output), conv2: conv(output, output) }
        });
        let head = BiasedConv2d::new(Conv2dConfig::new(input, self.classes, 3, 1), device);
        Unet { encoder, decoder: decoder.into(), head }
    }
}

/// Encoder, decoder, and a 3x3 convolution to the logits.
#[derive(Module, Debug)]
pub struct Unet {
    /// From images to feature maps.
    pub encoder: Backbone<AnyBlock>,
    /// From feature maps to a map of the images' size.
    pub decoder: Vec<DecoderBlock>,
    /// To one logit a class.
    pub head: BiasedConv2d,
}

impl Unet {
    /// Adds the names of all layers but the encoder's in `segmentation_models_pytorch`.
    pub(crate) fn decoder_names(&self, names: &mut Names) {
        for index in 0..self.decoder.len() {
            for conv in ["conv1", "conv2"] {
                let reference = format!("decoder.blocks.{index}.{conv}");
                names.conv_norm(
                    &format!("decoder.{index}.{conv}"),
                    &format!("{reference}.0"),
                    &format!("{reference}.1"),
                );
            }
        }
        names.plain("head", "segmentation_head.0");
    }
}

/// Two 3x3 convolutions, each with normalisation and ReLU, of an enlarged map and the channels appended to it.
#[derive(Module, Debug)]
pub struct DecoderBlock {
    /// The first convolution.
    pub conv1: ConvNorm,
    /// The second convolution.
    pub conv2: ConvNorm,
}

impl Segmenter for Unet {
    /// Height and width may be any numbers.
    ///
    /// # Panics
    /// If both are below 17: the last two of six resolutions would be one pixel each.
    fn forward(&self, images: Tensor<4>) -> Tensor<4> {
        through_segments(self, images)
    }

    fn segments(&self, checkpointing: Checkpointing) -> usize {
        match checkpointing {
            Checkpointing::None => 0,
            level => self.encoder.segments(level) + parts_of_block(level) * self.decoder.len(),
        }
    }

    /// Between segments there are the images, whose size the last block of the decoder needs, and the encoder's maps that are not read
    /// yet with the one to go on from.
    fn run_segment(&self, checkpointing: Checkpointing, index: usize, mut maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        let (of_encoder, parts) = (self.encoder.segments(checkpointing), parts_of_block(checkpointing));
        if index < of_encoder {
            return run_encoder(&self.encoder, checkpointing, index, maps);
        }
        let (index, part) = ((index - of_encoder) / parts, (index - of_encoder) % parts);
        let (Some(block), Some(x)) = (self.decoder.get(index), maps.pop()) else { return maps };
        let x = match (part, parts) {
            (0, 1) => block.forward(take_skip(x, &mut maps)),
            (0, _) => block.conv1.conv.read_enlarged(take_skip(x, &mut maps)),
            _ => block.after_conv1(x),
        };
        if part + 1 == parts && index + 1 == self.decoder.len() {
            return vec![x];
        }
        maps.push(x);
        maps
    }

    fn finish(&self, x: Tensor<4>) -> Tensor<4> {
        precision::full(self.head.forward(x))
    }
}

impl Describe for Unet {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut skips = trace.scope("encoder", |trace| self.encoder.describe_features(input, trace));
        let size = [input.map.height, input.map.width];
        let mut x = skips.pop().unwrap_or(input);
        for (index, block) in self.decoder.iter().enumerate() {
            x = trace.scope(format!("decoder.{index}"), |trace| block.describe(x, skips.pop(), size, trace));
        }
        trace.scope("head", |trace| self.head.describe(x, trace))
    }
}

/// Segments of a block of the decoder. It is divided at the output of its first convolution, before this is normalised: the same is
/// computed of that map whether the block is divided or not, so the bits are the same.
fn parts_of_block(checkpointing: Checkpointing) -> usize {
    if checkpointing == Checkpointing::Blocks { 2 } else { 1 }
}

/// `x` to be enlarged to the size of the last of `maps`, which is appended to its channels; or to that of the images, which are the first,
/// if there are no others.
fn take_skip(x: Tensor<4>, maps: &mut Vec<Tensor<4>>) -> Enlarged {
    let beside = if maps.len() > 1 { maps.pop() } else { None };
    let [_, _, height, width] = beside.as_ref().unwrap_or(&maps[0]).dims();
    Enlarged { x, size: [height, width], beside }
}

impl DecoderBlock {
    fn forward(&self, x: Enlarged) -> Tensor<4> {
        self.conv2.pass(self.conv1.pass_enlarged(x)).whole()
    }

    /// The rest of the block, from the output of its first convolution.
    fn after_conv1(&self, x: Tensor<4>) -> Tensor<4> {
        self.conv2.pass(self.conv1.normalised(x)).whole()
    }

    fn describe(&self, x: Value, skip: Option<Value>, size: [usize; 2], trace: &mut Trace) -> Value {
        let size = skip.map_or(size, |skip| [skip.map.height, skip.map.width]);
        let mut x = trace.scope("upsample", |trace| describe_resized(x, size, Interpolation::Nearest, trace));
        if let Some(skip) = skip {
            let channels = x.map.channels + skip.map.channels;
            x = trace.apply("concat", Op::Concat, &[x, skip], FeatureMap { channels, ..x.map });
        }
        let x = trace.scope("conv1", |trace| self.conv1.describe_enlarged(x, trace));
        trace.scope("conv2", |trace| self.conv2.describe(x, trace))
    }
}
