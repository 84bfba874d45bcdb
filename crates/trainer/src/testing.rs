//! A small classifier and batches for it; how far two states are apart.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_data::HostBatch;
use kindling_layers::{
    Activation, BatchNormConfig, Checkpointing, Classifier, Conv2dConfig, ConvNorm, ConvNormConfig, Dropout, Linear,
    global_average_pool, init,
};
use kindling_random::{Purpose, rng};
use rand::RngExt;

pub(crate) const CLASSES: usize = 3;
const SIZE: usize = 12;

/// Convolution, depthwise convolution, pooling, dropout, classifier.
#[derive(Module, Debug)]
pub(crate) struct Toy {
    stem: ConvNorm,
    depthwise: ConvNorm,
    #[module(skip)]
    dropout: Dropout,
    classifier: Linear,
}

impl Toy {
    pub(crate) fn new(device: &Device) -> Self {
        let block = |input, output, depthwise| {
            let conv = Conv2dConfig { depthwise, ..Conv2dConfig::new(input, output, 3, 1) };
            ConvNormConfig { conv, norm: BatchNormConfig::default(), activation: Activation::HardSwish }.init(device)
        };
        let toy = Self {
            stem: block(1, 6, false),
            depthwise: block(6, 6, true),
            dropout: Dropout { probability: 0.25, layer: 0 },
            classifier: Linear::new(6, CLASSES, device),
        };
        init::initialise(toy, 5)
    }
}

impl Classifier for Toy {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.finish(self.depthwise.forward(self.stem.forward(images)))
    }

    fn segments(&self, checkpointing: Checkpointing) -> usize {
        if checkpointing == Checkpointing::None { 0 } else { 2 }
    }

    fn run_segment(&self, _checkpointing: Checkpointing, index: usize, x: Tensor<4>) -> Tensor<4> {
        if index == 0 { self.stem.forward(x) } else { self.depthwise.forward(x) }
    }

    fn finish(&self, x: Tensor<4>) -> Tensor<2> {
        self.classifier.forward(self.dropout.forward(global_average_pool(x)))
    }
}

/// A batch of noise.
pub(crate) fn batch(size: usize, index: usize) -> HostBatch {
    let mut rng = rng(3, Purpose::Display, 0, index as u64);
    HostBatch {
        images: (0..size * SIZE * SIZE).map(|_| rng.random::<f32>()).collect(),
        shape: [size, 1, SIZE, SIZE],
        labels: (0..size).map(|row| row % CLASSES).collect(),
        samples: (0..size).map(|row| (index * size + row) as u64).collect(),
        index,
        ..HostBatch::default()
    }
}
