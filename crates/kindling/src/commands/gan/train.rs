//! `kindling gan train`: start a run of two networks, or continue one.

use std::path::{Path, PathBuf};

use anyhow::Result;
use burn::tensor::Device;
use clap::ValueEnum;
use kindling_data::{Dataset, Loader, LoaderConfig};
use kindling_layers::{Checkpointing, Precision, parameters};
use kindling_memory::Plan;
use kindling_runs::{DeviceFacts, Environment, Event, RunDir};
use kindling_trainer::adversarial::{AdversarialLoss, AdversarialSetup, AdversarialTrainer, DiffAugment};
use kindling_trainer::{Ended, Faults, Observer};
use kindling_zoo::{GanDiscriminator, GanGenerator};
use serde_json::json;

use super::config::{GanRunConfig, Upsampling};
use super::features::Extractor;
use super::finish::conclude;
use super::preview::{Looker, Ruler, grid_path};
use crate::Done;
use crate::commands::train::{environment, how_to_go_on, in_half, with_advice};
use crate::dataset;
use crate::device::{Chosen, DeviceChoice};
use crate::interrupt;
use crate::memory::{Choice, MemoryBudget, limit_before_reading};
use crate::output::{self, note};
use crate::progress::{Console, Verbosity};
use crate::ranges;

/// Train a generator against a discriminator, or continue a run
///
/// Without any flag: dcgan_64 on fashion-mnist. An iteration is the discriminator's steps and one of the generator,
/// committed together or not at all. Everything goes into a run directory: weights of the averaged generator, grids of
/// samples, report.html, checkpoints. The last line on standard output is one JSON object.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data set, or a folder of images, in sub-folders or not; of one with train/ that part [default: fashion-mnist]
    #[arg(long, value_name = "NAME|DIR", help_heading = "What")]
    pub(super) data: Option<String>,
    /// dcgan_64 or fastgan_512 [default: dcgan_64]
    #[arg(long, value_name = "NAME", help_heading = "What")]
    pub(super) model: Option<String>,
    /// Side of the images: the model's own
    #[arg(long, value_name = "PIXELS", help_heading = "What")]
    pub(super) image_size: Option<usize>,
    /// 1 for grey images, 3 for RGB [default: the data set's]
    #[arg(long, value_name = "N", help_heading = "What")]
    pub(super) channels: Option<usize>,
    /// What every layer's width is a multiple of, 1 to 1024 [default: 64, as in the papers]
    #[arg(long, value_name = "N", help_heading = "What")]
    pub(super) features: Option<usize>,
    /// How dcgan_64 doubles its maps [default: transposed]
    #[arg(long, value_enum, help_heading = "What")]
    pub(super) upsampling: Option<Upsampling>,

    /// Steps of the generator, 1 to 1000000000 [default: 2000 for dcgan_64, 10000 for fastgan_512]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(super) iterations: Option<u64>,
    /// Images of a step of either network, 2 to 1048576 [default: 64 for dcgan_64, 8 for fastgan_512]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(super) batch_size: Option<usize>,
    /// Steps of the discriminator in an iteration, 1 to 1000, each on images of its own [default: 1]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(super) discriminator_steps: Option<usize>,
    /// Ghost batch size: the most samples whose statistics batch norm takes together, 1 to 1048576 [default: 32 for
    /// dcgan_64, 8 for fastgan_512]
    #[arg(long, alias = "norm-group", value_name = "N", help_heading = "Training")]
    pub(super) ghost_batch_size: Option<usize>,
    /// hinge, non-saturating or least-squares [default: hinge]
    #[arg(long, value_name = "NAME", help_heading = "Training")]
    pub(super) loss: Option<AdversarialLoss>,
    /// Learning rate, above 0 and at most 1000 [default: 0.0002]
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    pub(super) lr: Option<f64>,
    /// Learning rate of the discriminator, above 0 and at most 1000 [default: as --lr]
    #[arg(long, value_name = "RATE", help_heading = "Training")]
    pub(super) lr_discriminator: Option<f64>,
    /// Share of the run, 0 to 1, at its end, in which both learning rates fall to nothing [default: 0]
    #[arg(long, value_name = "SHARE", help_heading = "Training")]
    pub(super) cooldown: Option<f64>,
    /// Adam's first beta, 0 to below 1, for both [default: 0.5]
    #[arg(long, value_name = "SHARE", help_heading = "Training")]
    pub(super) beta1: Option<f64>,
    /// Adam's second beta, 0 to below 1, for both [default: 0.999]
    #[arg(long, value_name = "SHARE", help_heading = "Training")]
    pub(super) beta2: Option<f64>,
    /// Decay of the moving average of the generator, 0 to below 1, which is what is sampled and kept [default: 0.999]
    #[arg(long, value_name = "DECAY", help_heading = "Training")]
    pub(super) ema: Option<f64>,
    /// Divide the discriminator's filters by their largest singular values [default: on]
    #[arg(long, value_enum, help_heading = "Training")]
    pub(super) spectral_norm: Option<Switch>,
    /// Strength of the LeCam regulariser, 0 to 1000000; auto is 0.1 for less than 10,000 images, otherwise 0 [default: auto]
    #[arg(long, value_name = "auto|STRENGTH", help_heading = "Training")]
    pub(super) lecam: Option<Choice<f64>>,
    /// Strength of fastgan_512's self-supervision of the discriminator, 0 to 1000000 [default: 1]
    #[arg(long, value_name = "STRENGTH", help_heading = "Training")]
    pub(super) reconstruction: Option<f64>,
    /// Format of feature maps: f32, bf16 or f16; weights, statistics, scores and updates are always f32 [default: f32]
    #[arg(long, value_name = "FORMAT", help_heading = "Training")]
    pub(super) precision: Option<Precision>,
    /// Changes of images that gradients pass through: none, or some of colour,translation,cutout; auto is all of them for
    /// less than 10,000 images, otherwise none [default: auto]
    #[arg(long, value_name = "auto|CHANGES", help_heading = "Training")]
    pub(super) diff_augment: Option<Choice<DiffAugment>>,
    /// Scale gradients of either network down to this global norm, 1e-12 to 1e12
    #[arg(long, value_name = "NORM", help_heading = "Training")]
    pub(super) clip_norm: Option<f64>,
    /// Seed of everything drawn, 0 to 9223372036854775807 [default: 0]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub(super) seed: Option<u64>,

    /// Samples computed at once, 1 to 1048576, or auto; changes memory and time, never the result [default: auto]
    #[arg(long, value_name = "auto|N", help_heading = "Memory")]
    pub(super) micro_batch: Option<Choice<usize>>,
    /// Whether the generator's maps are computed again rather than kept: auto, none, or stages (blocks is the same here);
    /// never changes the result [default: auto]
    #[arg(long, alias = "recompute", value_name = "WHAT", help_heading = "Memory")]
    pub(super) activation_checkpointing: Option<Choice<Checkpointing>>,
    /// The most memory to use: 8GiB, 500MiB, or a share of the device's: 80%
    #[arg(long, value_name = "SIZE|SHARE", help_heading = "Memory")]
    pub(super) memory_budget: Option<MemoryBudget>,

    /// auto, cpu, cuda[:N] or wgpu [default: auto]
    #[arg(long, value_name = "DEVICE", help_heading = "How")]
    pub(super) device: Option<DeviceChoice>,
    /// Loader threads, 0 to 1024; without influence on the result [default: half the cores, at most 4]
    #[arg(long, value_name = "N", help_heading = "How")]
    pub(super) workers: Option<usize>,
    /// Iterations between checkpoints, 1 to 1000000000 [default: 200]
    #[arg(long, value_name = "N", help_heading = "How")]
    pub(super) checkpoint_iterations: Option<u64>,
    /// Iterations between grids of samples, 1 to 1000000000 [default: a twentieth of the run, at most 500]
    #[arg(long, value_name = "N", help_heading = "How")]
    pub(super) sample_iterations: Option<u64>,
    /// Images of either kind compared with each grid, 0 for none; auto is 500 where the pretrained MobileNetV2 is there
    /// (scripts/fetch-weights.sh); at most 1048576 [default: auto]
    #[arg(long, value_name = "auto|N", value_parser = ranges::samples_none_or_auto, help_heading = "How")]
    pub(super) compare: Option<Choice<usize>>,

    /// Where the run goes; must not hold a run yet [default: runs/<time>-<model>-<data>]
    #[arg(long, value_name = "DIR", help_heading = "Run", conflicts_with = "resume")]
    out: Option<PathBuf>,
    /// Continue a run from its newest checkpoint
    #[arg(long, value_name = "RUN", help_heading = "Run")]
    resume: Option<PathBuf>,
    /// Print nothing but the result
    #[arg(long, short, help_heading = "Run", conflicts_with = "verbose")]
    quiet: bool,
    /// Print every iteration
    #[arg(long, short, help_heading = "Run")]
    verbose: bool,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

pub(super) type Trainer<'a> = AdversarialTrainer<'a, GanGenerator, GanDiscriminator>;

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        match &self.resume {
            Some(path) => self.resume(path),
            None => {
                let (config, dataset) = self.resolve()?;
                let chosen = DeviceChoice::configured(&config.device)?.open()?;
                let run = RunDir::create(self.out.as_deref(), &config.gan.name, &config.data.source)?;
                run.write_config(&config)?;
                self.fit(config, &dataset, &run, chosen, false)
            }
        }
    }

    fn resume(&self, path: &Path) -> Result<Done> {
        let run = RunDir::open(path)?;
        let mut config = GanRunConfig::of(&run)?;
        self.refuse_changes(&run, &config)?;
        // What has no influence on the result may change.
        if let Some(choice) = self.micro_batch {
            config.train.micro_batch = choice.fixed();
        }
        if let Some(choice) = self.activation_checkpointing {
            config.train.activation_checkpointing = choice.fixed();
        }
        config.memory_budget = self.memory_budget.or(config.memory_budget);
        config.train.checkpoint_iterations = self.checkpoint_iterations.unwrap_or(config.train.checkpoint_iterations);
        config.train.sample_iterations = self.sample_iterations.unwrap_or(config.train.sample_iterations);
        config.workers = self.workers.unwrap_or(config.workers);
        if let Some(samples) = self.compare.and_then(Choice::fixed) {
            config.compare = samples;
        }
        if let Some(device) = self.device {
            config.device = device.to_string();
        }
        config.train.check()?;
        limit_before_reading(config.memory_budget, DeviceChoice::configured(&config.device)?)?;
        let dataset = dataset::open_unlabelled(&config.data.source, config.train.seed)?;
        let chosen = DeviceChoice::configured(&config.device)?.open()?;
        self.fit(config, &dataset, &run, chosen, true)
    }

    fn fit(
        &self,
        config: GanRunConfig,
        dataset: &Dataset,
        run: &RunDir,
        chosen: Chosen,
        resumed: bool,
    ) -> Result<Done> {
        chosen.check_precision(config.train.precision)?;
        let Chosen { device, facts } = chosen;
        let networks = config.networks(&device)?;
        let parameters = [parameters::count(&networks.generator), parameters::count(&networks.discriminator)];
        let iterations = config.train.iterations;
        let mut console = Console::new(self.verbosity(), iterations);
        // What looks at images is there before the budget counts, as the program itself is.
        let ruler = self.ruler(&config, dataset, &device, &console)?;
        let _imposed = config.memory_budget.map(|budget| budget.impose(&device, &facts)).transpose()?;
        let environment = environment(facts);
        let entry = config.entry()?;
        let setup = AdversarialSetup {
            model_name: entry.name,
            note: note(&config),
            latent: entry.latent,
            device: device.clone(),
            train: loader(&config, dataset)?,
            run,
            stop: interrupt::flag()?,
            start: starting_plan(&config, &device),
            faults: Faults::of_environment().map_err(anyhow::Error::msg)?,
        };
        // From here on the run is ours alone: the trainer holds its log.
        let mut trainer: Trainer = AdversarialTrainer::new(networks, config.train.clone(), setup)?;
        run.write_environment(&environment)?;
        console.say(&opening(&config, dataset, run, &environment.device, parameters));
        if resumed {
            trainer.resume(&mut console)?;
        } else {
            let plan = trainer.plan();
            trainer.emit(started(&config, &environment, parameters[0], plan), &mut console)?;
        }
        let features = ruler.as_ref().map(Ruler::name);
        let mut looker = Looker {
            run,
            seed: config.train.seed,
            latent: entry.latent,
            image_size: entry.image_size,
            micro_batch: config.train.largest_group(),
            device: device.clone(),
            ruler,
        };
        let ended = trainer.fit(&mut looker, &mut console);
        console.close();
        let go_on = how_to_go_on("gan train", run);
        let advice = trainer.can_be_resumed().then_some(go_on.as_str());
        if ended.map_err(|error| with_advice(error.into(), advice))? == Ended::Interrupted {
            let step = trainer.progress().step;
            note!("stopped after iteration {step}; continue with: {go_on}");
            return Ok(Done::Interrupted);
        }
        let (step, seconds) = (trainer.progress().step, trainer.progress().seconds);
        trainer.emit(Event::Finished { step, seconds }, &mut console as &mut dyn Observer)?;
        let metrics = conclude(&config, run, &environment, &mut trainer, parameters, features)?;
        console.say(&format!("samples {}\nreport {}", grid_path(run, step).display(), run.report().display()));
        output::result(json!({
                "run": metrics.run, "iterations": metrics.iterations, "first_frechet": metrics.first_frechet,
                "frechet": metrics.frechet, "images_per_second": metrics.images_per_second,
                "peak_memory_bytes": metrics.peak_memory_bytes, "recoveries": metrics.recoveries,
        }));
        Ok(Done::Complete)
    }

    /// What distances are measured with, if they are asked for and can be.
    fn ruler(
        &self,
        config: &GanRunConfig,
        dataset: &Dataset,
        device: &Device,
        console: &Console,
    ) -> Result<Option<Ruler>> {
        if config.compare == 0 {
            return Ok(None);
        }
        let asked_for = self.compare.and_then(Choice::fixed).is_some();
        match Extractor::new(config.data.preprocess.size, device) {
            Ok(extractor) => Ruler::new(extractor, dataset, &config.data.preprocess, config.compare).map(Some),
            Err(error) if asked_for => Err(error.context("--compare needs the pretrained MobileNetV2")),
            Err(error) => {
                console.say(&format!("no distances on the way: {error:#}"));
                Ok(None)
            }
        }
    }

    fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Steps,
            (false, false) => Verbosity::Normal,
        }
    }
}

fn loader(config: &GanRunConfig, dataset: &Dataset) -> Result<Loader> {
    let (batch, preprocess) = (config.train.images_per_iteration(), config.data.preprocess.clone());
    let loader =
        LoaderConfig { workers: config.workers, ..LoaderConfig::shuffled(batch, preprocess, config.train.seed) };
    Ok(Loader::new(dataset.train.clone(), loader)?)
}

/// On a CPU one normalisation group at a time, which larger micro-batches do not make faster; on a GPU the whole batch.
/// What does not fit is found out.
fn starting_plan(config: &GanRunConfig, device: &Device) -> Plan {
    let on_gpu = device.memory_pool_usage().is_some();
    let micro_batch = if on_gpu { config.train.batch_size } else { config.train.largest_group() };
    Plan { micro_batch, checkpointing: Checkpointing::None }
}

/// The note in every weights file.
fn note(config: &GanRunConfig) -> String {
    let note = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "generator": config.gan.name,
        "features": config.gan.features,
        "channels": config.data.preprocess.channels,
    });
    note.to_string()
}

fn started(config: &GanRunConfig, environment: &Environment, parameters: u64, plan: Plan) -> Event {
    Event::Started {
        time: environment.time.clone(),
        model: config.gan.name.clone(),
        data: config.data.source.clone(),
        classes: Vec::new(),
        parameters,
        device: environment.device.device.clone(),
        image_size: config.data.preprocess.size,
        global_batch: config.train.batch_size,
        micro_batch: plan.micro_batch,
        steps_total: config.train.iterations,
    }
}

fn opening(
    config: &GanRunConfig,
    dataset: &Dataset,
    run: &RunDir,
    device: &DeviceFacts,
    [generator, discriminator]: [u64; 2],
) -> String {
    let train = &config.train;
    format!(
        "{} ({:.2} M parameters against {:.2} M) on {} ({} images), batch {}, augmentation {}, spectral norm {}{}, \
         device {}\nrun {}",
        config.gan.name,
        generator as f64 / 1e6,
        discriminator as f64 / 1e6,
        dataset.name,
        dataset.train.len(),
        train.batch_size,
        train.diff_augment,
        if train.spectral_norm { "on" } else { "off" },
        in_half(train.precision),
        device.device,
        run.path().display()
    )
}
