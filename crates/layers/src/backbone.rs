//! A classifier without its head, for networks that read its feature maps.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::blocks::Block;
use crate::pool::MaxPool;
use crate::staged::Staged;
use crate::trace::{Describe, Stage, Trace, Value};
use crate::{Checkpointing, ConvNorm, Map};
use kindling_ops as ops;

/// Which feature map of each resolution is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taps {
    /// The last one. The last convolution of the classifier's head is part of the backbone.
    #[default]
    Last,
    /// The stem's, and those after the blocks of these numbers, counted from 0 through all stages. The last convolution of the head is
    /// not part of the backbone. Its weights are kept, unused, because other libraries keep them.
    Blocks(&'static [usize]),
    /// That after the block of this number, and the last map of all; without a number only the last. The last convolution of the head is
    /// part of the backbone.
    Only(Option<usize>),
}

/// Stem, stages of blocks, and the last convolution, without pooling and classifier.
#[derive(Module, Debug)]
pub struct Backbone<B: Module + Block> {
    /// The first convolution.
    pub stem: ConvNorm,
    #[module(skip)]
    pool: Option<MaxPool>,
    /// The blocks, with a list for each row of the paper's table.
    pub stages: Vec<Vec<B>>,
    /// The last 1x1 convolution, if the classifier has one.
    pub features: Option<ConvNorm>,
    #[module(skip)]
    taps: Taps,
}

impl<B: Block> Staged<B> {
    /// The network without its head.
    pub fn into_backbone(self, taps: Taps) -> Backbone<B> {
        let (stem, pool, stages, head) = self.into_parts();
        Backbone { stem, pool, stages, features: head.features, taps }
    }
}

impl<B: Block> Backbone<B> {
    /// `[batch, channels, height, width]` to a feature map of each resolution, finest first.
    pub fn forward_features(&self, images: Tensor<4>) -> Vec<Tensor<4>> {
        let blocks = Checkpointing::Blocks;
        (0..self.segments(blocks)).fold(vec![images], |maps, index| self.run_segment(blocks, index, maps))
    }

    /// Number of segments of [`Backbone::run_segment`].
    pub fn segments(&self, checkpointing: Checkpointing) -> usize {
        let between = match checkpointing {
            Checkpointing::None => return 0,
            Checkpointing::Stages => self.stages.len(),
            Checkpointing::Blocks => self.stages.iter().map(Vec::len).sum(),
        };
        1 + between + usize::from(self.last().is_some())
    }

    /// Runs segment `index`; segment 0 takes the images. A segment makes the maps that are read, as far as they are there, finest first,
    /// and then the one that the next segment goes on from, if it is none of them.
    pub fn run_segment(&self, checkpointing: Checkpointing, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        let Some(index) = index.checked_sub(1) else { return self.run_stem(maps) };
        let mut blocks = self.stages.iter().flatten().enumerate();
        let in_segment = match checkpointing {
            Checkpointing::None => return maps,
            Checkpointing::Blocks => blocks.nth(index).into_iter().collect::<Vec<_>>(),
            Checkpointing::Stages => {
                let before = self.stages.iter().take(index).map(Vec::len).sum();
                blocks.skip(before).take(self.stages.get(index).map_or(0, Vec::len)).collect()
            }
        };
        let maps = match in_segment.is_empty() {
            true => self.run_last(maps),
            false => {
                let run = |maps, (number, block): (usize, &B)| {
                    self.advance(maps, number, |x| block.forward(self.apart(x, number)))
                };
                in_segment.into_iter().fold(maps, run)
            }
        };
        if index + 2 == self.segments(checkpointing) { self.without_unread(maps) } else { maps }
    }

    /// The same weights with kernels that step over no pixel, block by block: see [`Block::atrous`]. `dilations` has one for each block
    /// that changes, in the order of all blocks.
    pub fn atrous(self, dilations: impl IntoIterator<Item = Option<usize>>) -> Self {
        let mut dilations = dilations.into_iter();
        let mut change = |block: B| match dilations.next().flatten() {
            Some(dilation) => block.atrous(dilation),
            None => block,
        };
        let stages = self.stages.into_iter().map(|stage| stage.into_iter().map(&mut change).collect()).collect();
        Self { stages, ..self }
    }

    fn run_stem(&self, images: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        let run = |images| match &self.pool {
            None => vec![self.stem.forward(images)],
            // The map between them is not stored.
            Some(pool) if self.is_only_pooled() => vec![pool.read(self.stem.pass(Map::from(images)))],
            Some(pool) => {
                let x = self.stem.forward(images);
                let pooled = pool.forward(x.clone());
                vec![x, pooled]
            }
        };
        images.into_iter().flat_map(run).collect()
    }

    /// Whether the map of the stem is read by nothing but the pooling after it.
    fn is_only_pooled(&self) -> bool {
        matches!(self.taps, Taps::Only(_))
    }

    fn run_last(&self, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        match self.last() {
            Some(features) => self.advance(maps, self.blocks(), |x| features.forward(self.apart(x, self.blocks()))),
            None => maps,
        }
    }

    /// The map that part `number` reads, as a node of its own on the gradient graph if it is read from outside too. A part may use it
    /// several times, for its shortcut and for its first convolution. Those gradients are then added up before the one from outside, as
    /// they are where the part is a segment of its own: sums of three numbers depend on the order.
    fn apart(&self, x: Tensor<4>, number: usize) -> Tensor<4> {
        let is_apart = self.is_read_before(number) && x.is_autodiff() && ops::on_cpu(&x);
        if is_apart { x.clone().reshape(x.dims()) } else { x }
    }

    /// Describes [`Backbone::forward_features`].
    pub fn describe_features(&self, input: Value, trace: &mut Trace) -> Vec<Value> {
        let mut maps = vec![trace.scope("stem", |trace| self.stem.describe(input, trace))];
        if let Some(pool) = &self.pool {
            let pooled = trace.scope("pool", |trace| pool.describe(maps[0], trace));
            if self.is_only_pooled() {
                maps.clear();
            }
            maps.push(pooled);
        }
        let mut number = 0;
        for (stage, blocks) in self.stages.iter().enumerate() {
            for (index, block) in blocks.iter().enumerate() {
                let name = format!("stages.{stage}.{index}");
                maps = self.advance(maps, number, |x| trace.scope(name, |trace| block.describe(x, trace)));
                number += 1;
            }
        }
        if let Some(features) = self.last() {
            maps = self.advance(maps, number, |x| trace.scope("features", |trace| features.describe(x, trace)));
        }
        self.without_unread(maps)
    }

    /// The last convolution, if it is part of the backbone.
    fn last(&self) -> Option<&ConvNorm> {
        self.features.as_ref().filter(|_| !matches!(self.taps, Taps::Blocks(_)))
    }

    /// The number of blocks, which is also the number of the part after them.
    fn blocks(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }

    /// Whether the map that part `number` reads, of the blocks and the convolution after them, is one that is read from outside too.
    fn is_read_before(&self, number: usize) -> bool {
        match (number.checked_sub(1), self.taps) {
            (None, Taps::Only(_)) => false,
            (None, _) => self.pool.is_none(),
            (Some(_), Taps::Last) => true,
            (Some(before), Taps::Blocks(numbers)) => numbers.contains(&before),
            (Some(before), Taps::Only(number)) => number == Some(before),
        }
    }

    /// The maps that are read, once all parts have run.
    fn without_unread<T>(&self, mut maps: Vec<T>) -> Vec<T> {
        if matches!(self.taps, Taps::Blocks(_)) && !self.is_read_before(self.blocks()) {
            maps.pop();
        }
        maps
    }

    /// Runs part `number`.
    fn advance<T: OnGrid>(&self, mut maps: Vec<T>, number: usize, run: impl FnOnce(T) -> T) -> Vec<T> {
        let Some(x) = maps.pop() else { return maps };
        if self.is_read_before(number) {
            maps.push(x.clone());
        }
        let x = run(x);
        // The last map of a resolution takes the place of those before it.
        if self.taps == Taps::Last && maps.last().is_some_and(|map| map.size() == x.size()) {
            maps.pop();
        }
        maps.push(x);
        maps
    }
}

/// What has height and width.
trait OnGrid: Clone {
    fn size(&self) -> [usize; 2];
}

impl OnGrid for Tensor<4> {
    fn size(&self) -> [usize; 2] {
        let [_, _, height, width] = self.dims();
        [height, width]
    }
}

impl OnGrid for Value {
    fn size(&self) -> [usize; 2] {
        [self.map.height, self.map.width]
    }
}

impl<B: Block> Describe for Backbone<B> {
    /// The maps become the stages of the trace; the last one is returned.
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let maps = self.describe_features(input, trace);
        trace.stages = maps.iter().map(|&value| Stage { name: String::new(), value }).collect();
        maps.last().copied().unwrap_or(input)
    }
}
