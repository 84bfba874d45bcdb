//! Runs of the public trainer inside the test's own process: pictures made on the spot, a folder that goes away, and
//! everything a run leaves to compare.
#![allow(clippy::unwrap_used)]
#![allow(dead_code)] // each test program uses its share

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burn::tensor::Device;
use kindling_data::{Augment, DataError, Image, Loader, LoaderConfig, Normalisation, Preprocess, Source};
use kindling_layers::blocks::{InvertedResidual, InvertedResidualConfig};
use kindling_layers::tensors::{self, Tensors};
use kindling_layers::{
    Activation, BatchNormConfig, Checkpointing, Classifier, HeadConfig, Padding, Staged, StagedConfig, StemConfig, init,
};
use kindling_memory::Plan;
use kindling_random::{Purpose, rng};
use kindling_runs::{Event, RunDir};
use kindling_trainer::{Ended, Observer, Ranks, Setup, TrainConfig, TrainError, Trainer};
use kindling_zoo::{Model, ModelOptions, models};
use rand::RngExt;

pub(crate) const CLASSES: usize = 3;

/// Grey pictures of three classes, different in brightness, with noise.
pub(crate) struct Pictures {
    pub(crate) count: usize,
    pub(crate) size: usize,
}

impl Source for Pictures {
    fn len(&self) -> usize {
        self.count
    }

    fn label(&self, index: usize) -> usize {
        index % CLASSES
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let mut noise = rng(0, Purpose::MadeUp, 0, index as u64);
        let base = 0.3 * self.label(index) as f32;
        let pixels = (0..self.size * self.size).map(|_| base + 0.4 * noise.random::<f32>()).collect();
        Ok(Image { width: self.size, height: self.size, channels: 1, pixels })
    }

    fn name_of(&self, index: usize) -> String {
        format!("picture {index}")
    }
}

/// A network with everything that could depend on how a batch is cut, as small as can be: two stages, shortcuts with
/// drop-path, dropout.
pub(crate) fn small_network(device: &Device) -> Staged<InvertedResidual> {
    let block =
        |input, output, stride| InvertedResidualConfig::new(input, 2 * input, output, 3, stride, Activation::HardSwish);
    let config = StagedConfig {
        stem: StemConfig::conv3x3(8, Activation::Relu6),
        stages: vec![vec![block(8, 8, 1)], vec![block(8, 16, 2), block(16, 16, 1)]],
        head: HeadConfig { features: Some((32, Activation::Relu6)), hidden: None, drop_rate: 0.2 },
        norm: BatchNormConfig::default(),
        padding: Padding::Symmetric,
        drop_path_rate: 0.3,
    };
    init::initialise(config.init(1, CLASSES, device), 7)
}

/// Of each paper the network with the fewest multiply-adds: all of the zoo would take too long.
pub(crate) fn lightest_of_each_paper() -> Vec<&'static str> {
    let mut found = BTreeMap::new();
    for entry in models() {
        let trace = Model::from(entry).trace(&ModelOptions::imagenet(), entry.native_size).unwrap();
        let this = (trace.macs(), entry.name());
        let lightest = found.entry(entry.paper).or_insert(this);
        *lightest = this.min(*lightest);
    }
    found.into_values().map(|(_, name)| name).collect()
}

/// How a run of the tests trains: AdamW, clipping, an average of the weights, label smoothing.
pub(crate) fn config(batch_size: usize, ghost_batch_size: usize, steps: u64) -> TrainConfig {
    TrainConfig {
        ema: Some(0.9),
        ghost_batch_size,
        max_steps: Some(steps),
        lr: 0.001,
        label_smoothing: 0.1,
        clip_norm: Some(1.0),
        extended: Vec::new(),
        seed: 11,
        checkpoint_steps: 4,
        ..TrainConfig::new(batch_size, 1_000_000)
    }
}

/// What a run is made of besides its configuration.
pub(crate) struct Bench {
    pub(crate) images: usize,
    pub(crate) size: usize,
    pub(crate) start: Plan,
    pub(crate) faults: String,
    pub(crate) augment: Augment,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) keep_events: bool,
}

impl Bench {
    /// `images` pictures of `size` pixels to train on, this many computed at once at the start.
    pub(crate) fn new(images: usize, size: usize, micro_batch: usize) -> Self {
        let start = Plan { micro_batch, checkpointing: Checkpointing::None };
        let (faults, augment) = (String::new(), Augment::Light);
        Self { images, size, start, faults, augment, stop: Arc::default(), keep_events: true }
    }

    /// Trained on pictures that are changed like this.
    pub(crate) fn with_augment(mut self, augment: Augment) -> Self {
        self.augment = augment;
        self
    }

    pub(crate) fn with_faults(mut self, faults: &str) -> Self {
        self.faults = faults.to_string();
        self
    }

    fn loader(&self, count: usize, config: &TrainConfig, train: bool) -> Loader {
        let preprocess = Preprocess::padded(self.size, 1, Normalisation::identity(1));
        let loader = match train {
            true => LoaderConfig {
                augment: self.augment.clone(),
                classes: CLASSES,
                ..LoaderConfig::shuffled(config.batch_size, preprocess, config.seed)
            },
            false => LoaderConfig::in_order(config.batch_size, preprocess),
        };
        Loader::new(Arc::new(Pictures { count, size: self.size }), loader).unwrap()
    }

    /// Trains a model, and says what became of it; `watch` sees every event.
    pub(crate) fn train_watched<M: Classifier>(
        &self,
        model: M,
        device: &Device,
        config: &TrainConfig,
        watch: impl FnMut(&Event),
    ) -> Outcome {
        struct Watch<F>(F, Vec<Event>, bool);
        impl<F: FnMut(&Event)> Observer for Watch<F> {
            fn event(&mut self, event: &Event) {
                (self.0)(event);
                // A soak must not grow by its own records.
                if self.2 {
                    self.1.push(event.clone());
                }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let run = RunDir::create(Some(&folder.path().join("run")), "model", "pictures").unwrap();
        let setup = Setup {
            model_name: "model",
            note: String::new(),
            device: device.clone(),
            train: self.loader(self.images, config, true),
            run: &run,
            stop: self.stop.clone(),
            start: self.start,
            faults: self.faults.parse().unwrap(),
            ranks: Ranks::alone(),
        };
        let mut watch = Watch(watch, Vec::new(), self.keep_events);
        let mut trainer = Trainer::new(model, config.clone(), CLASSES, self.loader(6, config, false), setup).unwrap();
        let ended = trainer.fit(&mut watch);
        drop(trainer);
        // A run that gives up in its first step has no folder of them.
        let entries = fs::read_dir(run.checkpoints()).into_iter().flatten().flatten();
        let mut checkpoints: Vec<_> = entries.map(|entry| entry.path()).collect();
        checkpoints.sort();
        let mut state = BTreeMap::new();
        if let Some(last) = checkpoints.last() {
            for file in ["weights", "optimizer", "average"] {
                state.insert(file, fs::read(last.join(file).with_extension("safetensors")).unwrap());
            }
        }
        Outcome { ended, events: watch.1, state }
    }

    pub(crate) fn train<M: Classifier>(&self, model: M, device: &Device, config: &TrainConfig) -> Outcome {
        let outcome = self.train_watched(model, device, config, |_| {});
        assert!(matches!(outcome.ended, Ok(Ended::Finished)), "{:?} after {}", outcome.ended, self.faults);
        outcome
    }
}

/// What a run leaves.
pub(crate) struct Outcome {
    pub(crate) ended: Result<Ended, TrainError>,
    pub(crate) events: Vec<Event>,
    /// The files of the last checkpoint.
    pub(crate) state: BTreeMap<&'static str, Vec<u8>>,
}

impl Outcome {
    /// Loss and gradient norm of every step.
    pub(crate) fn losses(&self) -> Vec<(f64, f64)> {
        let of = |event: &Event| match event {
            Event::Step { loss, gradient_norm, .. } => Some((*loss, *gradient_norm)),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    pub(crate) fn micro_batches(&self) -> Vec<usize> {
        let of = |event: &Event| match event {
            Event::Step { micro_batch, .. } => Some(*micro_batch),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    /// What was done in each recovery.
    pub(crate) fn levers(&self) -> Vec<String> {
        let of = |event: &Event| match event {
            Event::Recovered { lever, .. } => Some(lever.clone()),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    /// What was scored.
    pub(crate) fn scores(&self) -> Vec<(u64, f64, f64)> {
        let of = |event: &Event| match event {
            Event::Evaluated { step, loss, accuracy, .. } => Some((*step, *loss, accuracy.unwrap_or(f64::NAN))),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    fn tensors(&self, file: &str) -> Tensors {
        tensors::from_bytes(&self.state[file]).unwrap()
    }

    /// Fails unless both ended with the same bits after the same steps.
    pub(crate) fn assert_same_bits(&self, other: &Self, when: &str) {
        assert_eq!(self.losses(), other.losses(), "{when}: losses and gradient norms");
        assert_eq!(self.scores(), other.scores(), "{when}: scores");
        for (file, bytes) in &self.state {
            assert!(*bytes == other.state[file], "{when}: {file} differ by {:e}", self.distance(other, file));
        }
    }

    /// The largest difference between two runs' files, as a share of the largest number.
    pub(crate) fn distance(&self, other: &Self, file: &str) -> f64 {
        let (a, b) = (self.tensors(file), other.tensors(file));
        assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
        let values = |tensors: &Tensors| -> Vec<f64> {
            tensors.values().flat_map(|data| data.clone().convert::<f64>().try_to_vec::<f64>().unwrap()).collect()
        };
        let (a, b) = (values(&a), values(&b));
        let largest = a.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
    }

    /// [`Outcome::distance`] of weights, optimizer and average.
    pub(crate) fn distances(&self, other: &Self) -> [f64; 3] {
        ["weights", "optimizer", "average"].map(|file| self.distance(other, file))
    }
}
