//! `kindling models`: the zoo.

use anyhow::{Result, bail};
use clap::Subcommand;
use kindling_layers::trace::{FeatureMap, LayerTrace, Trace};
use kindling_runs::Table;
use kindling_zoo::{
    GANS, GanEntry, GanTraces, Model, ModelEntry, ModelOptions, Pretrained, SegmentationModel, find, find_segmentation,
    is_called, is_segmentation, matches, models, pretrained_for, segmentation_models,
};
use serde_json::{Value, json};

use crate::Done;
use crate::commands::Format;
use crate::output::{self, out};

/// List the models, or show one
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only models with a name that matches; `*` stands for anything
    #[arg(default_value = "*")]
    pattern: String,
    /// Only models that pretrained weights are known for
    #[arg(long)]
    pretrained: bool,
    /// How the list is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Subcommand)]
enum Command {
    /// Show one model: parameters, multiply-adds, activations, feature maps
    Show {
        /// Any of its names; `timm.NAME` and `torchvision.NAME` say which library's details are meant
        name: String,
        /// Side of the images, at most 8192
        #[arg(long, value_name = "PIXELS", default_value_t = 512)]
        image_size: usize,
        /// Channels of the images, 1 to 1024
        #[arg(long, value_name = "N", default_value_t = 3)]
        channels: usize,
        /// Classes of the head, 2 to 100000 [default: 1000, 2 for segmentation]
        #[arg(long, value_name = "N")]
        classes: Option<usize>,
        /// A row for each layer
        #[arg(long)]
        layers: bool,
        /// How it is printed
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        match self.command {
            None => list(&self.pattern, self.pretrained, self.format)?,
            Some(Command::Show { name, image_size, channels, classes, layers, format }) => {
                if let Some(entry) = gan(&name) {
                    ModelOptions { in_channels: channels, ..ModelOptions::imagenet() }.check()?;
                    show_gan(entry, channels, layers, format);
                    return Ok(Done::Complete);
                }
                if is_segmentation(&name) {
                    let model = find_segmentation(&name)?;
                    model.check_image_size(image_size)?;
                    let classes = classes.unwrap_or(2);
                    let options = ModelOptions { in_channels: channels, classes, ..ModelOptions::imagenet() };
                    options.check()?;
                    let trace = model.trace(&options, image_size)?;
                    show_segmentation(&model, model.parameters(&options)?, &trace, layers, format);
                    return Ok(Done::Complete);
                }
                let model = find(&name)?;
                model.check_image_size(image_size)?;
                let trace = trace(&model, channels, classes.unwrap_or(1000), image_size)?;
                match format {
                    Format::Json => out!("{}", as_json(&model, &trace, layers)),
                    Format::Table => show(&model, &trace, layers),
                }
            }
        }
        Ok(Done::Complete)
    }
}

fn trace(model: &Model, in_channels: usize, classes: usize, image_size: usize) -> Result<Trace> {
    let options = ModelOptions { in_channels, classes, ..ModelOptions::imagenet() };
    options.check()?;
    Ok(model.trace(&options, image_size)?)
}

fn list(pattern: &str, pretrained: bool, format: Format) -> Result<()> {
    // Names are in lower case, and found in any.
    let lower = pattern.to_lowercase();
    let with_weights = |entry: &&'static ModelEntry| !pretrained || pretrained_for(entry).next().is_some();
    let chosen: Vec<_> = models().filter(|entry| is_called(entry, &lower)).filter(with_weights).collect();
    let gans: Vec<&GanEntry> = GANS.iter().filter(|gan| matches(&lower, gan.name) && !pretrained).collect();
    let has_name = |model: &SegmentationModel| matches(&lower, &model.key()) && !pretrained;
    let segmenting: Vec<SegmentationModel> = segmentation_models().filter(has_name).collect();
    if chosen.is_empty() && gans.is_empty() && segmenting.is_empty() {
        match pretrained {
            false => bail!("no model matches `{pattern}`; `kindling models` lists them all"),
            true => bail!(
                "no model with pretrained weights matches `{pattern}`; `kindling models --pretrained` lists them all"
            ),
        }
    }
    let mut classifiers = Table::new(&["<model", "million", "GMAC", "<weights", "<about"]);
    let some = !chosen.is_empty();
    for entry in chosen {
        let trace = trace(&entry.into(), 3, 1000, 512)?;
        match format {
            Format::Table => {
                let weights = if pretrained_for(entry).next().is_some() { "yes" } else { "" };
                let [params, macs] = in_short(trace.params(), trace.macs());
                classifiers.row([entry.name(), &params, &macs, weights, entry.about]);
            }
            Format::Json => out!(
                "{}",
                json!({ "name": entry.name(), "aliases": aliases(entry), "family": entry.family,
                        "params": trace.params(), "macs_512": trace.macs(),
                        "reference": Model::from(entry).reference(), "pretrained": weights(entry) })
            ),
        }
    }
    if some && format == Format::Table {
        output::text_of_product(&classifiers.to_string());
        out!("\nmillion: parameters with 1000 classes. GMAC: 10^9 multiply-adds at 512x512.");
        out!("weights: pretrained ones are known; scripts/fetch-weights.sh brings them.");
    }
    let some = list_segmentation(&segmenting, some, format)? || some;
    let mut table = Table::new(&["<GAN", "million", "GMAC", "<about"]);
    let some_gans = !gans.is_empty();
    for entry in gans {
        let GanTraces { generator, discriminator } = entry.traces(3);
        let (params, macs) = (generator.params() + discriminator.params(), generator.macs() + discriminator.macs());
        match format {
            Format::Table => {
                let [params, macs] = in_short(params, macs);
                table.row([entry.name, &params, &macs, entry.about]);
            }
            Format::Json => out!(
                "{}",
                json!({ "name": entry.name, "aliases": [], "family": "GAN", "params": params, "macs": macs,
                        "reference": entry.reference, "pretrained": [] })
            ),
        }
    }
    if some_gans && format == Format::Table {
        let gap = if some { "\n" } else { "" };
        output::text_of_product(&format!("{gap}{table}"));
        out!("\nFor `kindling gan train`. Both networks count, at their own size of images.");
    }
    Ok(())
}

/// Networks for segmentation, below something else if there is some. Returns whether there are any.
fn list_segmentation(models: &[SegmentationModel], below: bool, format: Format) -> Result<bool> {
    let mut table = Table::new(&["<segmentation", "million", "GMAC", "<about its encoder"]);
    for model in models {
        let options = ModelOptions { classes: 2, ..ModelOptions::imagenet() };
        let (trace, parameters) = (model.trace(&options, 512)?, model.parameters(&options)?);
        let about = model.classifier().entry.about;
        match format {
            Format::Table => {
                let [params, macs] = in_short(parameters, trace.macs());
                table.row([model.key().as_str(), &params, &macs, about]);
            }
            Format::Json => out!(
                "{}",
                json!({ "name": model.key(), "aliases": [], "family": SEGMENTATION, "params": parameters,
                        "macs_512": trace.macs(), "reference": reference(model), "pretrained": [] })
            ),
        }
    }
    let some = !models.is_empty();
    if some && format == Format::Table {
        let gap = if below { "\n" } else { "" };
        output::text_of_product(&format!("{gap}{table}"));
        out!("\nFor `kindling train --task segmentation`, with 2 classes at 512x512.");
        out!("Any classifier can stand behind any of these decoders.");
    }
    Ok(some)
}

/// What family networks for segmentation are said to be of.
const SEGMENTATION: &str = "segmentation";

/// The library that a network for segmentation equals.
fn reference(model: &SegmentationModel) -> String {
    model.layer_names(false).map_or_else(|| "the zoo's own".to_string(), |(library, _)| library.to_string())
}

fn show_segmentation(model: &SegmentationModel, parameters: u64, trace: &Trace, layers: bool, format: Format) {
    let FeatureMap { channels, height, width } = trace.input;
    let reference = reference(model);
    if format == Format::Json {
        let mut object = json!({
            "name": model.key(), "aliases": [], "family": SEGMENTATION, "reference": reference,
            "encoder": model.classifier().key(), "input": [channels, height, width], "params": parameters,
            "macs": trace.macs(), "activations": trace.activations(), "stages": [], "pretrained": [],
        });
        if layers {
            object["layers"] = trace.layers.iter().map(layer_json).collect();
        }
        out!("{object}");
        return;
    }
    out!("{} ({SEGMENTATION})", model.key());
    let mut table = Table::new(&["<", "<"]);
    table.row(["paper", model.decoder.paper()]);
    table.row(["details of", &reference]);
    table.row(["encoder", &model.classifier().key()]);
    table.row(["input", &format!("{channels} x {height} x {width}")]);
    table.row(["parameters", &parameters.to_string()]);
    table.row(["multiply-adds", &trace.macs().to_string()]);
    table.row(["activations", &trace.activations().to_string()]);
    output::text_of_product(&table.to_string());
    if layers {
        out!();
        print_layers(trace);
    }
}

/// Parameters in millions and multiply-adds in billions.
fn in_short(params: u64, macs: u64) -> [String; 2] {
    [format!("{:.2}", params as f64 / 1e6), format!("{:.3}", macs as f64 / 1e9)]
}

fn gan(name: &str) -> Option<&'static GanEntry> {
    GANS.iter().find(|gan| gan.name == name.to_lowercase())
}

/// Both networks of a GAN; its images have a size of their own.
fn show_gan(entry: &GanEntry, channels: usize, layers: bool, format: Format) {
    let GanTraces { generator, discriminator } = entry.traces(channels);
    let parts = [("generator", &generator), ("discriminator", &discriminator)];
    if format == Format::Json {
        let mut object = json!({
            "name": entry.name, "aliases": [], "family": "GAN", "paper": entry.paper, "reference": entry.reference,
            "image_size": entry.image_size, "input": shape(generator.input),
            "params": generator.params() + discriminator.params(), "macs": generator.macs() + discriminator.macs(),
            "activations": generator.activations() + discriminator.activations(), "stages": [], "pretrained": [],
        });
        for (part, trace) in parts {
            object[part] = json!({ "input": shape(trace.input), "params": trace.params(), "macs": trace.macs(),
                                   "activations": trace.activations() });
            if layers {
                object[part]["layers"] = trace.layers.iter().map(layer_json).collect();
            }
        }
        out!("{object}");
        return;
    }
    out!("{} (GAN)", entry.name);
    let mut table = Table::new(&["<", "<"]);
    table.row(["about", entry.about]);
    table.row(["paper", entry.paper]);
    table.row(["reference", entry.reference]);
    for (part, trace) in &parts {
        table.row([*part, &format!("{} parameters, {} multiply-adds", trace.params(), trace.macs())]);
    }
    output::text_of_product(&table.to_string());
    if layers {
        for (part, trace) in parts {
            out!("\n{part}");
            print_layers(trace);
        }
    }
}

fn shape(map: FeatureMap) -> [usize; 3] {
    [map.channels, map.height, map.width]
}

/// Every other name of a network, with the library's where the bare one means another's.
fn aliases(entry: &'static ModelEntry) -> Vec<String> {
    entry.names.iter().skip(1).map(|&name| Model { entry, name }.key()).collect()
}

fn weights(entry: &'static ModelEntry) -> Vec<Value> {
    let of = |known: &Pretrained| {
        json!({ "model": known.model, "file": known.file, "sha256": known.sha256, "data": known.data,
                "classes": known.classes, "licence": known.licence, "origin": known.origin,
                "input_size": known.input_size, "resize": known.resize, "interpolation": known.interpolation.to_string(),
                "mean": known.mean, "std": known.std })
    };
    pretrained_for(entry).map(of).collect()
}

fn as_json(model: &Model, trace: &Trace, layers: bool) -> Value {
    let FeatureMap { channels, height, width } = trace.input;
    let stages: Vec<_> = trace
        .stages
        .iter()
        .map(|stage| {
            let map = stage.value.map;
            json!({ "name": stage.name, "reduction": reduction(trace, map), "channels": map.channels,
                    "height": map.height, "width": map.width })
        })
        .collect();
    let mut object = json!({
        "name": model.entry.name(), "asked": model.key(), "aliases": aliases(model.entry),
        "family": model.entry.family, "paper": model.entry.paper, "reference": model.reference(),
        "native_size": model.entry.native_size, "input": [channels, height, width], "params": trace.params(),
        "macs": trace.macs(), "activations": trace.activations(), "stages": stages,
        "pretrained": weights(model.entry),
    });
    if layers {
        object["layers"] = trace.layers.iter().map(layer_json).collect();
    }
    object
}

fn layer_json(layer: &LayerTrace) -> Value {
    let map = layer.output;
    json!({ "name": layer.name, "kind": layer.op.to_string(), "output": [map.channels, map.height, map.width],
            "params": layer.params, "macs": layer.macs, "activations": layer.activations })
}

/// By how much a map is smaller than the images.
fn reduction(trace: &Trace, map: FeatureMap) -> usize {
    (trace.input.height as f64 / map.height as f64).round() as usize
}

fn show(model: &Model, trace: &Trace, layers: bool) {
    let entry = model.entry;
    out!("{} ({})", entry.name(), entry.family);
    let others: Vec<String> = entry.names.iter().map(|&name| Model { entry, name }.key()).collect();
    let of_stage =
        |map: FeatureMap| format!("{}x{}x{} (/{})", map.channels, map.height, map.width, reduction(trace, map));
    let stages: Vec<String> = trace.stages.iter().map(|stage| of_stage(stage.value.map)).collect();
    let mut table = Table::new(&["<", "<"]);
    let mut row = |what: &str, text: String| table.row([what.to_string(), text]);
    row("about", entry.about.to_string());
    row("paper", entry.paper.to_string());
    row("details of", model.reference());
    row("names", others.join(", "));
    row("input", format!("{} x {} x {}", trace.input.channels, trace.input.height, trace.input.width));
    row("parameters", trace.params().to_string());
    row("multiply-adds", trace.macs().to_string());
    row("activations", trace.activations().to_string());
    row("feature maps", stages.join(", "));
    for known in pretrained_for(entry) {
        let Pretrained { file, model, data, classes, input_size, licence, .. } = known;
        row("pretrained", format!("{file} for {model}: {data}, {classes} classes, {input_size} pixels, {licence}"));
    }
    output::text_of_product(&table.to_string());
    if layers {
        out!();
        print_layers(trace);
    }
}

fn print_layers(trace: &Trace) {
    let mut table = Table::new(&["<layer", "<kind", "output", "params", "macs"]);
    for layer in &trace.layers {
        let map = format!("{}x{}x{}", layer.output.channels, layer.output.height, layer.output.width);
        let (params, macs) = (layer.params.to_string(), layer.macs.to_string());
        table.row([layer.name.clone(), layer.op.to_string(), map, params, macs]);
    }
    output::text_of_product(&table.to_string());
}
