//! A small network of Burn's own layers, trained by Burn's own `Learner`, three times: undisturbed, with a device that
//! runs out of memory now and then, and with one that holds no more than eight images at once.
//!
//! Run it in this folder with `cargo run --example oom_proof_learner`.

use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use burn::data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::{Initializer, Module};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{GroupNorm, GroupNormConfig, Linear, LinearConfig, PaddingConfig2d, Relu};
use burn::optim::AdamWConfig;
use burn::optim::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::renderer::CliMetricsRenderer;
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep, TrainingStrategy,
};
use kindling_burn_train::{OomProofStrategy, Split};
use kindling_random::{Purpose, rng};
use rand::RngExt;

const SIZE: usize = 16;
const BATCH: usize = 32;

// ---- What any Burn application has: a network, a batch, a batcher -----------------------------------------------------

/// Two convolutions and a classifier.
#[derive(Module, Debug)]
struct Network {
    first: Conv2d,
    norm: GroupNorm,
    second: Conv2d,
    classifier: Linear,
}

impl Network {
    fn new(device: &Device) -> Self {
        let conv = |from, to| {
            let config = Conv2dConfig::new([from, to], [3, 3]).with_stride([2, 2]);
            config.with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1)).init(device)
        };
        Self {
            first: conv(1, 8),
            norm: GroupNormConfig::new(2, 8).init(device),
            second: conv(8, 16),
            classifier: LinearConfig::new(16, 2)
                .with_initializer(Initializer::XavierUniform { gain: 1.0 })
                .init(device),
        }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = Relu::new().forward(self.norm.forward(self.first.forward(images)));
        let x = Relu::new().forward(self.second.forward(x));
        let [batch, channels, height, width] = x.dims();
        self.classifier.forward(x.reshape([batch, channels, height * width]).mean_dim(2).reshape([batch, channels]))
    }

    fn judge(&self, batch: Batch) -> ClassificationOutput {
        let logits = self.forward(batch.images);
        let loss = CrossEntropyLossConfig::new().init(&logits.device()).forward(logits.clone(), batch.labels.clone());
        ClassificationOutput::new(loss, logits, batch.labels)
    }
}

#[derive(Clone, Debug)]
struct Batch {
    images: Tensor<4>,
    labels: Tensor<1, Int>,
}

struct Stack;

impl Batcher<(Vec<f32>, i64), Batch> for Stack {
    fn batch(&self, items: Vec<(Vec<f32>, i64)>, device: &Device) -> Batch {
        let labels: Vec<i64> = items.iter().map(|(_, label)| *label).collect();
        let shape = [items.len(), 1, SIZE, SIZE];
        let images: Vec<f32> = items.into_iter().flat_map(|(image, _)| image).collect();
        Batch {
            images: Tensor::from_data(TensorData::new(images, shape), device),
            labels: Tensor::from_data(TensorData::new(labels, [shape[0]]), device),
        }
    }
}

// ---- What the strategy asks for: how a batch is cut ------------------------------------------------------------------

impl Split for Batch {
    fn samples(&self) -> usize {
        self.images.dims()[0]
    }

    fn part(&self, rows: Range<usize>) -> Self {
        Self { images: self.images.clone().slice(rows.clone()), labels: self.labels.clone().slice(rows) }
    }
}

// ---- A device that runs out of memory --------------------------------------------------------------------------------

/// How a device fails.
#[derive(Debug, Default)]
struct Memory {
    calls: AtomicUsize,
    /// Every so many calls it is full; 0 is never.
    full_every: usize,
    /// Images it holds at once, where that is limited.
    holds: Option<usize>,
}

/// The network on such a device.
#[derive(Module, Debug)]
struct OnSmallDevice {
    network: Network,
    #[module(skip)]
    memory: Arc<Memory>,
}

impl OnSmallDevice {
    /// Fails as Burn's runtimes do: by a panic with this text.
    fn allocate(&self, images: usize) {
        let call = self.memory.calls.fetch_add(1, Relaxed) + 1;
        let full = self.memory.full_every > 0 && call.is_multiple_of(self.memory.full_every);
        if full || self.memory.holds.is_some_and(|holds| images > holds) {
            panic!("out of device memory allocating 1048576 bytes");
        }
    }
}

impl TrainStep for OnSmallDevice {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let samples = batch.samples();
        let output = self.network.judge(batch);
        self.allocate(samples); // between forward and backward, where memory is fullest
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for OnSmallDevice {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.allocate(batch.samples());
        self.network.judge(batch)
    }
}

// ---- Three runs --------------------------------------------------------------------------------------------------------

/// Bars, lying or standing, in noise.
fn bars(count: usize, device: &Device, shuffle: Option<u64>) -> Arc<dyn DataLoader<Batch>> {
    let image = |index: usize| {
        let (standing, at) = (index % 2, 2 + index * 5 % 12);
        let mut noise = rng(0, Purpose::MadeUp, 0, index as u64);
        let pixels = (0..SIZE * SIZE).map(|pixel| {
            let place = if standing == 1 { pixel % SIZE } else { pixel / SIZE };
            noise.random::<f32>() + if place.abs_diff(at) < 2 { 1.0 } else { 0.0 }
        });
        (pixels.collect(), standing as i64)
    };
    let loader = DataLoaderBuilder::new(Stack).batch_size(BATCH).set_device(device.clone());
    let loader = if let Some(seed) = shuffle { loader.shuffle(seed) } else { loader };
    loader.build(InMemDataset::new((0..count).map(image).collect()))
}

fn train(network: &Network, memory: Memory, folder: &Path) -> Result<Network, Box<dyn Error>> {
    let device = Device::flex();
    let model = OnSmallDevice { network: network.clone(), memory: Arc::new(memory) };
    let optimizer = AdamWConfig::new().with_weight_decay(0.01).init();
    let scheduler = CosineAnnealingLrSchedulerConfig::new(0.02, 24).init()?;

    // The two lines that are added to a training that is there already.
    let strategy =
        OomProofStrategy::new(device.clone()).on_recovery(|recovery| println!("  out of memory: {}", recovery.lever));

    let result = SupervisedTraining::new(folder, bars(200, &device, Some(1)), bars(64, &device, None))
        .with_training_strategy(TrainingStrategy::Custom(Arc::new(strategy)))
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .with_default_checkpointers()
        .with_application_logger(None)
        .renderer(Box::new(CliMetricsRenderer::new())) // with the feature `tui` leave this out: the dashboard
        .num_epochs(3)
        .summary()
        .launch(Learner::new(model, optimizer, scheduler));
    match result.error {
        Some(error) => Err(error.to_string().into()),
        None => Ok(result.model.network),
    }
}

/// All weights in a row.
fn weights(network: &Network) -> Result<Vec<f32>, Box<dyn Error>> {
    let mut all = Vec::new();
    for layer in [&network.first, &network.second] {
        all.extend(layer.weight.val().into_data().try_to_vec::<f32>().map_err(|error| format!("{error:?}"))?);
    }
    all.extend(network.classifier.weight.val().into_data().try_to_vec::<f32>().map_err(|error| format!("{error:?}"))?);
    Ok(all)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("oom-proof-learner-{}", std::process::id()));
    let device = Device::flex();
    device.seed(3);
    let network = Network::new(&device.clone().autodiff());

    println!("--- undisturbed");
    let undisturbed = weights(&train(&network, Memory::default(), &folder.join("undisturbed"))?)?;
    println!("--- out of memory at every eleventh call");
    let disturbed = Memory { full_every: 11, ..Memory::default() };
    let disturbed = weights(&train(&network, disturbed, &folder.join("disturbed"))?)?;
    println!("--- room for eight images");
    let small = Memory { holds: Some(8), ..Memory::default() };
    let small = weights(&train(&network, small, &folder.join("small"))?)?;
    std::fs::remove_dir_all(&folder)?;

    let largest = undisturbed.iter().zip(&small).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("out of memory at every eleventh call: the final weights are the same bits: {}", undisturbed == disturbed);
    println!("room for eight images: the final weights differ by at most {largest:e}");
    if undisturbed != disturbed || largest > 1e-4 {
        return Err("the strategy changed the result".into());
    }
    Ok(())
}
