//! The resolved configuration of a run: `config.toml`, and what `--config` takes back.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use burn::module::Module;
use burn::tensor::Device;
use kindling_data::{
    Augment, Dataset, MaxBad, Normalisation, OnBadSample, PREFETCH_BYTES, Preprocess, Sampling, Task, below, within,
};
use kindling_files as files;
use kindling_layers::Freeze;
use kindling_runs::RunDir;
use kindling_trainer::{TrainConfig, samples_at_once};
use kindling_zoo::weights::{self, Adapt, Import};
use kindling_zoo::{Model, ModelOptions, Network, find};
use serde::{Deserialize, Serialize};

use crate::dataset::HowToOpen;
use crate::memory::MemoryBudget;
use crate::pretrained;

/// The most threads that load images.
pub(crate) const MOST_WORKERS: usize = 1024;

/// Everything a run was asked to do. With the same data, code and device it gives the same run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunConfig {
    /// As given with `--device`.
    pub(crate) device: String,
    /// Loader threads, at most 1024; 0 is one. Without influence on the result.
    pub(crate) workers: usize,
    /// The most bytes of batches made ahead; without influence on the result.
    #[serde(default = "prefetch_bytes")]
    pub(crate) prefetch_bytes: u64,
    /// The most memory to use; without influence on the result.
    #[serde(default, with = "as_optional_text", skip_serializing_if = "Option::is_none")]
    pub(crate) memory_budget: Option<MemoryBudget>,
    pub(crate) model: ModelConfig,
    pub(crate) data: DataConfig,
    pub(crate) train: TrainConfig,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelConfig {
    /// A name of the zoo; it decides the details.
    pub(crate) name: String,
    /// Share of the classifier's input dropped while training; the paper's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drop_rate: Option<f64>,
    /// Share of samples whose last residual branch is left out while training; the paper's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) drop_path_rate: Option<f64>,
    /// What the run starts from; initial weights of the seed if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<StartingPoint>,
    /// What does not train.
    #[serde(default, with = "as_text", skip_serializing_if = "is_default")]
    pub(crate) freeze: Freeze,
}

/// Weights that a run starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StartingPoint {
    /// The zoo's pretrained weights: the SHA-256 of the file.
    Pretrained(String),
    /// A file.
    File(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataConfig {
    /// A named data set or the path of a folder, a manifest or shards.
    pub(crate) source: String,
    /// How it was opened and split.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) opening: HowToOpen,
    pub(crate) classes: Vec<String>,
    /// Whether a sample may have several classes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) task: Task,
    pub(crate) augment: Augment,
    /// How the samples of an epoch are chosen.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) sampling: Sampling,
    /// What happens to a sample that cannot be read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) on_bad_sample: OnBadSample,
    /// How many may be skipped.
    #[serde(default, with = "as_text", skip_serializing_if = "is_default")]
    pub(crate) max_bad: MaxBad,
    pub(crate) preprocess: Preprocess,
}

impl RunConfig {
    /// Itself, if every number of it lies in its range.
    ///
    /// # Errors
    /// A sentence about the first that does not.
    pub(crate) fn checked(self) -> Result<Self> {
        self.data.preprocess.check().map_err(anyhow::Error::msg)?;
        within("number of loader threads", self.workers, 0..=MOST_WORKERS).map_err(anyhow::Error::msg)?;
        for (what, rate) in [("--drop-rate", self.model.drop_rate), ("--drop-path-rate", self.model.drop_path_rate)] {
            below(what, rate.unwrap_or(0.0), 0.0, 1.0).map_err(anyhow::Error::msg)?;
        }
        self.train.check(self.data.classes.len())?;
        self.zoo_model()?;
        Ok(self)
    }

    /// The configuration of a run.
    ///
    /// # Errors
    /// If it cannot be read, or a number of it lies out of its range.
    pub(crate) fn of(run: &RunDir) -> Result<Self> {
        let name = || run.config().display().to_string();
        refuse_gan(run)?;
        run.read_config::<Self>()?.checked().with_context(name)
    }

    /// The model, after a check that it takes the images.
    pub(crate) fn zoo_model(&self) -> Result<Model> {
        let model = find(&self.model.name)?;
        model.check_image_size(self.data.preprocess.size)?;
        Ok(model)
    }

    /// The network that the run starts from, and what was imported for it.
    pub(crate) fn initial_network(&self, device: &Device) -> Result<(Network, Option<Import>)> {
        let path = match &self.model.start {
            None => return Ok((self.network(device)?, None)),
            Some(StartingPoint::File(path)) => path.clone(),
            Some(StartingPoint::Pretrained(_)) => pretrained::find(&self.zoo_model()?)?.1,
        };
        let model = self.zoo_model()?;
        let network = model.build_to_fill(&self.model_options(), device)?;
        let (network, import) = weights::load(network, &model, &path, Adapt::StemAndHead)?;
        Ok((network.freeze(self.model.freeze), Some(import)))
    }

    /// The network with the initial weights of the seed.
    pub(crate) fn network(&self, device: &Device) -> Result<Network> {
        Ok(self.zoo_model()?.build(&self.model_options(), device)?.freeze(self.model.freeze))
    }

    /// What the network is built with.
    pub(crate) fn model_options(&self) -> ModelOptions {
        ModelOptions {
            in_channels: self.data.preprocess.channels,
            classes: self.data.classes.len(),
            drop_rate: self.model.drop_rate,
            drop_path_rate: self.model.drop_path_rate,
            seed: self.train.seed,
        }
    }

    /// The network with a run's best weights, or its last, without gradients.
    pub(crate) fn trained(&self, run: &RunDir, last: bool, device: &Device) -> Result<Network> {
        let path = if last { run.last_weights() } else { run.weights() };
        let model = self.zoo_model()?;
        let network = model.build_to_fill(&self.model_options(), device)?;
        let (network, _) = weights::load(network, &model, &path, Adapt::Exactly)?;
        Ok(network.valid())
    }

    /// Samples evaluated at once on a device, at first.
    pub(crate) fn inference_batch(&self, device: &Device) -> usize {
        let group = self.train.largest_group();
        samples_at_once(device, group, self.train.micro_batch.unwrap_or(group))
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

/// Fails for the run of two networks, whose configuration is another.
fn refuse_gan(run: &RunDir) -> Result<()> {
    // What cannot be read here is told by whoever reads it for good.
    let text = files::read_to_string(&run.config(), files::MAX_TEXT_BYTES).unwrap_or_default();
    if text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("gan")) {
        let run = run.path().display();
        bail!(
            "{run} is the run of a GAN, not of a classifier; `kindling gan evaluate {run}` scores it, and `kindling gan \
             sample` and `kindling gan export` use it"
        );
    }
    Ok(())
}

/// How images of a data set become model input. Constants that are not known are measured on up to 64 training images.
pub(crate) fn preprocess(dataset: &Dataset, size: usize, on_bad: OnBadSample) -> Result<Preprocess> {
    let channels = dataset.channels;
    let plain = Preprocess::padded(size, channels, Normalisation::identity(channels));
    plain.check().map_err(anyhow::Error::msg)?;
    let normalisation = match &dataset.normalisation {
        Some(known) => known.clone(),
        None => measure(dataset, &plain, on_bad)?,
    };
    Ok(Preprocess { normalisation, ..plain })
}

/// Mean and deviation of up to 64 training images, prepared as they will be.
pub(crate) fn measure(dataset: &Dataset, fit: &Preprocess, on_bad: OnBadSample) -> Result<Normalisation> {
    Ok(Normalisation::measure_fitted(dataset.train.as_ref(), fit, 64, on_bad)?)
}

fn prefetch_bytes() -> u64 {
    PREFETCH_BYTES
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// As [`as_text`], for values that may be absent.
pub(crate) mod as_optional_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// Values that are written as they are given on the command line.
mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
