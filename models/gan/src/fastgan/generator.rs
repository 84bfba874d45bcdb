//! From a latent vector to an image (figures 2 and 3).

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{
    Activation, BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig,
};

use crate::fastgan::{FastGanConfig, UpBlock};
use crate::glu::Glu;
use crate::pixel;
use crate::skip_layer_excitation::SkipLayerExcitation;

/// Side of a block's output, by what the widest maps' channels are divided, whether it has two convolutions with noise.
const TABLE: [(usize, usize, bool); 7] = [
    // side, divisor, noisy
    (8, 2, true),
    (16, 4, false),
    (32, 8, true),
    (64, 8, false),
    (128, 16, true),
    (256, 32, false),
    (512, 64, true),
];

/// Which block's output is the first that is excited, by the 4x4 map; the next by the 8x8 map, and so on.
const FIRST_EXCITED: usize = 3;

/// A 4x4 map from the latent, a block for each doubling, skip-layer excitation from 16 times smaller maps, an image.
#[derive(Module, Debug)]
pub struct FastGanGenerator {
    /// From the latent to the 4x4 map, before its gated linear unit.
    pub project: ConvTranspose2d,
    /// Normalisation of the 4x4 map.
    pub norm: BatchNorm,
    /// The blocks to 8x8, 16x16, ..., the image's size.
    pub blocks: Vec<UpBlock>,
    /// From 4x4 to 64x64, from 8x8 to 128x128, ...
    pub excitations: Vec<SkipLayerExcitation>,
    /// A convolution from the last map to the channels of the image.
    pub image: Conv2d,
}

impl FastGanConfig {
    /// A generator on `device`, its convolutions zero until `kindling_layers::init` or a weights file fills them.
    ///
    /// # Panics
    /// If `features` is 0 or no multiple of 4, or there is no network for `image_size`.
    pub fn generator(&self, device: &Device) -> FastGanGenerator {
        self.check();
        FastGanGenerator::new(self, device)
    }
}

impl FastGanGenerator {
    pub(crate) fn new(config: &FastGanConfig, device: &Device) -> Self {
        let widest = config.widest();
        let project =
            ConvTranspose2dConfig { input: config.latent, output: 2 * widest, kernel: 4, stride: 1, padding: 0 };
        let mut widths = vec![widest];
        let mut blocks = Vec::new();
        let mut excitations = Vec::new();
        let mut noises = 0;
        for (index, &(side, divisor, noisy)) in TABLE.iter().enumerate() {
            if side > config.image_size {
                break;
            }
            let (input, output) = (widths[index], widest / divisor);
            blocks.push(if noisy {
                UpBlock::noisy(input, output, noises, device)
            } else {
                UpBlock::plain(input, output, device)
            });
            noises += if noisy { 2 } else { 0 };
            if let Some(early) = index.checked_sub(FIRST_EXCITED) {
                excitations.push(SkipLayerExcitation::new(widths[early], output, device));
            }
            widths.push(output);
        }
        Self {
            project: project.init(device),
            norm: BatchNormConfig::default().init(2 * widest, device),
            image: Conv2dConfig::new(widths[blocks.len()], config.channels, 3, 1).init(device),
            blocks,
            excitations,
        }
    }

    /// Segments that [`FastGanGenerator::run_segment`] takes: the first map, the blocks, the image.
    pub(crate) fn segments(&self) -> usize {
        self.blocks.len() + 2
    }

    /// Runs a segment. What a segment hands on is its map, and behind it the earlier maps that are still to excite
    /// later ones, oldest first.
    pub(crate) fn run_segment(&self, index: usize, mut maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        let x = maps.remove(0);
        let Some(block) = index.checked_sub(1) else {
            return vec![Glu.forward(self.norm.forward(self.project.forward(x)))];
        };
        if block == self.blocks.len() {
            return vec![Activation::Tanh.forward(self.image.forward(x))];
        }
        let mut early = maps;
        if block < self.excitations.len() {
            early.push(x.clone());
        }
        let mut x = self.blocks[block].forward(x);
        if let Some(excited) = block.checked_sub(FIRST_EXCITED) {
            x = self.excitations[excited].forward(early.remove(0), x);
        }
        early.insert(0, x);
        early
    }

    /// Latent vectors `[batch, latent]` to images `[batch, channels, image_size, image_size]` in `[-1, 1]`.
    pub fn forward(&self, latent: Tensor<2>) -> Tensor<4> {
        let mut x = Glu.forward(self.norm.forward(self.project.forward(pixel(latent))));
        let mut early = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            if early.len() < self.excitations.len() {
                early.push(x.clone());
            }
            x = block.forward(x);
            if let Some(excited) = index.checked_sub(FIRST_EXCITED) {
                x = self.excitations[excited].forward(early[excited].clone(), x);
            }
        }
        Activation::Tanh.forward(self.image.forward(x))
    }
}

impl Describe for FastGanGenerator {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let x = trace.scope("project", |trace| self.project.describe(input, trace));
        let x = trace.scope("norm", |trace| self.norm.describe(x, trace));
        let mut x = Glu.describe(x, trace);
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
        trace.scope("image", |trace| {
            let image = self.image.describe(x, trace);
            trace.activation(Activation::Tanh, image)
        })
    }
}
