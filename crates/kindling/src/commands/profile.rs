//! `kindling profile`: where a training step's time and memory go.

mod flame;
mod measure;
mod roofline;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use kindling_data::{IGNORED, Task};
use kindling_layers::trace::Trace;
use kindling_layers::{Checkpointing, Precision};
use kindling_memory::planner::{LayerMemory, Prediction, Situation, Target, by_layer, predict};
use kindling_runs::{Table, write_atomically};
use kindling_zoo::ModelOptions;
use serde_json::{Value, json};

use crate::Done;
use crate::commands::Format;
use crate::commands::plan::{prediction_json, size, target};
use crate::config::{DEFAULT_MODEL, IMAGE_SIZE, usual};
use crate::device::{Chosen, DeviceChoice};
use crate::model::AnyModel;
use crate::output::{self, out};
use crate::ranges;
use measure::{Measured, SegmentTime};
use roofline::Roofline;

/// Layers that the table names.
const LARGEST: usize = 10;

/// Measure where the time and memory of training steps go
///
/// Trains on random images, with masks for a network for segmentation: a few real steps of a run, as `kindling train` makes them,
/// give the peak of memory. Then the stem, each block, the decoder and the head run on their own, forward with a gradient graph and
/// backward, which gives their time. What each layer keeps for backward is the planner's figure, beside the measured peak.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model of the zoo; `kindling models` lists them
    #[arg(long, value_name = "NAME", default_value = DEFAULT_MODEL)]
    model: String,
    /// Side of the square images, at most 8192
    #[arg(long, value_name = "PIXELS", default_value_t = IMAGE_SIZE)]
    image_size: usize,
    /// Samples of an optimizer step, 1 to 1048576
    #[arg(long, value_name = "N", value_parser = ranges::samples(), default_value_t = usual().batch_size)]
    batch_size: usize,
    /// Samples computed at once, 1 to 1048576 [default: batch size, at most ghost batch size]
    #[arg(long, value_name = "N", value_parser = ranges::samples())]
    micro_batch: Option<usize>,
    /// Ghost batch size: the most samples whose statistics batch norm takes together, 1 to 1048576
    #[arg(long, alias = "norm-group", value_name = "N", value_parser = ranges::samples(), default_value_t = usual().ghost_batch_size)]
    ghost_batch_size: usize,
    /// Feature maps that are computed again rather than kept: none, stages or blocks
    #[arg(long, alias = "recompute", value_name = "WHAT", default_value_t = Checkpointing::None)]
    activation_checkpointing: Checkpointing,
    /// Format of feature maps: f32, bf16 or f16
    #[arg(long, value_name = "FORMAT", default_value_t = Precision::F32)]
    precision: Precision,
    /// Channels of the images, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 3)]
    channels: usize,
    /// Classes of the head, 2 to 100000; of pixels at most 255
    #[arg(long, value_name = "N", default_value_t = 10)]
    classes: usize,
    /// cpu, or cuda[:N], which has been tried on a stand-in alone
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: DeviceChoice,
    /// Steps that are trained, and times that each part is run, 1 to 1000000000
    #[arg(long, value_name = "N", value_parser = ranges::many(), default_value_t = 3)]
    steps: usize,
    /// Say how far each part is from the device's limit: its arithmetic and bytes beside what the device reaches
    ///
    /// What a processor reaches is measured, in about a second, with as many threads as the steps have: products of float32 in the
    /// cache, and copies in memory. What a GPU reaches follows from its properties.
    #[arg(long)]
    roofline: bool,
    /// How it is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write a picture of it as one HTML file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What was found, ready to be shown.
struct Profile {
    title: String,
    segments: Vec<Segment>,
    layers: Vec<LayerMemory>,
    prediction: Prediction,
    measured: Measured,
    roofline: Option<Roofline>,
}

/// A part of the network that runs on its own.
struct Segment {
    time: SegmentTime,
    /// Bytes kept for backward.
    kept: u64,
    /// Multiply-adds of an image, forward.
    macs: u64,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        if !matches!(self.device, DeviceChoice::Cpu | DeviceChoice::Cuda(_)) {
            bail!("profiles are made with --device cpu or --device cuda");
        }
        let model = AnyModel::find(&self.model)?;
        model.check_image_size(self.image_size)?;
        if model.task() == Task::Segmentation && self.classes > usize::from(IGNORED) {
            bail!("--classes {}: a mask has at most {IGNORED} classes", self.classes);
        }
        let chosen = self.device.open()?;
        chosen.check_precision(self.precision)?;
        let profile = self.profile(&model, &chosen)?;
        match self.format {
            Format::Table => profile.print(),
            Format::Json => out!("{}", self.as_json(&model, &profile)),
        }
        if let Some(path) = &self.out {
            let page = flame::page(&profile);
            write_atomically(path, page.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(Done::Complete)
    }

    fn micro_batch(&self) -> usize {
        self.micro_batch.unwrap_or(self.batch_size.min(self.ghost_batch_size))
    }

    fn options(&self) -> ModelOptions {
        ModelOptions { in_channels: self.channels, classes: self.classes, ..ModelOptions::imagenet() }
    }

    fn situation(&self, target: Target) -> Situation {
        let whole = Situation::whole_batch(self.batch_size, target);
        Situation {
            micro_batch: self.micro_batch(),
            ghost_batch_size: self.ghost_batch_size,
            checkpointing: self.activation_checkpointing,
            precision: self.precision,
            ..whole
        }
    }

    fn profile(&self, model: &AnyModel, chosen: &Chosen) -> Result<Profile> {
        let situation = self.situation(target(self.device)?);
        let measured = measure::run(self, model, &chosen.device)?;
        // Everything else comes after the run, whose peak of memory is measured.
        let trace = model.trace(&self.options(), self.image_size)?;
        let limit = || Roofline::of(self.device, self.precision, &trace, &situation);
        let roofline = self.roofline.then(limit).transpose()?;
        let times = measure::times(self, model, &chosen.device)?;
        let layers = by_layer(&trace, &situation);
        let segments = segments(times, &layers, &trace);
        let title = format!(
            "{} at {}x{}, batch {} in micro-batches of {}, {}, checkpointing {}, on {}",
            model.key(),
            self.image_size,
            self.image_size,
            self.batch_size,
            self.micro_batch(),
            self.precision,
            self.activation_checkpointing,
            if self.device == DeviceChoice::Cpu { "the CPU" } else { chosen.facts.device.as_str() }
        );
        Ok(Profile { title, segments, layers, prediction: predict(&trace, &situation), measured, roofline })
    }

    fn as_json(&self, model: &AnyModel, profile: &Profile) -> Value {
        let segments: Vec<Value> = profile
            .segments
            .iter()
            .map(|segment| {
                json!({ "name": segment.time.name, "forward_seconds": segment.time.forward,
                        "backward_seconds": segment.time.backward, "kept_bytes": segment.kept, "macs": segment.macs })
            })
            .collect();
        let layers: Vec<Value> = profile
            .layers
            .iter()
            .map(|layer| {
                json!({ "name": layer.name, "kind": layer.kind, "kept_bytes": layer.kept,
                        "workspace_bytes": layer.workspace })
            })
            .collect();
        let mut found = json!({
            "model": model.key(), "image_size": self.image_size, "batch_size": self.batch_size,
            "micro_batch": self.micro_batch(), "norm_group": self.ghost_batch_size, "recompute": self.activation_checkpointing.to_string(),
            "device": self.device.to_string(), "step_seconds": profile.measured.step_seconds,
            "measured": { "steps_peak": profile.measured.steps_peak, "run_peak": profile.measured.run_peak },
            "predicted": prediction_json(&profile.prediction), "segments": segments, "layers": layers,
        });
        if let Some(roofline) = &profile.roofline {
            found["roofline"] = roofline.json(profile);
        }
        found
    }
}

/// The part of a network that a layer belongs to, in the network's names.
fn segment_of(layer: &str) -> String {
    if let Some(inside) = layer.strip_prefix("encoder.") {
        return format!("encoder.{}", segment_of(inside));
    }
    let parts: Vec<&str> = layer.split('.').collect();
    match parts.as_slice() {
        ["stem" | "pool", ..] => "stem".to_string(),
        ["stages", stage, block, ..] => format!("stages.{stage}.{block}"),
        ["features", ..] => "features".to_string(),
        ["head", "features", ..] => "head.features".to_string(),
        // U-Net's decoder has blocks of two parts. Any other runs in one go with what enlarges its logits.
        ["decoder", block, of_block @ ..] if block.parse::<usize>().is_ok() => {
            let is_first = matches!(of_block, ["upsample" | "concat", ..] | ["conv1", "conv"]);
            format!("decoder.{block}.{}", if is_first { "conv1" } else { "conv2" })
        }
        ["decoder" | "enlarge" | "auxiliary", ..] => "decoder".to_string(),
        _ => "head".to_string(),
    }
}

fn segments(times: Vec<(f64, f64)>, layers: &[LayerMemory], trace: &Trace) -> Vec<Segment> {
    let mut names: Vec<String> = trace.layers.iter().map(|layer| segment_of(&layer.name)).collect();
    names.dedup();
    let one = |(name, (forward, backward)): (String, (f64, f64))| {
        let kept = layers.iter().filter(|layer| segment_of(&layer.name) == name).map(|layer| layer.kept).sum();
        let macs = trace.layers.iter().filter(|layer| segment_of(&layer.name) == name).map(|layer| layer.macs).sum();
        Segment { time: SegmentTime { name, forward, backward }, kept, macs }
    };
    names.into_iter().zip(times).map(one).collect()
}

impl Profile {
    fn print(&self) {
        output::paragraph(&self.title);
        out!();
        let total: f64 = self.segments.iter().map(|segment| segment.time.total()).sum();
        let mut table = Table::new(&["<part", "forward ms", "backward ms", "time", "kept", "GMAC"]);
        for Segment { time, kept, macs } in &self.segments {
            table.row([
                time.name.clone(),
                format!("{:.1}", time.forward * 1e3),
                format!("{:.1}", time.backward * 1e3),
                format!("{:.1} %", 100.0 * time.total() / total.max(f64::MIN_POSITIVE)),
                size(*kept),
                format!("{:.3}", *macs as f64 / 1e9),
            ]);
        }
        output::text_of_product(&table.to_string());
        out!();
        if let Some(roofline) = &self.roofline {
            roofline.print(self);
        }
        out!("what the largest layers keep for backward (planned)");
        let mut largest: Vec<&LayerMemory> = self.layers.iter().collect();
        largest.sort_by_key(|layer| std::cmp::Reverse(layer.kept));
        for layer in largest.iter().take(LARGEST) {
            out!("  {:>12}  {} ({})", size(layer.kept), layer.name, layer.kind);
        }
        out!();
        let mut table = Table::new(&["<", "<"]);
        self.summary().into_iter().for_each(|line| table.row(line));
        output::text_of_product(&table.to_string());
    }

    /// Measured beside predicted: what, and how much.
    fn summary(&self) -> Vec<[String; 2]> {
        let p = &self.prediction;
        let error = 100.0 * (p.peak as f64 / self.measured.run_peak.max(1) as f64 - 1.0);
        let line = |what: &str, text: String| [what.to_string(), text];
        vec![
            line("a step takes", format!("{:.3} s (measured, median)", self.measured.step_seconds)),
            line("peak of the steps", format!("{} (measured)", size(self.measured.steps_peak))),
            line("peak of the run", format!("{} (measured, with its checkpoint)", size(self.measured.run_peak))),
            line("predicted", format!("{} ({error:+.1} %), in the {}", size(p.peak), p.phase)),
            line(
                "of that",
                format!(
                    "weights {}, gradients {}, optimizer {}, activations {}, workspace {}, overhead {}",
                    size(p.weights),
                    size(p.gradients),
                    size(p.optimizer),
                    size(p.activations),
                    size(p.workspace),
                    size(p.overhead)
                ),
            ),
        ]
    }
}
