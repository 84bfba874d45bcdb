//! `kindling train`: start a run, or continue one.

mod asked;
pub(in crate::commands) mod defaults;
mod folds;
mod going_on;
mod resolve;
mod restart;
mod settings;
mod together;
mod words;

pub(crate) use asked::Asked;
use going_on::check_longer;
pub(crate) use going_on::{Resumption, has_ended, how_to_go_on, note_sitting, nothing_left, with_advice};
pub(crate) use resolve::augment;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Result, bail};
use burn::tensor::Device;
use clap::ValueEnum;
use kindling_data::{DataError, Dataset, FileList, Split, largest_decoding_bytes};
use kindling_layers::parameters;
use kindling_runs::{DeviceFacts, Environment, Event, How, Metrics, RunDir};
use kindling_trainer::engine::ModelState;
use kindling_trainer::{Checkpoints, Ended, Faults, Ranks, Setup, TrainError, Trainer};
use kindling_zoo::{Network, SegmentationNetwork};
use serde::Serialize;

use crate::Done;
use crate::budget::{Imposed, limit_before_reading};
use crate::commands::run_flags::{ChangedData, RunFolder, Telling, Watched};
use crate::config::RunConfig;
use crate::dataset::path_of;
use crate::device::{Chosen, DeviceChoice};
use crate::exchange::{self, Exchange};
use crate::finish::Finished;
use crate::fitting::{does_not_fit, starting_plan, take_planned};
use crate::interrupt;
use crate::kind::{Kind, OfImages, OfPixels, OfValues, Start};
use crate::loaders;
use crate::output::{self, note};
use crate::progress::Console;
use crate::ranges;
use crate::ranks::{self, Fingerprint};
use crate::recorded::{self, Again};
use crate::scores;
pub(crate) use words::in_half;
use words::{batch_of_one, closing, note, opening, result_line, started};

/// The Burn release this build stands on.
const BURN: &str = "0.22.1";

/// Train a model, or continue a run
///
/// Without any flag: mobilenet_v3_small on the embedded phantoms at 512x512, on CUDA if it is there and the CPU
/// otherwise. Everything goes into a run directory: weights, metrics, report.html, checkpoints. The last line on
/// standard output is one JSON object with run, steps, test_accuracy, images_per_second and peak_memory_bytes.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
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

    /// The MPI library that connects several processes, which `mpirun` or `srun` start; also KINDLING_MPI [default: the one that
    /// belongs to the launcher, by its usual name; `kindling devices` names it]
    #[arg(long, value_name = "PATH", help_heading = "How")]
    mpi_library: Option<PathBuf>,
    /// Of several processes: what moves gradients between them. The result is the same
    #[arg(long, value_enum, default_value_t = Exchange::Auto, help_heading = "How")]
    exchange: Exchange,
    /// The NCCL library that connects the GPUs of several processes; also KINDLING_NCCL [default: libnccl.so.2; `kindling devices`
    /// names it]
    #[arg(long, value_name = "PATH", help_heading = "How")]
    nccl_library: Option<PathBuf>,
    #[command(flatten, next_help_heading = "How")]
    watched: Watched,

    #[command(flatten)]
    folder: RunFolder,
    /// Cross-validation: train so many folds one after another, 3 to 1000, each a run of its own in a folder of --out, and report
    /// them together. Each sample is tested once, and no group is parted. Whatever stops it, the same command line goes on. To train
    /// folds beside each other, start each with --fold and --out DIR/fold-1 ..., and then this to report them
    #[arg(
        long,
        value_name = "N",
        value_parser = ranges::folds(),
        help_heading = "Run",
        requires = "out",
        conflicts_with_all = ["fold", "resume"]
    )]
    folds: Option<usize>,
    /// Continue a run from its newest checkpoint, mid-epoch included, or from its start if it has none yet
    #[arg(long, value_name = "RUN", help_heading = "Run", conflicts_with_all = ["plan", "config"])]
    resume: Option<PathBuf>,
    /// With --resume, make the run longer, finished or not: until it has had this many passes over the training samples, 1 to
    /// 1000000000, or --max-steps steps in all if that is sooner. Steps that are done stay as they are. From the next one on the
    /// learning rate is that of a run of the new length from its start: the same peak and share of warm-up, and the cosine
    /// stretched over all steps, so that of a finished run it jumps up and ends at a hundredth of its peak again. Optimizer,
    /// average and best weights are kept
    #[arg(long, value_name = "EPOCHS", value_parser = ranges::times(), help_heading = "Run", requires = "resume")]
    extend_to: Option<u64>,
    #[command(flatten)]
    changed: ChangedData,
    #[command(flatten)]
    telling: Telling,
    /// Print every step
    #[arg(long, short, help_heading = "Run")]
    verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OptimizerName {
    /// Adam with decoupled weight decay
    #[value(name = "adamw")]
    AdamW,
    /// Stochastic gradient descent with momentum
    Sgd,
}

/// How a run is asked to go on.
#[derive(Clone, Copy, Debug)]
struct Continuing {
    /// Whether the command line is that of its start as well.
    one_line_for_both: bool,
    /// Whether it is to become longer.
    is_extended: bool,
}

/// What is to be done.
enum Prepared {
    /// A run begins, or goes on.
    Launch(Box<Launch>),
    /// Nothing: it is finished.
    Nothing(Done),
}

/// A run that is about to begin, or to go on.
struct Launch {
    config: RunConfig,
    dataset: Dataset,
    run: RunDir,
    chosen: Chosen,
    imposed: Option<Imposed>,
    beginning: Beginning,
}

/// What a run starts from.
#[allow(clippy::large_enum_variant)] // one a process
enum Beginning {
    /// Initial or imported weights.
    New(Initial),
    /// Its newest checkpoint.
    Resumed(Resumed),
}

/// The network of a run that begins.
#[allow(clippy::large_enum_variant)] // one a process
enum Initial {
    /// That answers with classes or with a number.
    OfImages(Start<Network>),
    OfPixels(Start<SegmentationNetwork>),
}

impl Initial {
    fn of(config: &RunConfig, device: &Device) -> Result<Self> {
        Ok(match config.is_segmentation() {
            true => Self::OfPixels(OfPixels::initial(config, device)?),
            false => Self::OfImages(OfImages::initial(config, device)?),
        })
    }
}

/// A network to begin with, or what to go on from.
#[allow(clippy::large_enum_variant)] // one a process
enum From<M> {
    Start(Start<M>),
    Resumed(Resumed),
}

/// A run that goes on.
struct Resumed {
    resumption: Resumption<RunConfig>,
    /// What has become of its data, where that has changed.
    told: Option<String>,
    /// The list to keep of its data, where that is another now.
    list: Option<FileList>,
}

/// What a run is, on which data, where it is written, on which device, and within which budget.
type Place = (RunConfig, Dataset, RunDir, Chosen, Option<Imposed>);

/// A run in progress.
type Running<'a, K> = Trainer<'a, ModelState<<K as Kind>::Network>, <K as Kind>::Training>;

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        if let Some(folds) = self.folds {
            ranks::check_alone("train --folds")?;
            return self.cross_validate(folds);
        }
        let library = self.mpi_library.clone();
        ranks::together(library.as_deref(), |ranks| match ranks.is_first() {
            true => self.lead(ranks),
            false => self.follow(ranks),
        })
    }

    fn start(&self, ranks: &Ranks) -> Result<Prepared> {
        self.changed.refuse_for_new(&self.folder)?;
        let (config, dataset) = self.asked.resolve(self.telling.quiet)?;
        config.train.check(config.data.classes.len())?;
        ranks::check_groups(&config.train, ranks)?;
        let chosen = DeviceChoice::configured(&config.device)?.open()?;
        let imposed = with_memory(&config, &chosen, ranks)?;
        // Weights that do not fit should not leave a run behind.
        let start = Initial::of(&config, &chosen.device)?;
        let run = RunDir::create(self.folder.out.as_deref(), plain_name(&config.model.name), &config.data.source)?;
        run.write_config(&config)?;
        recorded::write(&run, &FileList::of(&dataset))?;
        if !self.telling.quiet {
            dataset.lacking().iter().for_each(|lacking| note!("warning: {lacking}"));
        }
        Ok(Prepared::Launch(Box::new(Launch {
            config,
            dataset,
            run,
            chosen,
            imposed,
            beginning: Beginning::New(start),
        })))
    }

    fn resume(&self, path: &Path, ranks: &Ranks) -> Result<Prepared> {
        let run = RunDir::open(path)?;
        let stored = RunConfig::of(&run)?;
        let (mut config, mut changed) = self.asked.resumed(&run, &stored, self.continuing())?;
        if self.folder.resume_or_start
            && has_ended(&run)
            && let Ok(metrics) = run.read_metrics()
        {
            return Ok(Prepared::Nothing(nothing_left(&run, self.telling.quiet, result_line(&metrics))));
        }
        let smallest = config.train.largest_group();
        if let Some(micro_batch) = config.train.micro_batch.filter(|micro_batch| *micro_batch < smallest) {
            bail!(
                "--micro-batch {micro_batch} is smaller than this run's ghost batches of {smallest}, which are part \
                 of what it computes; {smallest} is the least it can be resumed with"
            );
        }
        let place = config.data.place(&run, self.changed.data_at.as_deref())?;
        let mut kept = stored.clone();
        if self.changed.data_at.is_some() {
            kept.data.path = path_of(&place);
            changed.extend(kept.data.path.as_ref().map(|path| ("data.path".to_string(), path.display().to_string())));
        }
        let mut how = How::Resumed;
        // Whoever says it again, says nothing new.
        if let Some(epochs) = self.extend_to.filter(|it| (*it, self.asked.settings.max_steps) != stored.train.planned())
        {
            let after_step = Checkpoints::new(run.checkpoints(), &config.model.name).newest_step().unwrap_or(0);
            kept.train.extend(after_step, epochs, self.asked.settings.max_steps);
            config.train.extend(after_step, epochs, self.asked.settings.max_steps);
            changed.push(("train.epochs".to_string(), epochs.to_string()));
            changed
                .extend(self.asked.settings.max_steps.map(|steps| ("train.max_steps".to_string(), steps.to_string())));
            how = How::Extended;
        }
        let config = config.checked()?;
        limit_before_reading(config.memory_budget, DeviceChoice::configured(&config.device)?)?;
        config.data.subgroups.as_deref().map_or(Ok(()), |column| scores::check_column(&place, column))?;
        let Again { dataset, told, list } =
            recorded::open_again(&run, &config, &place, self.changed.accept_changed_data)?;
        config.check_classes(&dataset)?;
        if told.is_none() {
            self.asked.check_balanced(&config, &dataset)?;
        }
        let chosen = DeviceChoice::configured(&config.device)?.open()?;
        let imposed = with_memory(&config, &chosen, ranks)?;
        let resumption = Resumption { how, changed, rewritten: (kept != stored).then_some(kept) };
        let beginning = Beginning::Resumed(Resumed { resumption, told, list });
        Ok(Prepared::Launch(Box::new(Launch { config, dataset, run, chosen, imposed, beginning })))
    }

    fn fit(&self, launch: Launch, ranks: &Rc<Ranks>) -> Result<Done> {
        let faults = Faults::of_environment().map_err(anyhow::Error::msg)?;
        let run = launch.run.clone();
        if ranks.is_alone() {
            let outcome = self.fit_here(launch, faults.clone(), ranks);
            return outcome.or_else(|error| restart::after(error, self, run.path(), &faults));
        }
        let begins = matches!(launch.beginning, Beginning::New(_));
        let met = self.meet(&launch, ranks);
        if met.is_err() && begins && ranks.is_first() {
            // Whoever is refused has no run, and may begin it again with the same command.
            run.withdraw();
        }
        met?;
        self.fit_here(launch, faults, ranks)
    }

    /// What several processes make sure of before they begin.
    fn meet(&self, launch: &Launch, ranks: &Ranks) -> Result<()> {
        let Launch { config, dataset, run, chosen, .. } = launch;
        ranks::check_groups(&config.train, ranks)?;
        Fingerprint::new(&chosen.facts.device, dataset).compare(ranks)?;
        ranks::watch_run(ranks, self.watched.timeout(), run, &how_to_go_on("train", run))?;
        let library = self.nccl_library.as_deref();
        exchange::connect(ranks, self.exchange, library, &chosen.device, self.telling.quiet)
    }

    /// [`Args::fit`] in this process alone, without a new one.
    fn fit_here(&self, launch: Launch, faults: Faults, ranks: &Rc<Ranks>) -> Result<Done> {
        let Launch { config, dataset, run, chosen, imposed, beginning } = launch;
        let place = (config, dataset, run, chosen, imposed);
        match beginning {
            Beginning::New(Initial::OfImages(start)) => self.fit_images(place, From::Start(start), faults, ranks),
            Beginning::New(Initial::OfPixels(start)) => {
                self.fit_as::<OfPixels>(place, From::Start(start), faults, ranks)
            }
            Beginning::Resumed(resumed) if place.0.is_segmentation() => {
                self.fit_as::<OfPixels>(place, From::Resumed(resumed), faults, ranks)
            }
            Beginning::Resumed(resumed) => self.fit_images(place, From::Resumed(resumed), faults, ranks),
        }
    }

    /// Trains a network that answers for whole images.
    fn fit_images(&self, place: Place, from: From<Network>, faults: Faults, ranks: &Rc<Ranks>) -> Result<Done> {
        match place.0.is_regression() {
            true => self.fit_as::<OfValues>(place, from, faults, ranks),
            false => self.fit_as::<OfImages>(place, from, faults, ranks),
        }
    }

    /// Trains a network of a kind.
    fn fit_as<K: Kind>(
        &self,
        (config, dataset, run, chosen, imposed): Place,
        from: From<K::Network>,
        faults: Faults,
        ranks: &Rc<Ranks>,
    ) -> Result<Done> {
        let (dataset, run) = (&dataset, &run);
        chosen.check_precision(config.train.precision)?;
        let Chosen { device, facts } = chosen;
        let budget = imposed.as_ref().map(|imposed| imposed.bytes);
        let environment = environment(facts);
        let (network, import, resumed) = match from {
            From::Start((network, import)) => (network, import, None),
            From::Resumed(resumed) => {
                // Everything comes from the checkpoint. Without one the run begins again, with what it began with.
                let is_saved = Checkpoints::new(run.checkpoints(), &config.model.name).newest_step().is_some();
                let (network, import) =
                    if is_saved { (K::untrained(&config, &device)?, None) } else { K::initial(&config, &device)? };
                (network, import, Some(resumed))
            }
        };
        let trace = K::trace(&config, &network);
        let parameters = parameters::count(&network);
        let decoding = largest_decoding_bytes(dataset, &config.data.preprocess);
        let processes = ranks.group().size();
        let setup = Setup {
            model_name: &config.model.name,
            note: note(&config),
            device: device.clone(),
            train: loaders::training(&config, dataset, self.telling.quiet)?,
            run,
            stop: interrupt::flag()?,
            start: starting_plan(&config, &trace, &device, budget, decoding, processes),
            faults,
            ranks: Rc::clone(ranks),
        };
        // From here on the run is ours alone: the trainer holds its log.
        let validation = loaders::evaluation(&config, dataset, Split::Val)?;
        let mut trainer = K::trainer(network, &config, validation, setup)?;
        let mut console = Console::new(self.telling.verbosity(self.verbose), trainer.total_steps());
        if ranks.is_first() {
            self.telling.begin(&mut console, run)?;
        }
        console.say(&opening(&config, dataset, run, &environment, parameters, trainer.plan()));
        if let Some(warning) = batch_of_one(&config) {
            console.say(&warning);
        }
        if let Some(import) = import {
            console.say(&format!("starting from {import}"));
        }
        let started = started(&config, &environment, parameters, trainer.total_steps(), trainer.plan());
        let began_on = match resumed {
            Some(resumed) => resumed.begin::<K>(&mut trainer, started, (run, ranks), &environment, &mut console)?,
            None if !ranks.is_first() => environment.clone(),
            None => {
                run.write_environment(&environment)?;
                note_sitting(run, &environment, 0, How::Started, Vec::new())?;
                trainer.emit(started, &mut console)?;
                environment.clone()
            }
        };
        let ended = trainer.fit(&mut console);
        console.close();
        let go_on = how_to_go_on("train", run);
        // A picture that no memory is left for beside the network says the same as a step.
        if let Err(error @ (TrainError::DoesNotFit { .. } | TrainError::Data(DataError::ReservationRefused { .. }))) =
            ended
        {
            if ranks.is_first() {
                note!("{}", does_not_fit(&config, &trace, &device, budget, decoding, processes));
            }
            return Err(error.into());
        }
        if ended.map_err(|error| with_advice(error.into(), &go_on))? == Ended::Interrupted {
            let step = trainer.progress().step;
            console.finish_tracking();
            if ranks.is_first() {
                note!("stopped after step {step}; continue with: {go_on}");
            }
            return Ok(Done::Interrupted);
        }
        let place = config.data.place(run, self.changed.data_at.as_deref())?;
        let finished =
            Finished { config: &config, dataset, place: &place, run, device: &device, environment: &began_on, ranks };
        let done = conclude::<K>(trainer, &finished, &mut console)?;
        console.finish_tracking();
        Ok(done)
    }

    /// How a run goes on.
    fn continuing(&self) -> Continuing {
        Continuing { one_line_for_both: self.folder.resume_or_start, is_extended: self.extend_to.is_some() }
    }
}

impl Resumed {
    /// Has the trainer go on, writes down that it does, and returns what the run began on; of several processes the first writes.
    fn begin<K: Kind>(
        self,
        trainer: &mut Running<'_, K>,
        started: Event,
        (run, ranks): (&RunDir, &Ranks),
        now: &Environment,
        console: &mut Console,
    ) -> Result<Environment> {
        let Self { resumption, told, list } = self;
        if resumption.how == How::Extended {
            check_longer(trainer.length())?;
        }
        trainer.resume(started, console)?;
        if resumption.how == How::Extended && trainer.is_complete() {
            let (path, config) = (run.path().display(), run.config());
            bail!(
                "{path} has ended because no epoch was better for as long as --patience says, and more epochs change nothing about \
                 that; start a new run, with --config {} and another --patience",
                config.display()
            );
        }
        if !ranks.is_first() {
            return Ok(now.clone());
        }
        if let Some(text) = told {
            if trainer.is_complete() {
                let path = run.path().display();
                bail!(
                    "{path} is finished, and changed data is nothing it can go on with; kindling eval {path} scores it"
                );
            }
            trainer.emit(Event::Warned { step: trainer.progress().step, text }, console)?;
        }
        if let Some(list) = list {
            recorded::write(run, &list)?;
        }
        resumption.note(run, now, trainer.progress().step, !trainer.is_complete())
    }
}

/// Scores a run whose training has ended, if it is not scored already, and prints its result; of several processes the first does.
fn conclude<K: Kind>(trainer: Running<K>, finished: &Finished, console: &mut Console) -> Result<Done> {
    let Finished { run, ranks, .. } = finished;
    let result = |metrics: &Metrics, console: &mut Console| {
        console.say(&closing(metrics, run));
        output::result(result_line(metrics));
    };
    let concluded = trainer.is_complete().then(|| finished.concluded(trainer.progress().step)).flatten();
    // The weights of the first process are written when it says this.
    let is_concluded = ranks.agree("end of training", concluded.is_some())?[0];
    if is_concluded {
        if let Some(metrics) = concluded.filter(|_| ranks.is_first()) {
            result(&metrics, console);
        }
        return Ok(Done::Complete);
    }
    let mut trained = trainer.close();
    let concluded = K::conclude(finished, &mut trained, console);
    let go_on = how_to_go_on("train", run);
    let metrics = concluded.map_err(|error| match error.downcast::<TrainError>() {
        Ok(error) => with_advice(trained.journal.with_checkpoint(error).into(), &go_on),
        Err(other) => with_advice(other, &go_on),
    })?;
    if let Some(metrics) = metrics {
        result(&metrics, console);
    }
    Ok(Done::Complete)
}

/// Imposes the budget of a run, and has a GPU take the memory that the run is planned to need. Both come before the weights. Of
/// several processes each has a share of the work, which is not planned for.
fn with_memory(config: &RunConfig, chosen: &Chosen, ranks: &Ranks) -> Result<Option<Imposed>> {
    let Chosen { device, facts } = chosen;
    let imposed = config.memory_budget.map(|budget| budget.impose(device, facts)).transpose()?;
    if ranks.is_alone() {
        take_planned(config, device, imposed.as_ref().map(|imposed| imposed.bytes))?;
    }
    Ok(imposed)
}

/// A model's name without that of its library.
fn plain_name(model: &str) -> &str {
    model.rsplit('.').next().unwrap_or(model)
}

/// The machine, with the commit the command was built from.
pub(crate) fn environment(facts: DeviceFacts) -> Environment {
    let mut environment = Environment::collect(BURN, facts);
    environment.commit = option_env!("KINDLING_COMMIT").map(str::to_string);
    environment
}
