//! `kindling plan`: what fits into a given memory, and what it costs, without running anything.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use kindling_data::{Header, Normalisation, Preprocess, counted, decoding_bytes};
use kindling_layers::trace::Trace;
use kindling_layers::{Checkpointing, Freeze, Precision};
use kindling_memory::planner::{
    self, OptimizerKind, Prediction, Situation, Target, largest_batch, largest_micro_batch,
};
use kindling_memory::{MemorySize, counted_within, resident_of};
use kindling_runs::{Table, write_atomically};
use kindling_zoo::{Model, ModelOptions, models};
use serde_json::{Value, json};

use crate::Done;
use crate::budget::default_budget;
use crate::commands::Format;
use crate::config::{DEFAULT_MODEL, IMAGE_SIZE, usual};
use crate::device::{DeviceChoice, cuda};
use crate::model::AnyModel;
use crate::output::{self, note, out};
use crate::ranges;
use crate::ranks::check_divisible;
use crate::threads;

/// Say what fits into a given memory, and what it costs
///
/// Without any flag: what this machine can train. It works from the network's description alone, so the device need not be there:
/// `--device cuda --memory 8GiB` plans for a GPU of that memory. Predictions for the CPU were compared with real runs
/// (benchmarks/), those for CUDA with a stand-in for its driver, not with a GPU. A multiply-add in backward counts twice; activation
/// checkpointing adds one more forward pass of what is computed again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model of the zoo; `kindling models` lists them
    #[arg(long, value_name = "NAME", default_value = DEFAULT_MODEL)]
    model: String,
    /// All models, those with room for the most images first
    #[arg(long, conflicts_with_all = ["model", "out"])]
    all: bool,
    /// Side of the square images, at most 8192
    #[arg(long, value_name = "PIXELS", default_value_t = IMAGE_SIZE)]
    image_size: usize,
    /// The memory there is, like 8GiB, 500MiB or 6GB; on the CPU that of the process [default: what this machine has, and of several
    /// processes on its CPU each its part]
    #[arg(long, value_name = "SIZE")]
    memory: Option<MemorySize>,
    /// Samples of an optimizer step, 1 to 1048576, which micro-batches divide by whole ghost batches [default: as many as fit
    /// at once; 8 for --out]
    #[arg(long, value_name = "N", value_parser = ranges::samples())]
    batch_size: Option<usize>,
    /// Processes that a launcher starts for the run, 1 to 65536, and that divide a batch of --batch-size by whole ghost batches. The plan
    /// is of the process that needs the most, with what the exchange of gradients takes besides
    #[arg(long, value_name = "N", value_parser = ranges::processes(), default_value_t = 1)]
    processes: usize,
    /// Ghost batch size: the most samples whose statistics batch norm takes together, 1 to 1048576
    #[arg(long, alias = "norm-group", value_name = "N", value_parser = ranges::samples(), default_value_t = usual().ghost_batch_size)]
    ghost_batch_size: usize,
    /// Channels of the images, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 3)]
    channels: usize,
    /// Classes of the head, 2 to 100000
    #[arg(long, value_name = "N", default_value_t = 1000)]
    classes: usize,
    /// Update rule
    #[arg(long, value_enum, default_value_t = OptimizerName::AdamW)]
    optimizer: OptimizerName,
    /// Whether a moving average of the weights is kept
    #[arg(long)]
    ema: bool,
    /// Layers that are not trained: none, backbone, or the stem and this many stages
    #[arg(long, value_name = "WHAT", default_value_t = Freeze::None)]
    freeze: Freeze,
    /// With the auxiliary classifier of `train --auxiliary-loss`
    #[arg(long, conflicts_with = "all")]
    auxiliary: bool,
    /// auto, cpu or cuda[:N]; it need not be there. auto is CUDA where it is, otherwise the CPU
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
    /// Loader threads, 0 to 1024, which hold batches in the memory of a CPU run
    #[arg(long, value_name = "N", value_parser = ranges::workers(), default_value_t = 1)]
    workers: usize,
    /// Side of the images on disk, 1 to 8192, which loader threads read beside the steps of a CPU run [default: small enough
    /// not to count]
    #[arg(long, value_name = "PIXELS", value_parser = ranges::image_side())]
    source_size: Option<usize>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Format of feature maps, for --all and --out: f32, bf16 or f16
    #[arg(long, value_name = "FORMAT", default_value_t = Precision::F32)]
    precision: Precision,
    /// Write the fastest plan that fits to a file for `kindling train --plan`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// An update rule, by what it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OptimizerName {
    /// Adam with decoupled weight decay
    #[value(name = "adamw")]
    AdamW,
    /// Stochastic gradient descent with momentum
    Sgd,
}

impl OptimizerName {
    pub(crate) fn kind(self) -> OptimizerKind {
        match self {
            Self::AdamW => OptimizerKind::AdamW,
            Self::Sgd => OptimizerKind::Sgd { momentum: true },
        }
    }
}

/// The largest micro-batch of one precision and activation checkpointing.
struct Row {
    precision: Precision,
    checkpointing: Checkpointing,
    fits: Option<(usize, Prediction)>,
    cost: f64,
}

impl Args {
    pub(crate) fn run(mut self) -> Result<Done> {
        if self.batch_size == Some(0) || self.ghost_batch_size == 0 || self.image_size == 0 {
            bail!("--batch-size, --ghost-batch-size and --image-size are at least 1");
        }
        if self.classes < 2 || self.channels == 0 {
            bail!("a network needs at least 2 --classes and 1 of --channels");
        }
        if self.processes > 1 {
            let Some(batch) = self.batch_size else { bail!("--processes divide a batch: give --batch-size too") };
            check_divisible(batch, self.ghost_batch_size, self.processes)?;
        }
        if self.device == DeviceChoice::Auto {
            self.device = if self.device.is_cpu() { DeviceChoice::Cpu } else { DeviceChoice::Cuda(0) };
        }
        self.target()?;
        let model = if self.all { None } else { Some(AnyModel::find(&self.model)?) };
        if self.memory.is_none() {
            self.memory = Some(memory_here(self.device, self.processes)?);
            let who = if self.processes == 1 { "a run" } else { "each process" };
            note!("{} is what {who} may use of {} here; --memory plans for another amount", self.memory(), self.device);
        }
        match model {
            Some(model) => self.one(&model)?,
            None => self.zoo()?,
        }
        Ok(Done::Complete)
    }

    /// What was given, or found.
    fn memory(&self) -> MemorySize {
        self.memory.unwrap_or_default()
    }

    fn target(&self) -> Result<Target> {
        target(self.device)
    }

    fn situation(&self, precision: Precision, checkpointing: Checkpointing) -> Result<Situation> {
        let batch = self.batch_size.unwrap_or(1);
        Ok(Situation {
            micro_batch: batch,
            batch,
            ghost_batch_size: self.ghost_batch_size,
            checkpointing,
            optimizer: self.optimizer.kind(),
            ema: self.ema,
            freeze: self.freeze,
            workers: self.workers,
            decoding: self.source_size.map_or(0, |side| self.decoding(side)),
            target: self.target()?,
            precision,
            processes: self.processes,
            mixes: false,
        })
    }

    /// What reading a square image of this side takes.
    fn decoding(&self, side: usize) -> u64 {
        let preprocess = Preprocess::padded(self.image_size, self.channels, Normalisation::identity(self.channels));
        decoding_bytes(Header { width: side, height: side, channels: self.channels }, &preprocess)
    }

    fn trace(&self, model: &AnyModel) -> Result<Trace> {
        model.check_image_size(self.image_size)?;
        let (in_channels, classes, auxiliary) = (self.channels, self.classes, self.auxiliary);
        let options = ModelOptions { in_channels, classes, auxiliary, ..ModelOptions::imagenet() };
        model.trace(&options, self.image_size)
    }

    fn row(&self, trace: &Trace, precision: Precision, checkpointing: Checkpointing) -> Result<Row> {
        let situation = self.situation(precision, checkpointing)?;
        let fits = match self.batch_size {
            Some(_) => largest_micro_batch(trace, &situation, self.memory().0),
            None => largest_batch(trace, &situation, self.memory().0),
        };
        let cost = planner::relative_cost(trace, checkpointing, self.freeze);
        Ok(Row { precision, checkpointing, fits, cost })
    }

    fn one(&self, model: &AnyModel) -> Result<()> {
        let trace = self.trace(model)?;
        let mut rows = Vec::new();
        for precision in Precision::ALL {
            for checkpointing in Checkpointing::ALL {
                rows.push(self.row(&trace, precision, checkpointing)?);
            }
        }
        match self.format {
            Format::Table => self.print(model, &trace, &rows),
            Format::Json => out!("{}", self.as_json(model, &trace, &rows)),
        }
        if let Some(path) = &self.out {
            let text = self.plan(model, &trace)?;
            write_atomically(path, text.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
            note!("plan written to {}; follow it with: kindling train --plan {}", path.display(), path.display());
        }
        Ok(())
    }

    fn print(&self, model: &AnyModel, trace: &Trace, rows: &[Row]) {
        let mut batch = self.batch_size.map_or("as large as fits".to_string(), |batch| batch.to_string());
        if self.processes > 1 {
            // Writing to a string cannot fail.
            let _ = write!(batch, " in {} processes", self.processes);
        }
        out!(
            "{} at {}x{}, {}, {} classes, on {} with {}:\nbatch {batch}, ghost batches of at most {}",
            model.key(),
            self.image_size,
            self.image_size,
            counted(self.channels, "channel"),
            self.classes,
            self.device,
            self.memory(),
            self.ghost_batch_size
        );
        out!("{:.3} GMAC an image forward, three times that a training step\n", trace.macs() as f64 / 1e9);
        let headings = ["<format", "<checkpointing", "images", "peak", "activations", "workspace", "rest", "cost"];
        let mut table = Table::new(&headings);
        for Row { precision, checkpointing, fits, cost } in rows {
            let what = [precision.to_string(), checkpointing.to_string()];
            let Some((micro_batch, p)) = fits else {
                table.row(what.into_iter().chain(["none fits".to_string()]));
                continue;
            };
            let sizes = [p.peak, p.activations, p.workspace, rest(p)].map(short_size);
            let figures = [micro_batch.to_string()].into_iter().chain(sizes).chain([format!("{cost:.2}")]);
            table.row(what.into_iter().chain(figures));
        }
        output::text_of_product(&table.to_string());
        out!();
        if let Some((_, p)) = rows.iter().find_map(|row| row.fits.as_ref()) {
            out!(
                "images: at once, at most. cost: work of a step, 1 without checkpointing.\n\
                 rest of the first row: weights {}, gradients {},\n\
                 optimizer {}, overhead {}; --format json has all rows' parts.",
                size(p.weights),
                size(p.gradients),
                size(p.optimizer),
                size(p.overhead)
            );
        }
        if self.target().is_ok_and(|target| target != Target::Cuda) {
            out!(
                "Of {}, {} are counted here; the process itself takes the rest.",
                self.memory(),
                size(counted_within(self.memory().0))
            );
        } else {
            out!("Figures for CUDA were compared with a stand-in for its driver, not with a GPU.");
        }
        if self.processes > 1 {
            out!(
                "Of the process that needs the most. What MPI and NCCL take for themselves is not counted, and with\n\
                 mixup or CutMix each process holds whole batches."
            );
        }
    }

    fn as_json(&self, model: &AnyModel, trace: &Trace, rows: &[Row]) -> Value {
        let on_cpu = self.target().is_ok_and(|target| target != Target::Cuda);
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({
                    "precision": row.precision, "recompute": row.checkpointing.to_string(),
                    "cost": row.cost, "micro_batch": row.fits.map(|(micro_batch, _)| micro_batch),
                    "prediction": row.fits.map(|(_, prediction)| prediction_json(&prediction)),
                    "resident": row.fits.filter(|_| on_cpu).map(|(_, prediction)| resident_of(prediction.peak)),
                })
            })
            .collect();
        json!({
            "model": model.key(), "image_size": self.image_size, "channels": self.channels, "classes": self.classes,
            "device": self.device.to_string(), "memory": self.memory().0, "batch_size": self.batch_size,
            "norm_group": self.ghost_batch_size, "processes": self.processes, "macs": trace.macs(), "rows": rows,
        })
    }

    /// The fastest plan of the asked precision that fits, as a file.
    fn plan(&self, model: &AnyModel, trace: &Trace) -> Result<String> {
        let batch = self.batch_size.unwrap_or(usual().batch_size);
        for checkpointing in Checkpointing::ALL {
            let situation = Situation { batch, ..self.situation(self.precision, checkpointing)? };
            if let Some((micro_batch, prediction)) = largest_micro_batch(trace, &situation, self.memory().0) {
                return Ok(self.plan_file(model, batch, micro_batch, checkpointing, &prediction));
            }
        }
        bail!(
            "{} with batches of {batch} does not fit into {}, even block by block; \
             try a smaller --ghost-batch-size, smaller images or a lighter model (kindling plan --all)",
            model.key(),
            self.memory()
        )
    }

    fn plan_file(
        &self,
        model: &AnyModel,
        batch: usize,
        micro_batch: usize,
        checkpointing: Checkpointing,
        prediction: &Prediction,
    ) -> String {
        let mut text = format!(
            "# A plan for `kindling train --plan`, by `kindling plan` {}, for {} with {}.\n\
             # micro_batch and activation_checkpointing change memory and time, never the result; batch_size does.\n",
            env!("CARGO_PKG_VERSION"),
            self.device,
            self.memory()
        );
        let values: [(&str, toml::Value); 8] = [
            ("model", model.key().into()),
            ("image_size", (self.image_size as i64).into()),
            ("batch_size", (batch as i64).into()),
            ("micro_batch", (micro_batch as i64).into()),
            ("activation_checkpointing", checkpointing.to_string().into()),
            ("precision", self.precision.to_string().into()),
            ("memory_budget", (self.memory().0 as i64).into()),
            ("predicted_peak", (prediction.peak as i64).into()),
        ];
        for (key, value) in values {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key} = {value}");
        }
        text
    }

    /// Every model, by the images that fit at once.
    fn zoo(&self) -> Result<()> {
        let mut found = Vec::new();
        for entry in models() {
            let model = AnyModel::Classifier(Model::from(entry));
            let trace = self.trace(&model)?;
            let rows = Checkpointing::ALL.map(|checkpointing| self.row(&trace, self.precision, checkpointing));
            let [none, stages, blocks] = rows;
            found.push((model, trace, [none?, stages?, blocks?]));
        }
        let images = |row: &Row| row.fits.map_or(0, |(micro_batch, _)| micro_batch);
        // Most room first; of equals the one that has more of it with activation checkpointing, and then the larger network.
        found.sort_by_key(|(_, trace, rows)| {
            std::cmp::Reverse((images(&rows[0]), images(&rows[1]).max(images(&rows[2])), trace.macs()))
        });
        if self.format == Format::Json {
            for (model, trace, rows) in &found {
                out!("{}", self.as_json(model, trace, rows));
            }
            return Ok(());
        }
        let memory = self.memory();
        out!(
            "Images of {0}x{0} that fit at once into {memory} on {1}, {2}; most first\n",
            self.image_size,
            self.device,
            self.precision
        );
        let mut table = Table::new(&["<model", "all kept", "by stage", "by block", "cost", "GMAC"]);
        for (model, trace, rows) in &found {
            let [kept, by_stage, by_block] =
                rows.each_ref().map(|row| row.fits.map_or("-".to_string(), |(micro_batch, _)| micro_batch.to_string()));
            let (cost, macs) = (format!("{:.2}", rows[2].cost), format!("{:.3}", trace.macs() as f64 / 1e9));
            table.row([model.key(), kept, by_stage, by_block, cost, macs]);
        }
        output::text_of_product(&table.to_string());
        out!(
            "\nall kept: feature maps are kept for backward (--activation-checkpointing none).\n\
             by stage, by block: they are computed again, that much at a time.\n\
             cost: work of a training step by block; 1 is that with all kept.\n\
             GMAC: billions of multiply-adds for an image, forward."
        );
        Ok(())
    }
}

/// What this machine has of a device's memory for each of so many processes. Each has a GPU of its own.
fn memory_here(device: DeviceChoice, processes: usize) -> Result<MemorySize> {
    let found = match device {
        DeviceChoice::Cuda(index) => cuda::free(index),
        _ => default_budget().map(|(share, _)| share / processes as u64),
    };
    match found {
        Some(bytes) => Ok(MemorySize(bytes)),
        None => bail!("how much memory {device} has is not known here; give it, as in --memory 8GiB"),
    }
}

/// What a prediction holds besides activations and workspace.
fn rest(prediction: &Prediction) -> u64 {
    let Prediction { weights, gradients, optimizer, overhead, .. } = prediction;
    weights + gradients + optimizer + overhead
}

/// Bytes in at most eight characters.
fn short_size(bytes: u64) -> String {
    let text = size(bytes);
    match text.split_once('.') {
        Some((whole, rest)) if text.len() > 8 => {
            let unit = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{whole}{unit}")
        }
        _ => text,
    }
}

/// What a device means for a prediction.
pub(crate) fn target(device: DeviceChoice) -> Result<Target> {
    match device {
        DeviceChoice::Cpu => Ok(Target::Cpu { threads: threads::usual() }),
        DeviceChoice::Cuda(_) => Ok(Target::Cuda),
        DeviceChoice::Auto | DeviceChoice::Wgpu => bail!("plans are made for --device cpu or --device cuda"),
    }
}

/// The parts of a prediction.
pub(crate) fn prediction_json(prediction: &Prediction) -> Value {
    let &Prediction { weights, gradients, optimizer, activations, workspace, overhead, peak, phase } = prediction;
    json!({ "peak": peak, "weights": weights, "gradients": gradients, "optimizer": optimizer,
            "activations": activations, "workspace": workspace, "overhead": overhead, "moment": phase.to_string() })
}

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    MemorySize(bytes).to_string()
}
