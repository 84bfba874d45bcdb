//! `kindling export`: weights for PyTorch, a graph for everyone else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use burn::tensor::Device;
use clap::ValueEnum;
use kindling_data::{Fit, Preprocess, Scale, Task};
use kindling_layers::names::KeyStyle;
use kindling_layers::parameters;
use kindling_layers::tensors::{self, Tensors};
use kindling_layers::trace::{FeatureMap, Trace};
use kindling_memory::MemorySize;
use kindling_runs::RunDir;
use kindling_zoo::weights;
use kindling_zoo::{Model, ModelOptions, Network, Pretrained, SegmentationModel, SegmentationNetwork};
use serde_json::json;

use crate::Done;
use crate::commands::ExportFormat;
use crate::config::RunConfig;
use crate::filled;
use crate::model::AnyModel;
use crate::output::note;
use crate::pretrained;
use crate::targets::refuse_files_of_runs;

/// Side of the images that the ONNX file of a network for segmentation takes where nothing says it.
const SEGMENTED_SIZE: usize = 512;

/// Write a model for other programs: safetensors under a reference library's keys, or ONNX
///
/// Give a run's folder, or --model with --weights or --pretrained.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run whose best weights are written
    #[arg(required_unless_present = "model", conflicts_with = "model")]
    run: Option<PathBuf>,
    /// Model of the zoo, instead of a run
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Its weights: a safetensors or PyTorch file, or a run, for its best
    #[arg(long, value_name = "FILE|RUN", requires = "model", conflicts_with = "pretrained")]
    weights: Option<PathBuf>,
    /// Its pretrained weights, from scripts/fetch-weights.sh
    #[arg(long, requires = "model")]
    pretrained: bool,
    /// Use the run's last weights instead of the best
    #[arg(long, conflicts_with = "model")]
    last: bool,
    /// What is written [default: what the file's ending says, otherwise safetensors]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// Whose keys a safetensors file has [default: those of the library the model's name is from]
    #[arg(long, value_enum)]
    keys: Option<Keys>,
    /// Side of the images an ONNX file takes, at most 8192 [default: the run's, or the model's own, of
    /// networks for segmentation 512]
    #[arg(long, value_name = "PIXELS")]
    image_size: Option<usize>,
    /// Channels of the images, 1 to 1024, where no run says it
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "run")]
    channels: usize,
    /// The file to write
    #[arg(long, alias = "output", value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Keys {
    Torchvision,
    Timm,
    /// `segmentation_models_pytorch`, for networks for segmentation
    Smp,
    Kindling,
}

/// What is written.
#[allow(clippy::large_enum_variant)] // one at a time
enum Source {
    Classifier(Known<Model, Network>),
    Segmentation(Known<SegmentationModel, SegmentationNetwork>),
}

/// A network and what has to be known to write it.
struct Known<M, N> {
    model: M,
    network: N,
    channels: usize,
    image_size: usize,
    /// What whoever uses the file has to know.
    notes: BTreeMap<String, String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        refuse_files_of_runs(&self.out)?;
        let format = ExportFormat::of(self.format, &self.out)?;
        // Nothing is computed here: the CPU device holds the tensors.
        let device = Device::flex();
        let source = match (&self.run, &self.model) {
            (Some(run), _) => {
                let run = RunDir::open(run)?;
                let config = RunConfig::of(&run)?;
                match config.is_segmentation() {
                    true => Source::Segmentation(self.segmentation_of_run(&run, &config, &device)?),
                    false => Source::Classifier(self.of_run(&run, &config, &device)?),
                }
            }
            (None, Some(name)) => match AnyModel::find(name)? {
                AnyModel::Classifier(model) => Source::Classifier(self.of_model(model, &device)?),
                AnyModel::Segmentation(model) => Source::Segmentation(self.segmentation_of_model(model, &device)?),
            },
            (None, None) => bail!("give a run's folder, or --model with --weights or --pretrained"),
        };
        let bytes = match (&source, format) {
            (Source::Classifier(source), ExportFormat::Safetensors) => self.safetensors(source)?,
            (Source::Classifier(source), ExportFormat::Onnx) => onnx(source)?,
            (Source::Segmentation(source), ExportFormat::Safetensors) => self.safetensors_of_segmentation(source)?,
            (Source::Segmentation(source), ExportFormat::Onnx) => onnx_of_segmentation(source)?,
        };
        self.write(bytes)
    }

    fn write(&self, bytes: Vec<u8>) -> Result<Done> {
        let size = MemorySize(bytes.len() as u64);
        std::fs::write(&self.out, bytes).with_context(|| format!("writing {}", self.out.display()))?;
        note!("{} ({size})", self.out.display());
        Ok(Done::Complete)
    }

    fn of_run(&self, run: &RunDir, config: &RunConfig, device: &Device) -> Result<Known<Model, Network>> {
        let model = config.zoo_model()?;
        let preprocess = &config.data.preprocess;
        let image_size = self.image_size.unwrap_or(preprocess.size);
        model.check_image_size(image_size)?;
        let network = config.trained(run, self.last, device)?;
        let network = match config.data.scale {
            Some(scale) => in_its_unit(network, scale),
            None => network,
        };
        let fed = Preprocess { size: image_size, ..preprocess.clone() };
        let notes = notes(&fed, &config.data.classes, config.data.task)?;
        Ok(Known { model, network, channels: preprocess.channels, image_size, notes })
    }

    fn of_model(&self, model: Model, device: &Device) -> Result<Known<Model, Network>> {
        let image_size = self.image_size.unwrap_or(model.entry.native_size);
        model.check_image_size(image_size)?;
        let path = match (&self.weights, self.pretrained) {
            (Some(path), _) => pretrained::file_of(path)?,
            (None, true) => pretrained::find(&model)?.1,
            (None, false) => bail!("--model needs --weights or --pretrained: what should be written?"),
        };
        let network = filled::classifier(&model, &self.options(), &path, device)?;
        let fed = |known: &Pretrained| (image_size, self.channels) == (known.input_size, 3);
        let notes = match model.pretrained().filter(|known| self.pretrained && fed(known)) {
            Some(known) => notes(&pretrained::preprocess(known), &known.class_names(), Task::MultiClass)?,
            None => BTreeMap::new(),
        };
        Ok(Known { model, network, channels: self.channels, image_size, notes })
    }

    fn segmentation_of_run(
        &self,
        run: &RunDir,
        config: &RunConfig,
        device: &Device,
    ) -> Result<Known<SegmentationModel, SegmentationNetwork>> {
        let (model, network) = (config.segmentation_model()?, config.trained_segmenter(run, self.last, device)?);
        let image_size = self.image_size.unwrap_or(config.data.preprocess.size);
        model.check_image_size(image_size)?;
        let preprocess = Preprocess { size: image_size, ..config.data.preprocess.clone() };
        let notes = notes(&preprocess, &config.data.classes, config.data.task)?;
        Ok(Known { model, network, channels: preprocess.channels, image_size, notes })
    }

    fn segmentation_of_model(
        &self,
        model: SegmentationModel,
        device: &Device,
    ) -> Result<Known<SegmentationModel, SegmentationNetwork>> {
        let Some(path) = &self.weights else {
            bail!("--model {} needs --weights: what is pretrained is its encoder alone", model.key());
        };
        let image_size = self.image_size.unwrap_or(SEGMENTED_SIZE);
        model.check_image_size(image_size)?;
        let network = filled::segmenter(&model, &self.options(), &pretrained::file_of(path)?, device)?;
        Ok(Known { model, network, channels: self.channels, image_size, notes: BTreeMap::new() })
    }

    fn options(&self) -> ModelOptions {
        ModelOptions { in_channels: self.channels, ..ModelOptions::imagenet() }
    }

    fn safetensors_of_segmentation(&self, source: &Known<SegmentationModel, SegmentationNetwork>) -> Result<Vec<u8>> {
        let Known { model, network, .. } = source;
        let library = model.layer_names(network.has_auxiliary());
        let asked = match self.keys {
            None => library.as_ref().map(|(style, _)| *style),
            Some(Keys::Kindling) => None,
            Some(Keys::Torchvision) => Some(KeyStyle::Torchvision),
            Some(Keys::Timm) => Some(KeyStyle::Timm),
            Some(Keys::Smp) => Some(KeyStyle::Smp),
        };
        let tensors = match (asked, library) {
            (None, _) => parameters::read(network).map_err(anyhow::Error::msg)?,
            (Some(asked), Some((style, names))) if asked == style => weights::export_named(network, &names)?,
            (Some(asked), None) => bail!("{asked} does not have {}: write it with --keys kindling", model.key()),
            (Some(_), Some((style, _))) => {
                bail!(
                    "{} is a network of {style}: write it with its keys, the default, or with --keys kindling",
                    model.key()
                )
            }
        };
        let note = json!({ "version": env!("CARGO_PKG_VERSION"), "model": model.key() });
        tensors::to_bytes(&tensors, Some(&note.to_string())).map_err(anyhow::Error::msg)
    }

    fn safetensors(&self, source: &Known<Model, Network>) -> Result<Vec<u8>> {
        let Known { model, network, .. } = source;
        let style = match self.keys {
            None => Some(model.name.library.keys()),
            Some(Keys::Torchvision) => Some(KeyStyle::Torchvision),
            Some(Keys::Timm) => Some(KeyStyle::Timm),
            Some(Keys::Smp) => Some(KeyStyle::Smp),
            Some(Keys::Kindling) => None,
        };
        let tensors = match style {
            Some(style) => weights::export(network, model, style)?,
            None => parameters::read(network).map_err(anyhow::Error::msg)?,
        };
        let note = json!({ "version": env!("CARGO_PKG_VERSION"), "model": model.key() });
        tensors::to_bytes(&tensors, Some(&note.to_string())).map_err(anyhow::Error::msg)
    }
}

/// The network with its number in the number's own unit: the scale that it was learnt in becomes part of its last layer.
fn in_its_unit(mut network: Network, scale: Scale) -> Network {
    let classifier = &mut network.head.classifier;
    classifier.weight = classifier.weight.clone().map(|weight| weight.mul_scalar(scale.std));
    classifier.bias = classifier.bias.clone().map(|bias| bias.mul_scalar(scale.std).add_scalar(scale.mean));
    network
}

fn onnx_of_segmentation(source: &Known<SegmentationModel, SegmentationNetwork>) -> Result<Vec<u8>> {
    let Known { model, network, channels, image_size, notes } = source;
    let network = network.clone().without_auxiliary();
    let trace = Trace::of(&network, FeatureMap::square(*channels, *image_size));
    let tensors = parameters::read(&network).map_err(anyhow::Error::msg)?;
    onnx_of(&trace, &tensors, &model.key(), *image_size, notes.clone())
}

fn onnx(source: &Known<Model, Network>) -> Result<Vec<u8>> {
    let Known { model, network, channels, image_size, notes } = source;
    let tensors = parameters::read(network).map_err(anyhow::Error::msg)?;
    onnx_of(&network.trace(*channels, *image_size), &tensors, &model.key(), *image_size, notes.clone())
}

fn onnx_of(
    trace: &Trace,
    tensors: &Tensors,
    name: &str,
    image_size: usize,
    notes: BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    let mut export = kindling_onnx::Export::classifier(name);
    export
        .metadata
        .extend([("model".to_string(), name.to_string()), ("image_size".to_string(), image_size.to_string())]);
    export.metadata.extend(notes);
    Ok(kindling_onnx::encode(trace, tensors, &export)?)
}

/// What whoever uses a network without Kindling has to know. docs/how-to/inference-and-export.md has the formulas.
fn notes(preprocess: &Preprocess, classes: &[String], task: Task) -> Result<BTreeMap<String, String>> {
    let Preprocess { size, channels, normalisation, fit, interpolation, percentiles } = preprocess;
    let (fit, side) = match fit {
        Fit::Pad => ("pad", *size),
        Fit::Crop(shorter) => ("crop", (*shorter).max(*size)),
    };
    let how = json!({
        "channels": channels, "size": size, "fit": fit, "side": side, "interpolation": interpolation,
        "percentiles": percentiles.map_or_else(|| json!("none"), |shares| json!(shares)),
        "mean": normalisation.mean, "std": normalisation.std,
    });
    let constants = |values: &[f32]| values.iter().map(f32::to_string).collect::<Vec<_>>().join(",");
    let task = serde_json::to_value(task)?;
    let notes = [
        ("preprocess", how.to_string()),
        ("class_names", json!(classes).to_string()),
        ("task", task.as_str().unwrap_or_default().to_string()),
        ("classes", classes.join(",")),
        ("mean", constants(&normalisation.mean)),
        ("std", constants(&normalisation.std)),
    ];
    Ok(notes.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}
