//! A network on a device that fails where it is told to, and runs of it.

use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use burn::data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, Relu};
use burn::optim::lr_scheduler::exponential::ExponentialLrSchedulerConfig;
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::logger::{InMemoryMetricLogger, MetricLogger};
use burn::train::metric::store::{EpochSummary, MetricsUpdate, Split as Part};
use burn::train::metric::{AccuracyMetric, LossMetric, MetricDefinition, NumericEntry};
use burn::train::{
    ClassificationOutput, ExecutionStrategy, InferenceStep, Interrupter, Learner, SupervisedTraining, TrainOutput, TrainStep,
    TrainingStrategy,
};
use kindling_burn_train::{OomProofStrategy, Split};

const SIZE: usize = 8;
const BATCH: usize = 24;
const CLASSES: usize = 3;

/// A batch in host memory, so that its upload is part of the step.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    images: Vec<f32>,
    labels: Vec<i64>,
}

impl Split for Batch {
    fn samples(&self) -> usize {
        self.labels.len()
    }

    fn part(&self, rows: Range<usize>) -> Self {
        let pixels = rows.start * SIZE * SIZE..rows.end * SIZE * SIZE;
        Self { images: self.images[pixels].to_vec(), labels: self.labels[rows].to_vec() }
    }
}

struct Stack;

impl Batcher<(Vec<f32>, i64), Batch> for Stack {
    fn batch(&self, items: Vec<(Vec<f32>, i64)>, _device: &Device) -> Batch {
        let labels = items.iter().map(|(_, label)| *label).collect();
        Batch { images: items.into_iter().flat_map(|(image, _)| image).collect(), labels }
    }
}

/// Where a device may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Upload,
    /// After the forward pass, before the backward pass.
    Forward,
    Backward,
    /// Before the optimizer.
    Optimizer,
    /// After it.
    Optimized,
    Infer,
}

#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) moment: Moment,
    /// How often the moment comes before.
    pub(crate) call: usize,
    pub(crate) text: &'static str,
}

impl Fault {
    pub(crate) fn oom(moment: Moment, call: usize) -> Self {
        Self { moment, call, text: "out of device memory allocating 1048576 bytes" }
    }
}

#[derive(Default)]
struct Memory {
    faults: Vec<Fault>,
    calls: [AtomicUsize; 6],
    holds: usize,
    /// After so many steps the run is interrupted.
    stop: Option<(usize, Interrupter)>,
}

impl Debug for Memory {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.faults)
    }
}

impl Memory {
    fn at(&self, moment: Moment, samples: usize) {
        let call = self.calls[moment as usize].fetch_add(1, Relaxed);
        if let Some(fault) = self.faults.iter().find(|fault| (fault.moment, fault.call) == (moment, call)) {
            panic!("{}", fault.text);
        }
        if samples > self.holds {
            panic!("out of device memory allocating 1048576 bytes");
        }
        if let Some((steps, interrupter)) = &self.stop
            && moment == Moment::Optimized
            && call + 1 == *steps
        {
            interrupter.stop(Some("enough"));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Norm {
    None,
    Burn,
    Kindling,
}

#[derive(Module, Debug)]
pub(crate) struct Net {
    conv: Conv2d,
    burns: Option<BatchNorm>,
    ours: Option<kindling_layers::BatchNorm>,
    dropout: Option<Dropout>,
    classifier: Linear,
    #[module(skip)]
    memory: Arc<Memory>,
}

impl Net {
    /// The same for every run with the same layers, parameter identities apart.
    pub(crate) fn new(run: &Run) -> Self {
        let device = Device::flex().autodiff();
        device.seed(11);
        Self {
            conv: Conv2dConfig::new([1, 6], [3, 3]).init(&device),
            classifier: LinearConfig::new(6, CLASSES).init(&device),
            burns: (run.norm == Norm::Burn).then(|| BatchNormConfig::new(6).init(&device)),
            ours: (run.norm == Norm::Kindling).then(|| kindling_layers::BatchNormConfig::default().init(6, &device)),
            dropout: run.dropout.then(|| DropoutConfig::new(0.25).init()),
            memory: Arc::default(),
        }
    }

    fn judge(&self, batch: Batch) -> ClassificationOutput {
        let device = self.conv.weight.device();
        let samples = batch.samples();
        let images = Tensor::<4>::from_data(TensorData::new(batch.images, [samples, 1, SIZE, SIZE]), &device);
        let labels = Tensor::<1, Int>::from_data(TensorData::new(batch.labels, [samples]), &device);
        let mut x = self.conv.forward(images);
        if let Some(norm) = &self.burns {
            x = norm.forward(x);
        }
        if let Some(norm) = &self.ours {
            x = norm.forward(x);
        }
        let x = Relu::new().forward(x).mean_dims(&[2, 3]).reshape([samples, 6]);
        let x = if let Some(dropout) = &self.dropout { dropout.forward(x) } else { x };
        let logits = self.classifier.forward(x);
        let loss = CrossEntropyLossConfig::new().init(&device).forward(logits.clone(), labels.clone());
        ClassificationOutput::new(loss, logits, labels)
    }
}

impl TrainStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let samples = batch.samples();
        self.memory.at(Moment::Upload, samples);
        let output = self.judge(batch);
        self.memory.at(Moment::Forward, samples);
        let gradients = output.loss.backward();
        self.memory.at(Moment::Backward, samples);
        TrainOutput::new(self, gradients, output)
    }

    fn optimize(self, optimizer: &mut ModuleOptimizer, rate: ModuleLearningRate, gradients: GradientsParams) -> Self {
        self.memory.at(Moment::Optimizer, 0);
        let next = optimizer.step(rate, self, gradients);
        next.memory.at(Moment::Optimized, 0);
        next
    }
}

impl InferenceStep for Net {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.memory.at(Moment::Infer, batch.samples());
        self.judge(batch)
    }
}

/// A training and what disturbs it.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) epochs: usize,
    pub(crate) batches: usize,
    pub(crate) rate: f64,
    pub(crate) norm: Norm,
    pub(crate) dropout: bool,
    pub(crate) accumulation: Option<usize>,
    pub(crate) micro_batch: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) burns_own: bool,
    pub(crate) faults: Vec<Fault>,
    /// Samples the device holds at once.
    pub(crate) holds: usize,
    pub(crate) resume: Option<(usize, Arc<tempfile::TempDir>)>,
    pub(crate) stop_after: Option<usize>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            epochs: 2,
            batches: 4,
            rate: 0.01,
            norm: Norm::None,
            dropout: false,
            accumulation: None,
            micro_batch: None,
            seed: None,
            burns_own: false,
            faults: Vec::new(),
            holds: usize::MAX,
            resume: None,
            stop_after: None,
        }
    }
}

/// What a run left.
pub(crate) struct Ended {
    pub(crate) net: Net,
    pub(crate) error: Option<String>,
    pub(crate) recoveries: Vec<String>,
    pub(crate) metrics: Vec<String>,
    /// The files of the last epoch's checkpoint.
    pub(crate) checkpoint: Vec<Vec<u8>>,
    pub(crate) folder: Arc<tempfile::TempDir>,
}

/// Burn's generator is one for the process.
static ALONE: Mutex<()> = Mutex::new(());

/// The initial networks, by their layers: parameter identities are part of what is compared.
static NETS: Mutex<Vec<((Norm, bool), Net)>> = Mutex::new(Vec::new());

impl Run {
    fn net(&self, interrupter: Interrupter) -> Net {
        let mut nets = NETS.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = (self.norm, self.dropout);
        if !nets.iter().any(|(known, _)| *known == kind) {
            nets.push((kind, Net::new(self)));
        }
        let (_, net) = nets.iter().find(|(known, _)| *known == kind).unwrap();
        let memory = Memory {
            faults: self.faults.clone(),
            calls: Default::default(),
            holds: self.holds,
            stop: self.stop_after.map(|steps| (steps, interrupter)),
        };
        // Running statistics are shared between clones of a network.
        Net { memory: Arc::new(memory), ..net.valid().train() }
    }

    pub(crate) fn go(&self) -> Ended {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let device = Device::flex();
        let interrupter = Interrupter::new();
        let net = self.net(interrupter.clone());
        device.seed(12);

        let recoveries = Arc::new(Mutex::new(Vec::new()));
        let seen = recoveries.clone();
        let mut strategy = OomProofStrategy::new(device.clone())
            .on_recovery(move |recovery| seen.lock().unwrap().push(recovery.lever.clone()));
        if let Some(samples) = self.micro_batch {
            strategy = strategy.micro_batch(samples);
        }
        if let Some(seed) = self.seed {
            strategy = strategy.seed(seed);
        }
        let strategy = if self.burns_own {
            TrainingStrategy::Default(ExecutionStrategy::SingleDevice(device))
        } else {
            TrainingStrategy::Custom(Arc::new(strategy))
        };

        let folder = self.resume.as_ref().map(|(_, folder)| folder.clone());
        let folder = folder.unwrap_or_else(|| Arc::new(tempfile::tempdir().unwrap()));
        let metrics = Arc::new(Mutex::new(Vec::new()));
        let train = samples(self.batches * BATCH - 5, Some(2));
        let mut training = SupervisedTraining::new(folder.path(), train, samples(28, None))
            .with_training_strategy(strategy)
            .with_metric_logger(Recorder { inner: InMemoryMetricLogger::new(), seen: metrics.clone() })
            .metrics((LossMetric::new(), AccuracyMetric::new()))
            .with_default_checkpointers()
            .with_application_logger(None)
            .with_interrupter(interrupter)
            .num_epochs(self.epochs);
        if let Some(batches) = self.accumulation {
            training = training.grads_accumulation(batches);
        }
        if let Some((epoch, _)) = &self.resume {
            training = training.checkpoint(*epoch);
        }
        let optimizer = AdamWConfig::new().with_weight_decay(0.02).init();
        let schedule = ExponentialLrSchedulerConfig::new(self.rate.max(1e-30), 0.9).init().unwrap();
        let result = training.launch(Learner::new(net, optimizer, schedule));

        let file = |part: &str| folder.path().join("checkpoint").join(format!("{part}-{}.bpk", self.epochs));
        let recoveries = recoveries.lock().unwrap().clone();
        let metrics = metrics.lock().unwrap().clone();
        Ended {
            net: result.model,
            error: result.error.map(|error| error.to_string()),
            recoveries,
            metrics,
            checkpoint: ["model", "optim", "scheduler"].map(|part| read(file(part))).to_vec(),
            folder,
        }
    }
}

fn read(path: PathBuf) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

fn samples(count: usize, shuffle: Option<u64>) -> Arc<dyn DataLoader<Batch>> {
    let sample = |index: usize| {
        let label = index % CLASSES;
        let mut noise = (index as u32 + 1).wrapping_mul(2_654_435_769);
        let pixels = (0..SIZE * SIZE).map(|pixel| {
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            (noise % 1000) as f32 / 1000.0 + (pixel % (label + 2)) as f32
        });
        (pixels.collect(), label as i64)
    };
    let loader = DataLoaderBuilder::new(Stack).batch_size(if shuffle.is_some() { BATCH } else { 16 });
    let loader = if let Some(seed) = shuffle { loader.shuffle(seed) } else { loader };
    loader.build(InMemDataset::new((0..count).map(sample).collect()))
}

/// Keeps what metrics are logged.
struct Recorder {
    inner: InMemoryMetricLogger,
    seen: Arc<Mutex<Vec<String>>>,
}

impl MetricLogger for Recorder {
    fn log(&mut self, update: MetricsUpdate, epoch: usize, split: &Part) {
        self.seen.lock().unwrap().push(format!("{epoch} {split:?} {update:?}"));
        self.inner.log(update, epoch, split);
    }

    fn read_numeric(&mut self, name: &str, epoch: usize, split: &Part) -> Result<Vec<NumericEntry>, String> {
        self.inner.read_numeric(name, epoch, split)
    }

    fn log_metric_definition(&mut self, definition: MetricDefinition) {
        self.inner.log_metric_definition(definition);
    }

    fn log_epoch_summary(&mut self, summary: EpochSummary) {
        self.inner.log_epoch_summary(summary);
    }
}

/// Every float of a network, running statistics included.
pub(crate) fn everything(net: &Net) -> Vec<f64> {
    struct All(Vec<f64>);
    impl ModuleVisitor for All {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.extend(param.val().into_data().try_to_vec::<f32>().unwrap().into_iter().map(f64::from));
        }
    }
    let mut all = All(Vec::new());
    net.visit(&mut all);
    all.0
}

/// [`everything`], as bits.
pub(crate) fn bits(net: &Net) -> Vec<u64> {
    everything(net).into_iter().map(f64::to_bits).collect()
}

pub(crate) fn largest_difference(a: &Net, b: &Net) -> f64 {
    everything(a).iter().zip(everything(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}
