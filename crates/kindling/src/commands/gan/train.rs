//! `kindling gan train`: start a run of two networks, or continue one.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use burn::tensor::Device;
use kindling_data::{Dataset, FileList, Loader, LoaderConfig};
use kindling_gan_training::trainer;
use kindling_layers::{Checkpointing, parameters};
use kindling_memory::Plan;
use kindling_runs::{DeviceFacts, Environment, Event, GanMetrics, How, RunDir};
use kindling_trainer::{Checkpoints, Ended, Faults, Observer, Ranks, Setup};
use serde_json::{Value, json};

use super::features::Extractor;
use super::finish::conclude;
use super::preview::{Looker, Ruler, grid_path};
use super::settings::Settings;
use crate::Done;
use crate::budget::limit_before_reading;
use crate::choice::Choice;
use crate::commands::run_flags::{ChangedData, RunFolder, Telling};
use crate::commands::train::{
    Resumption, environment, has_ended, how_to_go_on, in_half, note_sitting, nothing_left, with_advice,
};
use crate::dataset::path_of;
use crate::device::{Chosen, DeviceChoice};
use crate::gan_config::GanRunConfig;
use crate::interrupt;
use crate::output::{self, note};
use crate::progress::{Console, check_dashboard};
use crate::ranges;
use crate::recorded::{self, Again};

/// Train a generator against a discriminator, or continue a run
///
/// Without any flag: dcgan_64 on fashion-mnist. An iteration is the discriminator's steps and one of the generator,
/// committed together or not at all. Everything goes into a run directory: weights of the averaged generator, grids of
/// samples, report.html, checkpoints. The last line on standard output is one JSON object.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) settings: Settings,

    #[command(flatten)]
    folder: RunFolder,
    /// Continue a run from its newest checkpoint, or from its start if it has none yet
    #[arg(long, value_name = "RUN", help_heading = "Run")]
    resume: Option<PathBuf>,
    /// With --resume, make the run longer, finished or not: until it has had this many iterations in all, 1 to 1000000000.
    /// Iterations that are done stay as they are. From the next one on the learning rates are those of a run of the new length from
    /// its start: without --cooldown the same as before; with it they rise again and fall in the last share of all iterations. Both
    /// networks, their optimizers and the average are kept
    #[arg(long, value_name = "ITERATIONS", value_parser = ranges::times(), help_heading = "Run", requires = "resume")]
    extend_to: Option<u64>,
    #[command(flatten)]
    changed: ChangedData,
    #[command(flatten)]
    telling: Telling,
    /// Print every iteration
    #[arg(long, short, help_heading = "Run")]
    verbose: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        check_dashboard(self.telling.dashboard)?;
        match self.folder.to_continue(self.resume.as_deref()) {
            Some(run) => self.resume(run),
            None => self.start(),
        }
    }

    fn start(&self) -> Result<Done> {
        self.changed.refuse_for_new(&self.folder)?;
        let (config, dataset) = self.resolve()?;
        let chosen = DeviceChoice::configured(&config.device)?.open()?;
        let run = RunDir::create(self.folder.out.as_deref(), &config.gan.name, &config.data.source)?;
        run.write_config(&config)?;
        recorded::write(&run, &FileList::of(&dataset))?;
        self.fit(config, &dataset, &run, chosen, None)
    }

    fn resume(&self, path: &Path) -> Result<Done> {
        let run = RunDir::open(path)?;
        let stored = GanRunConfig::of(&run)?;
        let (mut config, mut changed) = self.resumed(&run, &stored)?;
        if self.folder.resume_or_start
            && has_ended(&run)
            && let Ok(metrics) = run.read_gan_metrics()
        {
            return Ok(nothing_left(&run, self.telling.quiet, result_line(&metrics)));
        }
        let place = config.data.place(&run, self.changed.data_at.as_deref())?;
        let mut kept = stored.clone();
        if self.changed.data_at.is_some() {
            kept.data.path = path_of(&place);
            changed.extend(kept.data.path.as_ref().map(|path| ("data.path".to_string(), path.display().to_string())));
        }
        let mut how = How::Resumed;
        let planned = stored.train.iterations;
        // Whoever says it again, says nothing new.
        if let Some(iterations) = self.extend_to.filter(|it| *it != planned) {
            if iterations < planned {
                bail!("--extend-to is {iterations}, and the run was to have {planned} iterations already; give more");
            }
            let done = Checkpoints::new(run.checkpoints(), &config.gan.name).newest_step().unwrap_or(0);
            kept.train.extend(done, iterations);
            config.train.extend(done, iterations);
            changed.push(("train.iterations".to_string(), iterations.to_string()));
            how = How::Extended;
        }
        limit_before_reading(config.memory_budget, DeviceChoice::configured(&config.device)?)?;
        let Again { dataset, told, list } =
            recorded::open_unlabelled_again(&run, &config, &place, self.changed.accept_changed_data)?;
        let chosen = DeviceChoice::configured(&config.device)?.open()?;
        let rewritten = (kept != stored).then_some(kept);
        let resumption = Resumption { how, changed, rewritten };
        self.fit(config, &dataset, &run, chosen, Some((resumption, told, list)))
    }

    fn fit(
        &self,
        config: GanRunConfig,
        dataset: &Dataset,
        run: &RunDir,
        chosen: Chosen,
        resumed: Option<(Resumption<GanRunConfig>, Option<String>, Option<FileList>)>,
    ) -> Result<Done> {
        chosen.check_precision(config.train.precision)?;
        let Chosen { device, facts } = chosen;
        let networks = config.networks(&device)?;
        let parameters = [parameters::count(&networks.generator), parameters::count(&networks.discriminator)];
        let iterations = config.train.iterations;
        let mut console = Console::new(self.telling.verbosity(self.verbose), iterations);
        // What looks at images is there before the budget counts, as the program itself is.
        let ruler = self.ruler(&config, dataset, &device, &console)?;
        let _imposed = config.memory_budget.map(|budget| budget.impose(&device, &facts)).transpose()?;
        let environment = environment(facts);
        let entry = config.entry()?;
        let setup = Setup {
            model_name: entry.name,
            note: note(&config),
            device: device.clone(),
            train: loader(&config, dataset)?,
            run,
            stop: interrupt::flag()?,
            start: starting_plan(&config, &device),
            faults: Faults::of_environment().map_err(anyhow::Error::msg)?,
            ranks: Ranks::alone(),
        };
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
        // From here on the run is ours alone: the trainer holds its log.
        let mut trainer = trainer(networks, config.train.clone(), entry.latent, &mut looker, setup)?;
        self.telling.begin(&mut console, run)?;
        console.say(&opening(&config, dataset, run, &environment.device, parameters));
        let started = started(&config, &environment, parameters[0], trainer.plan());
        let began_on = match resumed {
            Some((resumption, told, list)) => {
                trainer.resume(started, &mut console)?;
                if let Some(text) = told {
                    if trainer.is_complete() {
                        bail!("{} is finished, and changed data is nothing it can go on with", run.path().display());
                    }
                    trainer.emit(Event::Warned { step: trainer.progress().step, text }, &mut console)?;
                }
                if let Some(list) = list {
                    recorded::write(run, &list)?;
                }
                resumption.note(run, &environment, trainer.progress().step, !trainer.is_complete())?
            }
            None => {
                run.write_environment(&environment)?;
                note_sitting(run, &environment, 0, How::Started, Vec::new())?;
                trainer.emit(started, &mut console)?;
                environment.clone()
            }
        };
        let ended = trainer.fit(&mut console);
        console.close();
        let go_on = how_to_go_on("gan train", run);
        if ended.map_err(|error| with_advice(error.into(), &go_on))? == Ended::Interrupted {
            let step = trainer.progress().step;
            console.finish_tracking();
            note!("stopped after iteration {step}; continue with: {go_on}");
            return Ok(Done::Interrupted);
        }
        let (step, seconds) = (trainer.progress().step, trainer.progress().seconds);
        trainer.emit(Event::Finished { step, seconds }, &mut console as &mut dyn Observer)?;
        // Nothing of a run that had ended is measured again.
        let concluded = trainer.is_complete().then(|| run.read_gan_metrics().ok()).flatten();
        let metrics = match concluded.filter(|metrics| metrics.iterations == step && run.report().is_file()) {
            Some(metrics) => metrics,
            None => conclude(&config, run, &began_on, trainer.close(), parameters, features)?,
        };
        console.say(&format!("samples {}\nreport {}", grid_path(run, step).display(), run.report().display()));
        output::result(result_line(&metrics));
        console.finish_tracking();
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
        let asked_for = self.settings.compare.and_then(Choice::fixed).is_some();
        match Extractor::new(config.data.preprocess.size, device) {
            Ok(extractor) => Ruler::new(extractor, dataset, &config.data.preprocess, config.compare).map(Some),
            Err(error) if asked_for => Err(error.context("--compare needs the pretrained MobileNetV2")),
            Err(error) => {
                console.say(&format!("no distances on the way: {error:#}"));
                Ok(None)
            }
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

fn result_line(metrics: &GanMetrics) -> Value {
    json!({
        "run": metrics.run, "iterations": metrics.iterations, "first_frechet": metrics.first_frechet,
        "frechet": metrics.frechet, "images_per_second": metrics.images_per_second,
        "peak_memory_bytes": metrics.peak_memory_bytes, "recoveries": metrics.recoveries,
    })
}
