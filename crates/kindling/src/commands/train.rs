//! `kindling train`: start a run, or continue one.

mod data_args;
mod resolve;
mod restart;
mod words;

pub(crate) use resolve::{changed, changed_option, default_workers};

use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow, bail};
use clap::ValueEnum;
use kindling_data::{DataError, Dataset, FileList, Split, largest_decoding_bytes};
use kindling_layers::{Checkpointing, Freeze, Precision, parameters};
use kindling_runs::{DeviceFacts, Environment, Event, RunDir, RunError};
use kindling_trainer::{Ended, Faults, Setup, TrainError, Trainer};
use kindling_zoo::Network;
use kindling_zoo::weights::Import;

use data_args::DataArgs;
pub(crate) use data_args::augment;

use crate::Done;
use crate::config::RunConfig;
use crate::dataset::HowToOpen;
use crate::device::{Chosen, DeviceChoice};
use crate::finish::Finished;
use crate::interrupt;
use crate::loaders;
use crate::memory::{Choice, MemoryBudget, does_not_fit, limit_before_reading, starting_plan};
use crate::output::{self, note};
use crate::progress::{Console, Verbosity};
use crate::ranges;
use crate::recorded::{self, Again};
pub(crate) use words::in_half;
use words::{closing, note, opening, result_line, started};

/// The Burn release this build stands on.
const BURN: &str = "0.22.1";

/// Train a model, or continue a run
///
/// Without any flag: mobilenet_v3_small on the embedded phantoms at 512x512, on CUDA if it is there and the CPU
/// otherwise. Everything goes into a run directory: weights, metrics, report.html, checkpoints. The last line on
/// standard output is one JSON object with run, steps, test_accuracy, images_per_second and peak_memory_bytes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data set, a folder with one sub-folder of images a class, a manifest (.csv, .jsonl) or shards (.tar) [default:
    /// phantoms]
    #[arg(long, value_name = "NAME|PATH", help_heading = "What")]
    data: Option<String>,
    #[command(flatten)]
    opening: HowToOpen,
    /// Model of the zoo; `kindling models` lists them [default: mobilenet_v3_small]
    #[arg(long, value_name = "NAME", help_heading = "What")]
    model: Option<String>,
    /// Start from pretrained weights; scripts/fetch-weights.sh brings them, `kindling models --pretrained` lists them
    #[arg(long, help_heading = "What", conflicts_with = "weights")]
    pretrained: bool,
    /// Start from a weights file: safetensors or PyTorch, with torchvision's, timm's or Kindling's keys
    #[arg(long, value_name = "FILE", help_heading = "What")]
    weights: Option<PathBuf>,
    /// What does not train: none, backbone (all but the classifier), or the stem and this many stages [default: none]
    #[arg(long, value_name = "WHAT", help_heading = "What")]
    freeze: Option<Freeze>,
    /// Side of the square images, at most 8192, padded and never stretched [default: 512]
    #[arg(long, value_name = "PIXELS", help_heading = "What")]
    image_size: Option<usize>,
    #[command(flatten)]
    data_args: DataArgs,

    /// Samples of an optimizer step, 1 to 1048576: the global batch [default: 8]
    #[arg(long, value_name = "N", help_heading = "Training")]
    batch_size: Option<usize>,
    /// Samples computed at once, 1 to 1048576 and not below a ghost batch, or auto; changes memory and time, never
    /// the result. Memory that runs out makes it smaller, room makes it larger again, up to the number given
    /// [default: auto]
    #[arg(long, value_name = "auto|N", help_heading = "Memory")]
    micro_batch: Option<Choice<usize>>,
    /// Feature maps that are computed again rather than kept: auto, none, stages or blocks; never changes the result
    /// [default: auto]
    #[arg(long, alias = "recompute", value_name = "WHAT", help_heading = "Memory")]
    activation_checkpointing: Option<Choice<Checkpointing>>,
    /// The most memory to use: 8GiB, 500MiB, or a share of the device's: 80%. On the CPU that of the whole process [default:
    /// on the CPU 90% of the system's tightest limit, which `kindling devices` names]
    #[arg(long, value_name = "SIZE|SHARE", help_heading = "Memory")]
    memory_budget: Option<MemoryBudget>,
    /// Format of feature maps: f32, bf16 or f16; weights, statistics and updates are always f32 [default: f32]
    #[arg(long, value_name = "FORMAT", help_heading = "Training")]
    precision: Option<Precision>,
    /// Ghost batch size: the most samples whose statistics batch norm takes together, 1 to 1048576 [default: 8]
    #[arg(long, alias = "norm-group", value_name = "N", help_heading = "Training")]
    ghost_batch_size: Option<usize>,
    /// Passes over the training samples, 1 to 1000000000 [default: 4 for phantoms, 3 for brain-planes, otherwise 10]
    #[arg(long, value_name = "N", help_heading = "Training")]
    epochs: Option<u64>,
    /// Stop after this many optimizer steps, 1 to 1000000000
    #[arg(long, value_name = "N", help_heading = "Training")]
    max_steps: Option<u64>,
    /// Peak learning rate, above 0 and at most 1000 [default: 0.003 for adamw, 0.01 with a frozen backbone, 0.05 for sgd]
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    lr: Option<f64>,
    /// Share of the steps in which the learning rate rises, 0 to 1 [default: 0.1]
    #[arg(long, value_name = "SHARE", help_heading = "Training")]
    warmup: Option<f64>,
    /// Update rule [default: adamw]
    #[arg(long, value_enum, help_heading = "Training")]
    optimizer: Option<OptimizerName>,
    /// Decay of convolution and linear weights, 0 to 1000 [default: 0.02 for adamw, 0.00004 for sgd]
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    weight_decay: Option<f64>,
    /// Momentum of sgd, 0 to below 1 [default: 0.9]
    #[arg(long, value_name = "SHARE", help_heading = "Training")]
    momentum: Option<f64>,
    /// Share of the target spread over all classes, 0 to below 1 [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = "Training")]
    label_smoothing: Option<f64>,
    /// even, balanced (rare classes weigh more), or one weight a class, 0.000001 to 1000000: 1,2,0.5 [default: even]
    #[arg(long, value_name = "WEIGHTS", help_heading = "Training")]
    class_weights: Option<String>,
    /// Scale gradients down to this global norm, 1e-12 to 1e12
    #[arg(long, value_name = "NORM", help_heading = "Training")]
    clip_norm: Option<f64>,
    /// Share of the classifier's input dropped while training, 0 to below 1 [default: the paper's]
    #[arg(long, value_name = "SHARE", help_heading = "Training")]
    drop_rate: Option<f64>,
    /// Share of samples whose last residual branch is left out while training, 0 to below 1 [default: the paper's]
    #[arg(long, value_name = "SHARE", help_heading = "Training")]
    drop_path_rate: Option<f64>,
    /// Follow the plan that `kindling plan --out` wrote; flags beside it win
    #[arg(long, value_name = "FILE", help_heading = "Memory", conflicts_with = "resume")]
    plan: Option<PathBuf>,
    /// Keep an exponential moving average of the weights with this decay, 0 to below 1, and judge and keep that
    /// [default: none]
    #[arg(long, value_name = "DECAY", help_heading = "Training")]
    ema: Option<f64>,
    /// Seed of order, augmentation, dropout and initial weights, 0 to 9223372036854775807 [default: 0]
    #[arg(long, value_name = "N", help_heading = "Training")]
    seed: Option<u64>,

    /// auto, cpu, cuda[:N] or wgpu [default: auto]
    #[arg(long, value_name = "DEVICE", help_heading = "How")]
    device: Option<DeviceChoice>,
    /// Loader threads, 0 to 1024; without influence on the result [default: half the cores, at most 4]
    #[arg(long, value_name = "N", help_heading = "How")]
    workers: Option<usize>,
    /// Steps between checkpoints, 1 to 1000000000, besides the one at the end of each epoch [default: 100]
    #[arg(long, value_name = "N", help_heading = "How")]
    checkpoint_steps: Option<u64>,
    /// When the device is lost (a fault in a kernel, a hardware error), continue in a new process, at most so many times,
    /// 0 to 1000000000
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        value_parser = ranges::restarts(),
        overrides_with = "restart_on_device_loss",
        help_heading = "How"
    )]
    restart_on_device_loss: u64,

    /// Where the run goes; must not hold a run yet [default: runs/<time>-<model>-<data>]
    #[arg(long, value_name = "DIR", help_heading = "Run", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Continue a run from its newest checkpoint, mid-epoch included
    #[arg(long, value_name = "RUN", help_heading = "Run")]
    resume: Option<PathBuf>,
    /// Continue although files of the data set were added, removed or changed since; says which, and what becomes of them
    #[arg(long, help_heading = "Run")]
    accept_changed_data: bool,
    /// Take the settings of a config.toml; flags beside it win
    #[arg(long, value_name = "FILE", help_heading = "Run", conflicts_with = "resume")]
    config: Option<PathBuf>,
    /// Print nothing but the result
    #[arg(long, short, help_heading = "Run", conflicts_with = "verbose")]
    quiet: bool,
    /// Print every step
    #[arg(long, short, help_heading = "Run")]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OptimizerName {
    /// Adam with decoupled weight decay
    #[value(name = "adamw")]
    AdamW,
    /// Stochastic gradient descent with momentum
    Sgd,
}

/// A run that is about to begin, or to go on.
struct Launch<'a> {
    config: RunConfig,
    dataset: &'a Dataset,
    run: &'a RunDir,
    chosen: Chosen,
    beginning: Beginning,
}

/// What a run starts from.
#[allow(clippy::large_enum_variant)] // one a process
enum Beginning {
    /// Initial or imported weights.
    New((Network, Option<Import>)),
    /// Its newest checkpoint; with what has become of its data, and the list to keep of it, where that has changed.
    Resumed(Option<String>, Option<FileList>),
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        match &self.resume {
            Some(path) => self.resume(path),
            None => self.start(),
        }
    }

    fn start(&self) -> Result<Done> {
        if self.accept_changed_data {
            bail!("--accept-changed-data is about a run that goes on; it belongs to --resume");
        }
        let (config, dataset) = self.resolve()?;
        let model = config.zoo_model()?;
        config.train.check(config.data.classes.len())?;
        let chosen = DeviceChoice::configured(&config.device)?.open()?;
        // Weights that do not fit should not leave a run behind.
        let start = config.initial_network(&chosen.device)?;
        let run = RunDir::create(self.out.as_deref(), model.name.name, &config.data.source)?;
        run.write_config(&config)?;
        if let Some(list) = FileList::of(&dataset) {
            recorded::write(&run, &list)?;
        }
        if !self.quiet {
            dataset.lacking().iter().for_each(|lacking| note!("warning: {lacking}"));
        }
        self.fit(Launch { config, dataset: &dataset, run: &run, chosen, beginning: Beginning::New(start) })
    }

    fn resume(&self, path: &Path) -> Result<Done> {
        let run = RunDir::open(path)?;
        let mut config = RunConfig::of(&run)?;
        self.refuse_changes(&run, &config)?;
        // What has no influence on the result may change.
        if let Some(choice) = self.micro_batch {
            config.train.micro_batch = choice.fixed();
        }
        if let Some(choice) = self.activation_checkpointing {
            config.train.activation_checkpointing = choice.fixed();
        }
        let smallest = config.train.largest_group();
        if let Some(micro_batch) = config.train.micro_batch.filter(|micro_batch| *micro_batch < smallest) {
            bail!(
                "--micro-batch {micro_batch} is smaller than this run's ghost batches of {smallest}, which are part \
                 of what it computes; {smallest} is the least it can be resumed with"
            );
        }
        if let Some(budget) = self.memory_budget {
            config.memory_budget = Some(budget);
        }
        config.train.checkpoint_steps = self.checkpoint_steps.unwrap_or(config.train.checkpoint_steps);
        config.workers = self.workers.unwrap_or(config.workers);
        config.prefetch_bytes = self.data_args.prefetch_bytes().unwrap_or(config.prefetch_bytes);
        // Neither do these, as long as nothing is bad; what was replaced so far stays replaced.
        config.data.on_bad_sample = self.data_args.on_bad_sample().unwrap_or(config.data.on_bad_sample);
        config.data.max_bad = self.data_args.max_bad().unwrap_or(config.data.max_bad);
        if let Some(device) = self.device {
            config.device = device.to_string();
        }
        limit_before_reading(config.memory_budget, DeviceChoice::configured(&config.device)?)?;
        let Again { dataset, told, list } = recorded::open_again(&run, &config, self.accept_changed_data)?;
        config.check_classes(&dataset)?;
        let chosen = DeviceChoice::configured(&config.device)?.open()?;
        self.fit(Launch { config, dataset: &dataset, run: &run, chosen, beginning: Beginning::Resumed(told, list) })
    }

    fn fit(&self, launch: Launch<'_>) -> Result<Done> {
        let faults = Faults::of_environment().map_err(anyhow::Error::msg)?;
        let run = launch.run;
        let outcome = self.fit_here(launch, faults.clone());
        outcome.or_else(|error| restart::after(error, self, run.path(), &faults))
    }

    /// [`Args::fit`] in this process alone.
    fn fit_here(&self, launch: Launch<'_>, faults: Faults) -> Result<Done> {
        let Launch { config, dataset, run, chosen, beginning } = launch;
        chosen.check_precision(config.train.precision)?;
        let Chosen { device, facts } = chosen;
        let imposed = config.memory_budget.map(|budget| budget.impose(&device, &facts)).transpose()?;
        let budget = imposed.as_ref().map(|imposed| imposed.bytes);
        let environment = environment(facts);
        let (network, import, resumed) = match beginning {
            Beginning::New((network, import)) => (network, import, None),
            // Everything comes from the checkpoint.
            Beginning::Resumed(told, list) => (config.network(&device)?, None, Some((told, list))),
        };
        let parameters = parameters::count(&network);
        let decoding = largest_decoding_bytes(dataset, &config.data.preprocess);
        let setup = Setup {
            model_name: &config.model.name,
            note: note(&config),
            classes: config.data.classes.len(),
            device: device.clone(),
            train: loaders::training(&config, dataset)?,
            validation: loaders::evaluation(&config, dataset, Split::Val)?,
            run,
            stop: interrupt::flag()?,
            start: starting_plan(&config, &network, &device, budget, decoding),
            faults,
        };
        // From here on the run is ours alone: the trainer holds its log.
        let mut trainer = Trainer::new(network, config.train.clone(), setup)?;
        run.write_environment(&environment)?;
        let mut console = Console::new(self.verbosity(), trainer.total_steps(), 0);
        console.say(&opening(&config, dataset, run, &environment, parameters, trainer.plan()));
        if let Some(import) = import {
            console.say(&format!("starting from {import}"));
        }
        if let Some((told, list)) = resumed {
            trainer.resume(&mut console)?;
            if let Some(text) = told {
                if trainer.is_complete() {
                    let path = run.path().display();
                    bail!(
                        "{path} is finished, and changed data is nothing it can go on with; kindling eval {path} scores it"
                    );
                }
                trainer.emit(Event::Warned { step: trainer.progress().step, text }, &mut console)?;
            }
            if let Some(list) = list {
                recorded::write(run, &list)?;
            }
        } else {
            let started = started(&config, &environment, parameters, trainer.total_steps(), trainer.plan());
            trainer.emit(started, &mut console)?;
        }
        let ended = trainer.fit(&mut console);
        console.close();
        let go_on = how_to_go_on("train", run);
        let advice = trainer.can_be_resumed().then_some(go_on.as_str());
        // A picture that no memory is left for beside the network says the same as a step.
        if let Err(error @ (TrainError::DoesNotFit { .. } | TrainError::Data(DataError::ReservationRefused { .. }))) =
            ended
        {
            note!("{}", does_not_fit(&config, &trainer.model(), &device, budget, decoding));
            return Err(error.into());
        }
        if ended.map_err(|error| with_advice(error.into(), advice))? == Ended::Interrupted {
            let step = trainer.progress().step;
            note!("stopped after step {step}; continue with: {go_on}");
            return Ok(Done::Interrupted);
        }
        let finished = Finished { config: &config, dataset, run, device: &device, environment: &environment };
        let mut trained = trainer.close();
        let concluded = finished.conclude(&mut trained, &mut console);
        let metrics = concluded.map_err(|error| match error.downcast::<TrainError>() {
            Ok(error) => with_advice(trained.journal.with_checkpoint(error).into(), advice),
            Err(other) => with_advice(other, advice),
        })?;
        console.say(&closing(&metrics, run));
        output::result(result_line(&metrics));
        Ok(Done::Complete)
    }

    fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Steps,
            (false, false) => Verbosity::Normal,
        }
    }
}

/// The command that continues a run of `kindling train` or `kindling gan train`.
pub(crate) fn how_to_go_on(subcommand: &str, run: &RunDir) -> String {
    format!("kindling {subcommand} --resume {}", run.path().display())
}

/// The error, and how to go on where a full disk is all that stopped the run. Without a checkpoint there is nothing to go on
/// from.
pub(crate) fn with_advice(error: Error, go_on: Option<&str>) -> Error {
    let full =
        matches!(error.downcast_ref(), Some(TrainError::Run(RunError::DiskFull { .. }) | TrainError::Save { .. }))
            || matches!(error.downcast_ref(), Some(RunError::DiskFull { .. }));
    match go_on {
        Some(go_on) if full => anyhow!("{error:#}; then continue with: {go_on}"),
        _ => error,
    }
}

/// The machine, with the commit the command was built from.
pub(crate) fn environment(facts: DeviceFacts) -> Environment {
    let mut environment = Environment::collect(BURN, facts);
    environment.commit = option_env!("KINDLING_COMMIT").map(str::to_string);
    environment
}
