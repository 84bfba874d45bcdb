//! The structure that all classifiers of the zoo share: stem, stages of blocks, head.

use std::fmt;
use std::str::FromStr;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_nvtx::range;

use crate::blocks::{Block, BlockConfig};
use crate::checkpointing::Checkpointing;
use crate::classifier::Classifier;
use crate::head::{Head, HeadConfig};
use crate::names::Names;
use crate::pass;
use crate::pool::MaxPool;
use crate::trace::{Describe, FeatureMap, Trace, Value};
use crate::{Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, DropPath, Padding};

/// The first convolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StemConfig {
    /// Output channels.
    pub channels: usize,
    /// Side of the kernel; the stride is 2.
    pub kernel: usize,
    /// Activation after the normalisation.
    pub activation: Activation,
    /// Whether 3x3 max pooling with stride 2 follows (ResNet).
    pub pool: bool,
}

impl StemConfig {
    /// A 3x3 convolution, the stem of every network but ResNet.
    pub fn conv3x3(channels: usize, activation: Activation) -> Self {
        Self { channels, kernel: 3, activation, pool: false }
    }
}

/// Configuration of a [`Staged`] network, as the functions named after the papers' models return it.
#[derive(Clone, Debug, PartialEq)]
pub struct StagedConfig<C> {
    /// The layers before the blocks.
    pub stem: StemConfig,
    /// The blocks, with a list for each row of the paper's table.
    pub stages: Vec<Vec<C>>,
    /// Everything after the blocks.
    pub head: HeadConfig,
    /// Normalisation of stem and head.
    pub norm: BatchNormConfig,
    /// Padding of the stem.
    pub padding: Padding,
    /// Share of samples for which the residual branch of the last block is left out while training. As in torchvision and timm, it
    /// rises evenly from 0 in the first block.
    pub drop_path_rate: f64,
}

impl<C: BlockConfig> StagedConfig<C> {
    /// A network for images of `in_channels` channels and `classes` classes.
    pub fn init(&self, in_channels: usize, classes: usize, device: &Device) -> Staged<C::Block>
    where
        C::Block: Block<Config = C>,
    {
        let StemConfig { channels, kernel, activation, pool } = self.stem;
        let conv = Conv2dConfig::new(in_channels, channels, kernel, 2).padded(self.padding);
        let blocks = self.stages.iter().map(Vec::len).sum::<usize>() as f64;
        let mut index = 0u64;
        let mut block = |config: &C| {
            let drop_path = DropPath { probability: self.drop_path_rate * index as f64 / blocks, layer: index };
            index += 1;
            config.init(drop_path, device)
        };
        let last = self.stages.iter().flatten().next_back().map_or(channels, C::output);
        Staged {
            stem: ConvNormConfig { conv, norm: self.norm, activation }.init(device),
            pool: pool.then_some(MaxPool { kernel: 3, stride: 2 }),
            stages: self.stages.iter().map(|stage| stage.iter().map(&mut block).collect()).collect(),
            head: self.head.init(last, classes, self.norm, device),
            frozen: 0,
        }
    }

    /// The factor by which height and width shrink before the global average pool.
    pub fn total_stride(&self) -> usize {
        let stem = if self.stem.pool { 4 } else { 2 };
        self.stages.iter().flatten().map(C::stride).product::<usize>() * stem
    }
}

/// A classifier: stem, stages of blocks, head.
#[derive(Module, Debug)]
pub struct Staged<B: Module + Block> {
    /// The first convolution.
    pub stem: ConvNorm,
    #[module(skip)]
    pool: Option<MaxPool>,
    /// The blocks, with a list for each row of the paper's table.
    pub stages: Vec<Vec<B>>,
    /// Last convolution, pooling, classifier.
    pub head: Head,
    frozen: usize,
}

/// Which parts of a network keep their weights and running statistics while the others train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freeze {
    /// Nothing: the whole network trains.
    #[default]
    None,
    /// The stem and this many stages.
    Stages(usize),
    /// Everything before the global average pool.
    Backbone,
}

impl fmt::Display for Freeze {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Stages(stages) => write!(f, "{stages}"),
            Self::Backbone => f.write_str("backbone"),
        }
    }
}

impl FromStr for Freeze {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "backbone" => Ok(Self::Backbone),
            number => match number.parse() {
                Ok(stages) => Ok(Self::Stages(stages)),
                Err(_) => Err("choose none, backbone, or a number of stages".to_string()),
            },
        }
    }
}

impl<B: Block> Staged<B> {
    /// The layers for one square image, in the order they run.
    pub fn trace(&self, in_channels: usize, image_size: usize) -> Trace {
        Trace::of(self, FeatureMap::square(in_channels, image_size))
    }

    /// The blocks in order, each with the number of its stage and its number in that stage.
    pub fn blocks(&self) -> impl Iterator<Item = ((usize, usize), &B)> {
        self.stages
            .iter()
            .enumerate()
            .flat_map(|(stage, blocks)| blocks.iter().enumerate().map(move |(index, block)| ((stage, index), block)))
    }

    /// The last feature map of each resolution, finest first. [`Trace::stages`] describes them; timm calls this `features_only`.
    pub fn forward_features(&self, images: Tensor<4>) -> Vec<Tensor<4>> {
        let mut maps: Vec<Tensor<4>> = Vec::new();
        let mut see = |x: &Tensor<4>| {
            if maps.last().is_some_and(|map| map.dims()[2..] == x.dims()[2..]) {
                maps.pop();
            }
            maps.push(x.clone());
        };
        let mut x = self.run_stem(images);
        see(&x);
        x = self.run_pool(x);
        for (place, block) in self.blocks() {
            x = self.run_block(place, block, x);
            see(&x);
        }
        if self.head.features_are_a_stage() {
            see(&self.run_features(x));
        }
        maps
    }

    /// Stem, pooling after it, stages, head.
    pub(crate) fn into_parts(self) -> (ConvNorm, Option<MaxPool>, Vec<Vec<B>>, Head) {
        (self.stem, self.pool, self.stages, self.head)
    }

    fn run_stem(&self, images: Tensor<4>) -> Tensor<4> {
        let _range = range(|| "stem");
        maybe_frozen(self.frozen > 0, &self.stem, images, ConvNorm::forward)
    }

    /// Runs stem and pooling together, so that the map between them is not stored.
    fn run_stem_and_pool(&self, images: Tensor<4>) -> Tensor<4> {
        let _range = range(|| "stem");
        maybe_frozen(self.frozen > 0, &self.stem, images, |stem, images| match &self.pool {
            Some(pool) => pool.read(stem.pass(images.into())),
            None => stem.forward(images),
        })
    }

    fn run_pool(&self, x: Tensor<4>) -> Tensor<4> {
        match &self.pool {
            Some(pool) => pool.forward(x),
            None => x,
        }
    }

    fn run_block(&self, (stage, index): (usize, usize), block: &B, x: Tensor<4>) -> Tensor<4> {
        let _range = range(|| format!("stages.{stage}.{index}"));
        maybe_frozen(self.frozen > stage + 1, block, x, B::forward)
    }

    fn run_features(&self, x: Tensor<4>) -> Tensor<4> {
        match &self.head.features {
            Some(features) => {
                let _range = range(|| "head.features");
                maybe_frozen(self.frozen > self.stages.len() + 1, features, x, ConvNorm::forward)
            }
            None => x,
        }
    }

    /// The network with frozen parts. They infer, keep their weights and running statistics, and need no memory for the backward
    /// pass.
    pub fn freeze(self, freeze: Freeze) -> Self {
        let frozen = match freeze {
            Freeze::None => 0,
            Freeze::Stages(stages) => 1 + stages.min(self.stages.len()),
            Freeze::Backbone => self.stages.len() + 2,
        };
        Self { frozen, ..self }
    }

    /// timm's names of the layers, for networks that timm builds as `EfficientNet` or `MobileNetV3`.
    pub fn timm_names(&self) -> Names {
        let mut names = Names::default();
        names.conv_norm("stem", "conv_stem", "bn1");
        for ((stage, index), block) in self.blocks() {
            let place = format!("{stage}.{index}");
            block.timm_names(&format!("stages.{place}"), &format!("blocks.{place}"), &mut names);
        }
        self.head.timm_names(self.stages.len(), &mut names);
        names
    }
}

impl<B: Block> Classifier for Staged<B> {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let stages = Checkpointing::Stages;
        let x = (0..self.segments(stages)).fold(images, |x, index| self.run_segment(stages, index, x));
        self.finish(x)
    }

    fn segments(&self, checkpointing: Checkpointing) -> usize {
        let between = match checkpointing {
            Checkpointing::None => return 0,
            Checkpointing::Stages => self.stages.len(),
            Checkpointing::Blocks => self.stages.iter().map(Vec::len).sum(),
        };
        1 + between + usize::from(self.head.features.is_some())
    }

    fn frozen_segments(&self, checkpointing: Checkpointing) -> usize {
        let stages = self.frozen.saturating_sub(1).min(self.stages.len());
        let between = match checkpointing {
            Checkpointing::None => return 0,
            Checkpointing::Stages => stages,
            Checkpointing::Blocks => self.stages[..stages].iter().map(Vec::len).sum(),
        };
        let features = self.head.features.is_some() && self.frozen > self.stages.len() + 1;
        usize::from(self.frozen > 0) + between + usize::from(features)
    }

    fn run_segment(&self, checkpointing: Checkpointing, index: usize, x: Tensor<4>) -> Tensor<4> {
        let Some(index) = index.checked_sub(1) else {
            return self.run_stem_and_pool(x);
        };
        let found = match checkpointing {
            Checkpointing::None => return x,
            Checkpointing::Stages => self.stages.get(index).map(|blocks| ((index, 0), blocks.as_slice())),
            Checkpointing::Blocks => {
                self.blocks().nth(index).map(|(place, block)| (place, std::slice::from_ref(block)))
            }
        };
        match found {
            Some(((stage, first), blocks)) => {
                let numbered = blocks.iter().zip(first..);
                numbered.fold(x, |x, (block, index)| self.run_block((stage, index), block, x))
            }
            None => self.run_features(x),
        }
    }

    fn finish(&self, x: Tensor<4>) -> Tensor<2> {
        let _range = range(|| "head");
        self.head.classify(x)
    }
}

/// Runs a part of a network; if it is frozen, outside any gradient graph and training pass.
fn maybe_frozen<M: Module>(
    frozen: bool,
    part: &M,
    x: Tensor<4>,
    forward: impl Fn(&M, Tensor<4>) -> Tensor<4>,
) -> Tensor<4> {
    if !frozen {
        return forward(part, x);
    }
    pass::suspended(|| match x.is_autodiff() {
        true => Tensor::from_inner(forward(&part.valid(), x.inner())),
        false => forward(part, x),
    })
}

impl<B: Block> Describe for Staged<B> {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = trace.scope("stem", |trace| {
            let x = self.stem.describe(input, trace);
            trace.stage(x);
            x
        });
        if let Some(pool) = &self.pool {
            x = trace.scope("pool", |trace| pool.describe(x, trace));
        }
        for ((stage, index), block) in self.blocks() {
            x = trace.scope(format!("stages.{stage}.{index}"), |trace| {
                let x = block.describe(x, trace);
                trace.stage(x);
                x
            });
        }
        trace.scope("head", |trace| self.head.describe(x, trace))
    }
}
