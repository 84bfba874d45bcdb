//! A classifier without its head, for networks that read its feature maps.

use burn::module::Module;
use burn::tensor::Tensor;

use crate::ConvNorm;
use crate::blocks::Block;
use crate::pool::MaxPool;
use crate::staged::Staged;
use crate::trace::{Describe, Stage, Trace, Value};

/// Which feature map of each resolution is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Taps {
    /// The last one. The last convolution of the classifier's head is part of the backbone.
    #[default]
    Last,
    /// The stem's, and those after the blocks of these numbers, counted from 0 through all stages. The last convolution of the head is
    /// not part of the backbone. Its weights are kept, unused, because other libraries keep them.
    Blocks(&'static [usize]),
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
        let size = |x: &Tensor<4>| [x.dims()[2], x.dims()[3]];
        let mut x = self.stem.forward(images);
        let mut maps = vec![x.clone()];
        if let Some(pool) = &self.pool {
            x = pool.forward(x);
        }
        for (number, block) in self.stages.iter().flatten().enumerate() {
            x = block.forward(x);
            self.see(&mut maps, Some(number), &x, size);
        }
        if let Some(features) = self.last() {
            x = features.forward(x);
            self.see(&mut maps, None, &x, size);
        }
        maps
    }

    /// Describes [`Backbone::forward_features`].
    pub fn describe_features(&self, input: Value, trace: &mut Trace) -> Vec<Value> {
        let size = |x: &Value| [x.map.height, x.map.width];
        let mut x = trace.scope("stem", |trace| self.stem.describe(input, trace));
        let mut maps = vec![x];
        if let Some(pool) = &self.pool {
            x = trace.scope("pool", |trace| pool.describe(x, trace));
        }
        let mut number = 0;
        for (stage, blocks) in self.stages.iter().enumerate() {
            for (index, block) in blocks.iter().enumerate() {
                x = trace.scope(format!("stages.{stage}.{index}"), |trace| block.describe(x, trace));
                self.see(&mut maps, Some(number), &x, size);
                number += 1;
            }
        }
        if let Some(features) = self.last() {
            x = trace.scope("features", |trace| features.describe(x, trace));
            self.see(&mut maps, None, &x, size);
        }
        maps
    }

    /// The last convolution, if it is part of the backbone.
    fn last(&self) -> Option<&ConvNorm> {
        self.features.as_ref().filter(|_| self.taps == Taps::Last)
    }

    /// Adds the map after the block of this number, or after the last convolution, if it is read.
    fn see<T: Clone>(&self, maps: &mut Vec<T>, number: Option<usize>, x: &T, size: impl Fn(&T) -> [usize; 2]) {
        match self.taps {
            Taps::Last if maps.last().is_some_and(|map| size(map) == size(x)) => drop(maps.pop()),
            Taps::Last => {}
            Taps::Blocks(numbers) if number.is_some_and(|number| numbers.contains(&number)) => {}
            Taps::Blocks(_) => return,
        }
        maps.push(x.clone());
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
