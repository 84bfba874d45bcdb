//! From flags, a configuration file and the data set to the resolved configuration.

use std::fmt::Display;

use anyhow::{Context, Result, bail};
use kindling_data::{Dataset, PREFETCH_BYTES, Split, within};
use kindling_layers::{Checkpointing, Freeze, Precision};
use kindling_runs::{RunDir, read_toml};
use kindling_trainer::{MOST_SAMPLES, OptimizerConfig, TrainConfig};
use kindling_zoo::{Model, find};

use serde::Deserialize;

use super::{Args, OptimizerName};
use crate::commands::DEFAULT_MODEL;
use crate::config::{DataConfig, ModelConfig, RunConfig, StartingPoint, preprocess};
use crate::dataset::{self, BRAIN_PLANES, PHANTOMS};
use crate::device::DeviceChoice;
use crate::memory::{Choice, MemoryBudget, limit_before_reading};
use crate::output::note;
use crate::pretrained;

const MODEL: &str = DEFAULT_MODEL;
const IMAGE_SIZE: usize = 512;
const BATCH_SIZE: usize = 8;
/// Passes over a set whose size is not known to us.
const EPOCHS: u64 = 10;
/// Ends within five minutes on two cores; `benchmarks/` has the run.
const PHANTOM_EPOCHS: u64 = 4;
/// Neighbouring slices are alike: three passes see everything there is to see.
const BRAIN_PLANES_EPOCHS: u64 = 3;
const MOMENTUM: f64 = 0.9;

/// What `kindling plan --out` writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    model: String,
    image_size: usize,
    batch_size: usize,
    micro_batch: usize,
    #[serde(alias = "recompute")]
    activation_checkpointing: Checkpointing,
    #[serde(default)]
    precision: Precision,
    memory_budget: u64,
    #[allow(dead_code)] // for people
    predicted_peak: u64,
}

impl Args {
    /// The configuration of a new run: flags first, then the file, then defaults.
    pub(super) fn resolve(&self) -> Result<(RunConfig, Dataset)> {
        let file: Option<RunConfig> = self.config.as_deref().map(read_toml).transpose()?;
        if let (Some(file), Some(path)) = (&file, &self.config) {
            file.clone().checked().with_context(|| path.display().to_string())?;
        }
        let file = file.as_ref();
        let plan: Option<PlanFile> = self.plan.as_deref().map(read_toml).transpose()?;
        let plan = plan.as_ref();
        // Names and sizes first: a typing error should not wait for a data set to be opened.
        let model = self.model.clone().or(plan.map(|plan| plan.model.clone()));
        let model = model.or(file.map(|file| file.model.name.clone())).unwrap_or(MODEL.to_string());
        let model = find(&model)?;
        let size = self
            .image_size
            .or(plan.map(|plan| plan.image_size))
            .or(file.map(|file| file.data.preprocess.size))
            .unwrap_or(IMAGE_SIZE);
        model.check_image_size(size)?;
        let batch_size = self
            .batch_size
            .or(plan.map(|plan| plan.batch_size))
            .or(file.map(|file| file.train.batch_size))
            .unwrap_or(BATCH_SIZE);
        within("batch size", batch_size, 1..=MOST_SAMPLES).map_err(anyhow::Error::msg)?;
        let seed = self.seed.or(file.map(|file| file.train.seed)).unwrap_or(0);
        let source = self.data.clone().or(file.map(|file| file.data.source.clone())).unwrap_or(PHANTOMS.to_string());
        let start = self.starting_point(file, &model)?;
        let on_bad = self.data_args.on_bad_sample().or(file.map(|file| file.data.on_bad_sample)).unwrap_or_default();
        let same_data = file.filter(|file| file.data.source == source);
        let mut opening = self.opening.or(same_data.map(|file| file.data.opening).unwrap_or_default());
        let device = self.device.map(|device| device.to_string()).or(file.map(|file| file.device.clone()));
        let device = device.unwrap_or("auto".to_string());
        let memory_budget = self
            .memory_budget
            .or(plan.map(|plan| MemoryBudget::Bytes(plan.memory_budget)))
            .or(file.and_then(|file| file.memory_budget));
        limit_before_reading(memory_budget, DeviceChoice::configured(&device)?)?;
        let opened = dataset::open_to(&source, seed, &opening, on_bad)?;
        opening.split_by = opened.split_by;
        if !self.quiet && !opened.passed_over.is_empty() {
            note!("{}", opened.passed_over);
        }
        let dataset = opened.dataset;

        let mut data = DataConfig {
            source,
            opening,
            classes: dataset.classes.clone(),
            task: dataset.task,
            augment: match (self.data_args.augment()?, same_data) {
                (Some(asked), _) => asked,
                (None, Some(file)) => file.data.augment.clone(),
                (None, None) => dataset.augment.clone(),
            },
            sampling: self.data_args.sampling().or(file.map(|file| file.data.sampling)).unwrap_or_default(),
            on_bad_sample: on_bad,
            max_bad: self.data_args.max_bad().or(file.map(|file| file.data.max_bad)).unwrap_or_default(),
            preprocess: match same_data {
                Some(file) => file.data.preprocess.clone(),
                None => preprocess(&dataset, size, on_bad)?,
            },
        };
        data.preprocess.size = size;
        if same_data.is_none_or(|file| file.model.start != start)
            && let (Some(StartingPoint::Pretrained(_)), Some(known)) = (&start, model.pretrained())
        {
            data.preprocess.normalisation = pretrained::normalisation(known, dataset.channels);
        }
        self.data_args.prepare(&mut data.preprocess, &dataset)?;
        let freeze = self.freeze.or(file.map(|file| file.model.freeze)).unwrap_or_default();
        let mut train = self.train_config(file, &dataset, batch_size, seed, freeze)?;
        if let Some(plan) = plan {
            train.micro_batch = self.micro_batch.map_or(Some(plan.micro_batch), Choice::fixed);
            train.activation_checkpointing =
                self.activation_checkpointing.map_or(Some(plan.activation_checkpointing), Choice::fixed);
            train.precision = self.precision.unwrap_or(plan.precision);
        }
        let config = RunConfig {
            device,
            workers: self.workers.or(file.map(|file| file.workers)).unwrap_or_else(default_workers),
            prefetch_bytes: self
                .data_args
                .prefetch_bytes()
                .or(file.map(|file| file.prefetch_bytes))
                .unwrap_or(PREFETCH_BYTES),
            memory_budget,
            model: ModelConfig {
                name: model.key(),
                drop_rate: self.drop_rate.or(file.and_then(|file| file.model.drop_rate)),
                drop_path_rate: self.drop_path_rate.or(file.and_then(|file| file.model.drop_path_rate)),
                start,
                freeze,
            },
            data,
            train,
        };
        if let Some(file) = same_data {
            file.check_classes(&dataset)?;
        }
        if config.model.freeze != Freeze::None && config.model.start.is_none() {
            bail!("--freeze keeps random weights as they are unless --pretrained or --weights gives better ones");
        }
        Ok((config.checked()?, dataset))
    }

    /// What the run starts from, after a look that it is there.
    fn starting_point(&self, file: Option<&RunConfig>, model: &Model) -> Result<Option<StartingPoint>> {
        if self.pretrained {
            let (known, _) = pretrained::find(model)?;
            return Ok(Some(StartingPoint::Pretrained(known.sha256.to_string())));
        }
        match &self.weights {
            // A run is resumed from anywhere.
            Some(path) => {
                let path = pretrained::file_of(path)?;
                let path = path.canonicalize().with_context(|| format!("reading {}", path.display()))?;
                Ok(Some(StartingPoint::File(path)))
            }
            None => Ok(file.and_then(|file| file.model.start.clone())),
        }
    }

    fn train_config(
        &self,
        file: Option<&RunConfig>,
        dataset: &Dataset,
        batch_size: usize,
        seed: u64,
        freeze: Freeze,
    ) -> Result<TrainConfig> {
        let file = file.map(|file| &file.train);
        let optimizer = self.optimizer_config(file.map(|file| file.optimizer))?;
        let epochs = match dataset.name.as_str() {
            PHANTOMS => PHANTOM_EPOCHS,
            BRAIN_PLANES => BRAIN_PLANES_EPOCHS,
            _ => EPOCHS,
        };
        let usual = TrainConfig::new(batch_size, self.epochs.or(file.map(|file| file.epochs)).unwrap_or(epochs));
        let ghost_batch_size =
            self.ghost_batch_size.or(file.map(|file| file.ghost_batch_size)).unwrap_or(usual.ghost_batch_size);
        let same_batch = file.filter(|file| file.batch_size == batch_size && file.ghost_batch_size == ghost_batch_size);
        let micro_batch = match self.micro_batch {
            Some(choice) => choice.fixed(),
            None => same_batch.and_then(|file| file.micro_batch),
        };
        let activation_checkpointing = match self.activation_checkpointing {
            Some(choice) => choice.fixed(),
            None => file.and_then(|file| file.activation_checkpointing),
        };
        let lr = match (optimizer, file) {
            (_, Some(file)) if self.optimizer.is_none() => file.lr,
            // A linear head alone.
            (OptimizerConfig::AdamW { .. }, _) if freeze == Freeze::Backbone => 0.01,
            (OptimizerConfig::AdamW { .. }, _) => usual.lr,
            (OptimizerConfig::Sgd { .. }, _) => 0.05,
        };
        let class_weights = match &self.class_weights {
            Some(text) => class_weights(text, dataset)?,
            None => file.and_then(|file| file.class_weights.clone()),
        };
        Ok(TrainConfig {
            batch_size,
            micro_batch,
            activation_checkpointing,
            precision: self.precision.or(file.map(|file| file.precision)).unwrap_or_default(),
            ema: self.ema.or(file.and_then(|file| file.ema)),
            ghost_batch_size,
            norm_momentum: file.and_then(|file| file.norm_momentum),
            epochs: usual.epochs,
            max_steps: self.max_steps.or(file.and_then(|file| file.max_steps)),
            lr: self.lr.unwrap_or(lr),
            warmup: self.warmup.or(file.map(|file| file.warmup)).unwrap_or(usual.warmup),
            optimizer,
            label_smoothing: self.label_smoothing.or(file.map(|file| file.label_smoothing)).unwrap_or(0.0),
            class_weights,
            clip_norm: self.clip_norm.or(file.and_then(|file| file.clip_norm)),
            seed,
            checkpoint_steps: self
                .checkpoint_steps
                .or(file.map(|file| file.checkpoint_steps))
                .unwrap_or(usual.checkpoint_steps),
        })
    }

    fn optimizer_config(&self, file: Option<OptimizerConfig>) -> Result<OptimizerConfig> {
        let fresh = match (self.optimizer, file) {
            (None, Some(file)) => file,
            (None | Some(OptimizerName::AdamW), _) => OptimizerConfig::default(),
            (Some(OptimizerName::Sgd), _) => OptimizerConfig::Sgd { momentum: MOMENTUM, weight_decay: 4e-5 },
        };
        match fresh {
            OptimizerConfig::AdamW { .. } if self.momentum.is_some() => {
                bail!("--momentum belongs to --optimizer sgd; adamw has its own")
            }
            OptimizerConfig::AdamW { weight_decay } => {
                Ok(OptimizerConfig::AdamW { weight_decay: self.weight_decay.unwrap_or(weight_decay) })
            }
            OptimizerConfig::Sgd { momentum, weight_decay } => Ok(OptimizerConfig::Sgd {
                momentum: self.momentum.unwrap_or(momentum),
                weight_decay: self.weight_decay.unwrap_or(weight_decay),
            }),
        }
    }

    /// A resumed run stays what it was: a flag that says otherwise is an error, not a silent change.
    pub(super) fn refuse_changes(&self, run: &RunDir, config: &RunConfig) -> Result<()> {
        let train = &config.train;
        let optimizer = match train.optimizer {
            OptimizerConfig::AdamW { .. } => OptimizerName::AdamW,
            OptimizerConfig::Sgd { .. } => OptimizerName::Sgd,
        };
        let model = self.model.as_deref().map(find).transpose()?.map(|model| model.key());
        let changes = [
            changed("--model", model, config.model.name.clone()),
            changed("--data", self.data.clone(), config.data.source.clone()),
            changed_option("--split-by", self.opening.split_by, config.data.opening.split_by),
            (self.opening.pages && !config.data.opening.pages).then(|| "--pages is not the run's".to_string()),
            changed_option("--window", self.opening.window, config.data.opening.window),
            changed("--image-size", self.image_size, config.data.preprocess.size),
            self.data_args.refused_change(&config.data)?,
            changed("--batch-size", self.batch_size, train.batch_size),
            changed("--ghost-batch-size", self.ghost_batch_size, train.ghost_batch_size),
            changed("--precision", self.precision, train.precision),
            changed("--epochs", self.epochs, train.epochs),
            changed_option("--max-steps", self.max_steps, train.max_steps),
            changed("--lr", self.lr, train.lr),
            changed("--warmup", self.warmup, train.warmup),
            self.optimizer.filter(|given| *given != optimizer).map(|_| "--optimizer is not the run's".to_string()),
            changed("--label-smoothing", self.label_smoothing, train.label_smoothing),
            changed_option("--clip-norm", self.clip_norm, train.clip_norm),
            changed_option("--drop-rate", self.drop_rate, config.model.drop_rate),
            changed_option("--drop-path-rate", self.drop_path_rate, config.model.drop_path_rate),
            changed_option("--ema", self.ema, train.ema),
            changed("--freeze", self.freeze, config.model.freeze),
            self.pretrained.then(|| "--pretrained says what a run starts from".to_string()),
            self.weights.as_ref().map(|_| "--weights says what a run starts from".to_string()),
            changed("--seed", self.seed, train.seed),
            self.weight_decay.map(|_| "--weight-decay is fixed by the run".to_string()),
            self.momentum.map(|_| "--momentum is fixed by the run".to_string()),
            self.class_weights.as_ref().map(|_| "--class-weights are fixed by the run".to_string()),
        ];
        match changes.into_iter().flatten().next() {
            None => Ok(()),
            Some(change) => bail!(
                "{} cannot be resumed as something else: {change}; start a new run, with --config {} to keep its settings",
                run.path().display(),
                run.config().display()
            ),
        }
    }
}

pub(crate) fn changed<T: PartialEq + Display>(flag: &str, given: Option<T>, stored: T) -> Option<String> {
    let given = given.filter(|given| *given != stored)?;
    Some(format!("{flag} is {given}, the run has {stored}"))
}

pub(crate) fn changed_option<T: PartialEq + Display>(
    flag: &str,
    given: Option<T>,
    stored: Option<T>,
) -> Option<String> {
    match stored {
        Some(stored) => changed(flag, given, stored),
        None => given.map(|given| format!("{flag} is {given}, the run has none")),
    }
}

/// Half the cores, between one and four: the CPU device wants the others.
pub(crate) fn default_workers() -> usize {
    (std::thread::available_parallelism().map_or(2, usize::from) / 2).clamp(1, 4)
}

fn class_weights(text: &str, dataset: &Dataset) -> Result<Option<Vec<f64>>> {
    match text {
        "even" => Ok(None),
        "balanced" => {
            let counts = dataset.class_counts(Split::Train);
            let even = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
            Ok(Some(counts.iter().map(|&count| even / count.max(1) as f64).collect()))
        }
        list => {
            let parse = |word: &str| word.trim().parse::<f64>();
            let weights: Result<Vec<f64>, _> = list.split(',').map(parse).collect();
            Ok(Some(weights.context("--class-weights takes even, balanced, or numbers separated by commas")?))
        }
    }
}
