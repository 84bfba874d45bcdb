//! The resolved configuration of a run: `config.toml`, and what `--config` takes back.

use anyhow::{Result, bail};
use burn::module::Module;
use burn::tensor::Device;
use kindling_data::{Augment, Dataset, Normalisation, Preprocess};
use kindling_runs::RunDir;
use kindling_trainer::TrainConfig;
use kindling_zoo::{ModelEntry, ModelOptions, Network, find, weights};
use serde::{Deserialize, Serialize};

/// Everything a run was asked to do. With the same data, code and device it gives the same run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunConfig {
    /// As given with `--device`.
    pub(crate) device: String,
    /// Loader threads; without influence on the result.
    pub(crate) workers: usize,
    pub(crate) model: ModelConfig,
    pub(crate) data: DataConfig,
    pub(crate) train: TrainConfig,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelConfig {
    pub(crate) name: String,
    /// Share of the classifier's input dropped while training; the paper's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drop_rate: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataConfig {
    /// A named data set or the path of an image folder.
    pub(crate) source: String,
    pub(crate) classes: Vec<String>,
    pub(crate) augment: Augment,
    pub(crate) preprocess: Preprocess,
}

impl RunConfig {
    /// The zoo's entry of the model, after a check that it takes the images.
    pub(crate) fn entry(&self) -> Result<&'static ModelEntry> {
        let entry = find(&self.model.name)?;
        entry.check_image_size(self.data.preprocess.size)?;
        Ok(entry)
    }

    /// The network with its initial weights.
    pub(crate) fn network(&self, device: &Device) -> Result<Network> {
        let options = ModelOptions {
            in_channels: self.data.preprocess.channels,
            classes: self.data.classes.len(),
            drop_rate: self.model.drop_rate,
            seed: self.train.seed,
        };
        Ok(self.entry()?.build(&options, device)?)
    }

    /// The network with a run's best weights, or its last, without gradients.
    pub(crate) fn trained(&self, run: &RunDir, last: bool, device: &Device) -> Result<Network> {
        let path = if last { run.last_weights() } else { run.weights() };
        Ok(weights::load(self.network(device)?, &self.model.name, &path)?.valid())
    }

    /// Fails if a data set does not have the classes this run learns.
    pub(crate) fn check_classes(&self, dataset: &Dataset) -> Result<()> {
        if self.data.classes == dataset.classes {
            return Ok(());
        }
        bail!(
            "the run knows the classes {}, but {} has {}",
            self.data.classes.join(", "),
            dataset.name,
            dataset.classes.join(", ")
        )
    }
}

/// How images of a data set become model input. Constants that are not known are measured on up to 64 training images.
pub(crate) fn preprocess(dataset: &Dataset, size: usize) -> Result<Preprocess> {
    let channels = dataset.channels;
    let normalisation = match &dataset.normalisation {
        Some(known) => known.clone(),
        None => Normalisation::measure(dataset.train.as_ref(), channels, size, 64)?,
    };
    Ok(Preprocess { size, channels, normalisation })
}
