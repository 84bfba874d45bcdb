//! Runs of a small network, and what they leave.
#![allow(dead_code)] // each test takes what it needs
#![allow(clippy::unwrap_used)] // as in every test

mod net;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use burn::data::dataloader::{DataLoader, DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::AdamWConfig;
use burn::optim::lr_scheduler::exponential::ExponentialLrSchedulerConfig;
use burn::tensor::{Device, Tensor};
use burn::train::logger::{InMemoryMetricLogger, MetricLogger};
use burn::train::metric::store::{Aggregate, Direction, EpochSummary, MetricsUpdate, Split as Part};
use burn::train::metric::{AccuracyMetric, LossMetric, MetricDefinition, NumericEntry};
use burn::train::{
    ExecutionStrategy, Interrupter, Learner, MetricEarlyStoppingStrategy, StoppingCondition, SupervisedTraining,
    TrainingStrategy,
};
use burn_pack::Reader;
use kindling_burn_train::OomProofStrategy;
use kindling_random::{Purpose, rng};
use rand::RngExt;

use net::{Batch, CLASSES, Memory, SIZE};
pub(crate) use net::{Fault, Net, Norm, Phase};

const BATCH: usize = 24;

struct Stack;

impl Batcher<(Vec<f32>, i64), Batch> for Stack {
    fn batch(&self, items: Vec<(Vec<f32>, i64)>, _device: &Device) -> Batch {
        let labels = items.iter().map(|(_, label)| *label).collect();
        Batch { images: items.into_iter().flat_map(|(image, _)| image).collect(), labels }
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
    pub(crate) ghost_batch_size: usize,
    pub(crate) seed: Option<u64>,
    pub(crate) shuffle: bool,
    pub(crate) burns_own: bool,
    pub(crate) faults: Vec<Fault>,
    /// Samples the device holds at once.
    pub(crate) holds: usize,
    pub(crate) resume: Option<(usize, Arc<tempfile::TempDir>)>,
    pub(crate) stop_after: Option<usize>,
    /// Stop when the loss has not risen for an epoch.
    pub(crate) early_stopping: bool,
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
            ghost_batch_size: 8,
            seed: None,
            shuffle: true,
            burns_own: false,
            faults: Vec::new(),
            holds: usize::MAX,
            resume: None,
            stop_after: None,
            early_stopping: false,
        }
    }
}

/// What a run left.
pub(crate) struct Ended {
    pub(crate) net: Net,
    pub(crate) error: Option<String>,
    pub(crate) recoveries: Vec<String>,
    pub(crate) metrics: Vec<String>,
    /// What is in the files of the last epoch's checkpoint.
    pub(crate) checkpoint: Vec<Vec<String>>,
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
        let stop = self.stop_after.map(|steps| (steps, interrupter));
        net.valid().train().on(Memory::new(self.faults.clone(), self.holds, stop))
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
            .ghost_batch_size(self.ghost_batch_size)
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
        let train = samples(self.batches * BATCH - 5, BATCH, self.shuffle);
        let mut training = SupervisedTraining::new(folder.path(), train, samples(28, 16, false))
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
        if self.early_stopping {
            let condition = StoppingCondition::NoImprovementSince { n_epochs: 1 };
            let (loss, split) = (LossMetric::new(), Part::Valid);
            let stop = MetricEarlyStoppingStrategy::new(&loss, Aggregate::Mean, Direction::Highest, split, condition);
            training = training.early_stopping(stop);
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

/// A record, if there is one. Its tensors lie in any order.
fn read(path: PathBuf) -> Vec<String> {
    let Ok(reader) = Reader::from_file(path) else { return Vec::new() };
    let scalars = reader.scalars().iter().map(|(name, value)| format!("{name} {value:?}")).collect::<Vec<_>>();
    let tensors = reader.tensor_names().into_iter().map(|name| format!("{name} {:?}", reader.tensor_data(name)));
    let mut all: Vec<String> = tensors.chain(scalars).collect();
    all.sort();
    all
}

fn samples(count: usize, batch: usize, shuffle: bool) -> Arc<dyn DataLoader<Batch>> {
    let sample = |index: usize| {
        let label = index % CLASSES;
        let mut noise = rng(0, Purpose::MadeUp, 0, index as u64);
        let pixels = (0..SIZE * SIZE).map(|pixel| noise.random::<f32>() + (pixel % (label + 2)) as f32);
        (pixels.collect(), label as i64)
    };
    let loader = DataLoaderBuilder::new(Stack).batch_size(batch);
    let loader = if shuffle { loader.shuffle(2) } else { loader };
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
