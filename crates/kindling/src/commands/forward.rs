//! `kindling forward`: tensors in, logits out. It is how anyone checks a port.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use burn::tensor::{Tensor, TensorData};
use kindling_files as files;
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::tensors::{self, Tensors};
use kindling_layers::{Classifier, Segmenter, host};
use kindling_zoo::ModelOptions;

use crate::Done;
use crate::config::DEFAULT_MODEL;
use crate::device::DeviceChoice;
use crate::filled;
use crate::model::AnyModel;
use crate::pretrained;
use crate::ranges;
use crate::targets::refuse_files_of_runs;

/// Run a model on a tensor, to compare it with another implementation
///
/// The input file holds a tensor `input` [n, channels, height, width], prepared as the model expects; the output file
/// will hold `logits` [n, classes], of networks for segmentation [n, classes, height, width]. Channels come from the input, classes from the weights.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model of the zoo, whose name decides the details; `timm.NAME` and `torchvision.NAME` say which library's
    #[arg(long, value_name = "NAME", default_value = DEFAULT_MODEL)]
    model: String,
    /// safetensors or PyTorch file, with torchvision's, timm's, segmentation_models_pytorch's or Kindling's keys, or a run, for its best [default: initial
    /// weights of --seed]
    #[arg(long, value_name = "FILE|RUN", conflicts_with = "pretrained")]
    weights: Option<PathBuf>,
    /// Use the pretrained weights that scripts/fetch-weights.sh brings
    #[arg(long)]
    pretrained: bool,
    /// safetensors file with a tensor `input`
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// safetensors file to write, with a tensor `logits` (and `features.N` with --features)
    #[arg(long, alias = "output", value_name = "FILE")]
    out: PathBuf,
    /// Batch statistics instead of running ones, as in a training step; without dropout and drop-path
    #[arg(long)]
    train_mode: bool,
    /// Also write the feature map of each stage
    #[arg(long, conflicts_with = "train_mode")]
    features: bool,
    /// Seed of the initial weights, 0 to 9223372036854775807, where no file gives any
    #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
    seed: u64,
    /// auto, cpu, cuda[:N] or wgpu
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        refuse_files_of_runs(&self.out)?;
        let model = AnyModel::find(&self.model)?;
        let weights = match (&self.weights, self.pretrained, &model) {
            (Some(path), ..) => Some(pretrained::file_of(path)?),
            (None, true, AnyModel::Classifier(model)) => Some(pretrained::find(model)?.1),
            (None, true, AnyModel::Segmentation(model)) => {
                bail!("--pretrained is for classifiers: of {} only the encoder is known", model.key())
            }
            (None, false, _) => None,
        };
        let input = self.read_input()?;
        let [batch, in_channels, height, width] = dims(&input)?;
        for side in [height, width] {
            model.check_image_size(side)?;
        }
        let device = self.device.open()?.device;
        let rate = Some(0.0);
        let options = ModelOptions {
            in_channels,
            drop_rate: rate,
            drop_path_rate: rate,
            seed: self.seed,
            ..ModelOptions::imagenet()
        };
        let x = Tensor::<4>::from_data(input, &device);
        let outputs = match &model {
            AnyModel::Classifier(model) => {
                let network = match &weights {
                    Some(path) => filled::classifier(model, &options, path, &device)?,
                    None => model.build(&options, &device)?,
                };
                let mut outputs = self.logits(batch, || network.forward(x.clone()))?;
                if self.features {
                    for (index, map) in network.forward_features(x).into_iter().enumerate() {
                        outputs.insert(format!("features.{index}"), to_host(map)?);
                    }
                }
                outputs
            }
            AnyModel::Segmentation(model) if self.features => {
                bail!("--features is for classifiers: ask it of {}, the encoder", model.classifier().key())
            }
            AnyModel::Segmentation(model) => {
                let network = match &weights {
                    Some(path) => filled::segmenter(model, &options, path, &device)?,
                    None => model.build(&options, &device)?,
                };
                self.logits(batch, || network.forward(x))?
            }
        };
        let bytes = tensors::to_bytes(&outputs, None).map_err(anyhow::Error::msg)?;
        std::fs::write(&self.out, bytes).with_context(|| format!("writing {}", self.out.display()))?;
        Ok(Done::Complete)
    }

    /// What `forward` computes, with batch statistics if they are asked for.
    fn logits<const D: usize>(&self, batch: usize, forward: impl FnOnce() -> Tensor<D>) -> Result<Tensors> {
        let logits = match self.train_mode {
            true => training(TrainingPass::whole_batch(batch), forward).0,
            false => forward(),
        };
        Ok(Tensors::from([("logits".to_string(), to_host(logits)?)]))
    }

    fn read_input(&self) -> Result<TensorData> {
        let bytes = files::read(&self.input, files::MAX_WEIGHTS_BYTES)
            .with_context(|| format!("reading {}", self.input.display()))?;
        let mut tensors = match tensors::from_bytes(&bytes) {
            Ok(tensors) => tensors,
            Err(reason) => bail!("{} is not a safetensors file: {reason}", self.input.display()),
        };
        match tensors.remove("input") {
            Some(input) => Ok(input.convert::<f32>()),
            None => bail!("{} holds no tensor `input`", self.input.display()),
        }
    }
}

fn dims(input: &TensorData) -> Result<[usize; 4]> {
    match *input.shape().as_slice() {
        [batch, channels, height, width] if batch > 0 => Ok([batch, channels, height, width]),
        ref other => {
            bail!("`input` has the shape {other:?}; it takes [n, channels, height, width] with n of 1 or more")
        }
    }
}

fn to_host<const D: usize>(tensor: Tensor<D>) -> Result<TensorData> {
    host::read(tensor).map_err(|error| anyhow::anyhow!("reading the result from the device: {error}"))
}
