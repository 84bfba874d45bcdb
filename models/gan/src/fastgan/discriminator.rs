//! From an image to a map of scores (figure 4).

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{Activation, BatchNormConfig, Conv2d, Conv2dConfig, ConvNorm, ConvNormConfig};

use crate::fastgan::{DownBlock, FastGanConfig};
use crate::skip_layer_excitation::SkipLayerExcitation;

/// By what the widest maps' channels are divided, for the blocks' outputs.
const TABLE: [(usize, usize); 5] = [
    // side, divisor
    (128, 32),
    (64, 16),
    (32, 8),
    (16, 4),
    (8, 2),
];

/// The same for the first map, of 256x256.
const STEM_DIVISOR: usize = 64;

/// Which block's output is the first that is excited, by the first map; the next by the first block's, and so on.
const FIRST_EXCITED: usize = 2;

/// A first map of 256x256, blocks to 128x128, 64x64, ..., 8x8, skip-layer excitation from eight times larger maps, and
/// a score for each 4x4 window of the last map.
#[derive(Module, Debug)]
pub struct FastGanDiscriminator {
    /// From the image: 4x4 with stride 2 at 512x512, 3x3 at 256x256.
    pub stem: Conv2d,
    /// Each halves the sides of its map: from 256x256 to 8x8.
    pub blocks: Vec<DownBlock>,
    /// From 256x256 to 32x32, from 128x128 to 16x16, from 64x64 to 8x8.
    pub excitations: Vec<SkipLayerExcitation>,
    /// A 1x1 convolution to the widest map.
    pub widen: ConvNorm,
    /// A 4x4 convolution to a score for each window of the last map.
    pub score: Conv2d,
}

/// What a discriminator sees in a batch of images.
#[derive(Clone, Debug)]
pub struct FastGanFeatures {
    /// Scores `[batch, 25]`.
    pub scores: Tensor<2>,
    /// The map of 16x16, `[batch, 4 * features, 16, 16]`: the paper's `f1`.
    pub middle: Tensor<4>,
    /// The map of 8x8, `[batch, 8 * features, 8, 8]`: the paper's `f2`.
    pub last: Tensor<4>,
}

impl FastGanConfig {
    /// A discriminator on `device`, its convolutions zero until `kindling_layers::init` or a weights file fills them.
    ///
    /// # Panics
    /// As [`FastGanConfig::generator`].
    pub fn discriminator(&self, device: &Device) -> FastGanDiscriminator {
        self.check();
        FastGanDiscriminator::new(self, device)
    }
}

impl FastGanDiscriminator {
    pub(crate) fn new(config: &FastGanConfig, device: &Device) -> Self {
        let widest = config.widest();
        let first = widest / STEM_DIVISOR;
        let stem = if config.image_size > 256 {
            Conv2dConfig::halving(config.channels, first)
        } else {
            Conv2dConfig::new(config.channels, first, 3, 1)
        };
        let mut widths = vec![first];
        widths.extend(TABLE.iter().map(|&(_, divisor)| widest / divisor));
        let blocks = widths.windows(2).map(|pair| DownBlock::new(pair[0], pair[1], device));
        let excited = widths.iter().zip(&widths[FIRST_EXCITED + 1..]);
        let excitations = excited.map(|(&large, &small)| SkipLayerExcitation::new(large, small, device));
        let last = widths[TABLE.len()];
        let widen = ConvNormConfig {
            conv: Conv2dConfig::pointwise(last, widest),
            norm: BatchNormConfig::default(),
            activation: Activation::LeakyRelu,
        };
        Self {
            stem: stem.init(device),
            blocks: blocks.collect(),
            excitations: excitations.collect(),
            widen: widen.init(device),
            score: Conv2dConfig::valid(widest, 1, 4).init(device),
        }
    }

    /// Images `[batch, channels, image_size, image_size]` in `[-1, 1]` to the scores of 5x5 windows `[batch, 25]`.
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.forward_features(images).scores
    }

    /// Scores, and the maps that [`crate::FastGanDecoders`] make images of.
    pub fn forward_features(&self, images: Tensor<4>) -> FastGanFeatures {
        let mut x = Activation::LeakyRelu.forward(self.stem.forward(images));
        let mut maps = Vec::with_capacity(self.blocks.len());
        for (index, block) in self.blocks.iter().enumerate() {
            maps.push(x.clone());
            x = block.forward(x);
            if let Some(excited) = index.checked_sub(FIRST_EXCITED) {
                x = self.excitations[excited].forward(maps[excited].clone(), x);
            }
        }
        let scores = self.score.forward(self.widen.forward(x.clone())).flatten(1, 3);
        FastGanFeatures { scores, middle: maps.swap_remove(self.blocks.len() - 1), last: x }
    }
}

impl Describe for FastGanDiscriminator {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = trace.scope("stem", |trace| {
            let x = self.stem.describe(input, trace);
            trace.activation(Activation::LeakyRelu, x)
        });
        let mut maps = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            maps.push(x);
            x = trace.scope(format!("blocks.{index}"), |trace| block.describe(x, trace));
            if let Some(excited) = index.checked_sub(FIRST_EXCITED) {
                let excitation = &self.excitations[excited];
                let scope = format!("excitations.{excited}");
                x = trace.scope(scope, |trace| excitation.describe(maps[excited], x, trace));
            }
        }
        x = trace.scope("widen", |trace| self.widen.describe(x, trace));
        trace.scope("score", |trace| self.score.describe(x, trace))
    }
}
