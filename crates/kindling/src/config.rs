//! The resolved configuration of a run: `config.toml`, and what `--config` takes back.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use burn::module::Module;
use burn::tensor::Device;
use kindling_data::{
    Augment, Dataset, MaxBad, Normalisation, OnBadSample, PREFETCH_BYTES, Preprocess, Sampling, Scale, Task, below,
    within,
};
use kindling_files as files;
use kindling_layers::Freeze;
use kindling_runs::RunDir;
use kindling_trainer::{TrainConfig, samples_at_once};
use kindling_zoo::weights::{self, Adapt, Import};
use kindling_zoo::{Model, ModelOptions, Network, SegmentationModel, SegmentationNetwork};
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::budget::MemoryBudget;
use crate::dataset::{self, HowToOpen, PHANTOMS, moved};
use crate::device::DeviceChoice;
use crate::model::AnyModel;
use crate::pretrained;
use crate::ranges::MOST_WORKERS;
use crate::settings::table_of;

/// The model that is meant where none is named.
pub(crate) const DEFAULT_MODEL: &str = "mobilenet_v3_small";

/// The side of images where nothing else is said, in pixels.
pub(crate) const IMAGE_SIZE: usize = 512;

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
    #[serde(default, with = "kindling_given::auto")]
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
    #[serde(default, with = "kindling_given::paper")]
    pub(crate) drop_rate: Option<f64>,
    /// Share of samples whose last residual branch is left out while training; the paper's if absent.
    #[serde(default, with = "kindling_given::paper")]
    pub(crate) drop_path_rate: Option<f64>,
    /// What the run starts from; initial weights of the seed if absent.
    #[serde(default, with = "kindling_given::none")]
    pub(crate) start: Option<StartingPoint>,
    /// Layers that are not trained.
    #[serde(default, with = "as_text")]
    pub(crate) freeze: Freeze,
}

/// Weights that a run starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StartingPoint {
    /// The zoo's pretrained weights: the SHA-256 of the file.
    Pretrained(String),
    /// The path of a weights file.
    File(PathBuf),
}

/// What a run does where nothing else is said, as a table: the first of its layers.
pub(crate) fn defaults() -> Table {
    // Numbers of ours have a form in TOML.
    table_of(&RunConfig::default()).unwrap_or_default()
}

/// How a run trains where nothing else is said.
pub(crate) fn usual() -> TrainConfig {
    TrainConfig::default()
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            device: DeviceChoice::Auto.to_string(),
            workers: default_workers(),
            prefetch_bytes: PREFETCH_BYTES,
            memory_budget: None,
            model: ModelConfig::default(),
            data: DataConfig::default(),
            train: usual(),
        }
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            name: DEFAULT_MODEL.to_string(),
            drop_rate: None,
            drop_path_rate: None,
            start: None,
            freeze: Freeze::None,
        }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            source: PHANTOMS.to_string(),
            path: None,
            opening: HowToOpen::default(),
            classes: Vec::new(),
            task: Task::default(),
            scale: None,
            augment: Augment::default(),
            sampling: Sampling::default(),
            on_bad_sample: OnBadSample::default(),
            max_bad: MaxBad::default(),
            subgroups: None,
            preprocess: Preprocess::padded(IMAGE_SIZE, 1, Normalisation::identity(1)),
        }
    }
}

/// The largest number of an image, as data sets have it.
const MOST_VALUE: f64 = 1e12;

/// Half the cores, between one and four: the CPU device wants the others. The help of every command asks, and the system reads several
/// files for an answer, so that it is asked once.
pub(crate) fn default_workers() -> usize {
    static WORKERS: LazyLock<usize> =
        LazyLock::new(|| (std::thread::available_parallelism().map_or(2, usize::from) / 2).clamp(1, 4));
    *WORKERS
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DataConfig {
    /// A named data set or the path of a folder, a manifest or shards, as it was typed.
    #[serde(deserialize_with = "dataset::read_name")]
    pub(crate) source: String,
    /// The same path from the root, so that the run goes on from any working folder; none of a named data set.
    #[serde(default, with = "kindling_given::none")]
    pub(crate) path: Option<PathBuf>,
    /// How it was opened and split.
    #[serde(default)]
    pub(crate) opening: HowToOpen,
    pub(crate) classes: Vec<String>,
    /// What is asked about a sample.
    #[serde(default)]
    pub(crate) task: Task,
    /// What the training samples' numbers are in, of a regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scale: Option<Scale>,
    pub(crate) augment: Augment,
    /// How the samples of an epoch are chosen.
    #[serde(default)]
    pub(crate) sampling: Sampling,
    /// What happens to a sample that cannot be read.
    #[serde(default)]
    pub(crate) on_bad_sample: OnBadSample,
    /// How many may be skipped.
    #[serde(default, with = "as_text")]
    pub(crate) max_bad: MaxBad,
    /// The manifest's column whose values are scored one by one at the end.
    #[serde(default, with = "kindling_given::none")]
    pub(crate) subgroups: Option<String>,
    pub(crate) preprocess: Preprocess,
}

impl DataConfig {
    /// Where the data of `run` is: its name, its place when the run was started, or `now` if it has moved since.
    ///
    /// # Errors
    /// If it is not there any more.
    pub(crate) fn place(&self, run: &RunDir, now: Option<&Path>) -> Result<String> {
        moved(&self.source, self.path.as_deref(), run, now)
    }
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
        match self.is_segmentation() {
            true => self.check_segmentation()?,
            false => {
                self.zoo_model()?;
            }
        }
        self.data.sampling.check(self.data.task, self.train.batch_size)?;
        if self.is_regression() {
            self.check_regression()?;
        }
        Ok(self)
    }

    /// Fails where something is asked for that is about classes, or a scale is none.
    fn check_regression(&self) -> Result<()> {
        let refused = [
            ("--label-smoothing", self.train.label_smoothing != 0.0),
            ("--class-weights", self.train.class_weights.is_some()),
            ("--sampling balanced", self.data.sampling == Sampling::Balanced),
        ];
        for (flag, is_asked) in refused {
            if is_asked {
                bail!("{flag} is about classes, and --task regression learns a number");
            }
        }
        let Scale { mean, std } = self.scale();
        within("mean of the training samples' numbers", mean, -MOST_VALUE..=MOST_VALUE).map_err(anyhow::Error::msg)?;
        within("deviation of the training samples' numbers", std, f64::MIN_POSITIVE..=MOST_VALUE)
            .map_err(anyhow::Error::msg)
    }

    /// Fails where something is asked for that is about classes of images.
    fn check_segmentation(&self) -> Result<()> {
        let model = self.segmentation_model()?;
        if self.model.drop_rate.is_some() && !model.decoder.drops() {
            bail!("--drop-rate is about a layer that {} has not", model.decoder.title());
        }
        let refused = [
            ("--freeze", self.model.freeze != Freeze::None, "none"),
            ("--sampling", !matches!(self.data.sampling, Sampling::Even | Sampling::Foreground), "even or foreground"),
        ];
        for (flag, is_asked, only) in refused {
            if is_asked {
                bail!("{flag} is about classifiers; with --task segmentation it can be {only}");
            }
        }
        Ok(())
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
    pub(crate) fn any_model(&self) -> Result<AnyModel> {
        let model = AnyModel::find(&self.model.name)?;
        model.check_image_size(self.data.preprocess.size)?;
        Ok(model)
    }

    /// The classifier, after a check that it takes the images.
    ///
    /// # Errors
    /// If the run is of a network for segmentation.
    pub(crate) fn zoo_model(&self) -> Result<Model> {
        match self.any_model()? {
            AnyModel::Classifier(model) => Ok(model),
            AnyModel::Segmentation(model) => bail!(
                "{} gives each pixel a class, and this is for classifiers; train, eval, predict, export, find-lr, plan, profile and \
                 bench take networks for segmentation, too",
                model.key()
            ),
        }
    }

    /// The network for segmentation, after a check that it takes the images.
    ///
    /// # Errors
    /// If the run is of a classifier.
    pub(crate) fn segmentation_model(&self) -> Result<SegmentationModel> {
        match self.any_model()? {
            AnyModel::Segmentation(model) => Ok(model),
            AnyModel::Classifier(model) => bail!(
                "{} is a classifier, and --task segmentation takes a network that gives each pixel a class: unet-{} has it as \
                 its encoder",
                model.key(),
                model.key()
            ),
        }
    }

    /// Whether each image has a number.
    pub(crate) fn is_regression(&self) -> bool {
        self.data.task == Task::Regression
    }

    /// What numbers are learnt in.
    pub(crate) fn scale(&self) -> Scale {
        self.data.scale.unwrap_or_default()
    }

    /// Whether each pixel has a class.
    pub(crate) fn is_segmentation(&self) -> bool {
        self.data.task == Task::Segmentation
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

    /// As [`RunConfig::initial_network`], of a network for segmentation: pretrained weights are those of its encoder.
    pub(crate) fn initial_segmenter(&self, device: &Device) -> Result<(SegmentationNetwork, Option<Import>)> {
        let model = self.segmentation_model()?;
        match &self.model.start {
            None => Ok((self.segmenter(device)?, None)),
            Some(StartingPoint::File(path)) => {
                let network = model.build_to_fill(&self.model_options(), device)?;
                let (network, import) = weights::load_segmentation(network, &model, path, Adapt::StemAndHead)?;
                Ok((network, Some(import)))
            }
            Some(StartingPoint::Pretrained(_)) => {
                let classifier = model.classifier();
                let path = pretrained::find(&classifier)?.1;
                let encoder = classifier.build_to_fill(&self.model_options(), device)?;
                let (encoder, import) = weights::load(encoder, &classifier, &path, Adapt::StemAndHead)?;
                let encoder = model.encoder(&self.model_options()).of_network(encoder);
                Ok((self.segmenter(device)?.with_encoder(encoder), Some(import.into_encoder())))
            }
        }
    }

    /// As [`RunConfig::network`], of a network for segmentation.
    pub(crate) fn segmenter(&self, device: &Device) -> Result<SegmentationNetwork> {
        Ok(self.segmentation_model()?.build(&self.model_options(), device)?)
    }

    /// What the network is built with.
    pub(crate) fn model_options(&self) -> ModelOptions {
        ModelOptions {
            in_channels: self.data.preprocess.channels,
            classes: self.data.task.outputs(self.data.classes.len()),
            drop_rate: self.model.drop_rate,
            drop_path_rate: self.model.drop_path_rate,
            auxiliary: self.train.segmentation.as_ref().is_some_and(|asked| asked.auxiliary_loss.is_some()),
            seed: self.train.seed,
        }
    }

    /// The network with a run's best weights, or its last, without gradients.
    pub(crate) fn trained(&self, run: &RunDir, last: bool, device: &Device) -> Result<Network> {
        let path = if last { run.last_weights() } else { run.weights() };
        let model = self.zoo_model()?;
        let network = model.build_to_fill(&self.model_options(), device)?;
        let (network, _) = weights::load(network, &model, &path, Adapt::Strict)?;
        Ok(network.valid())
    }

    /// As [`RunConfig::trained`], of a network for segmentation.
    pub(crate) fn trained_segmenter(&self, run: &RunDir, last: bool, device: &Device) -> Result<SegmentationNetwork> {
        let path = if last { run.last_weights() } else { run.weights() };
        let model = self.segmentation_model()?;
        let network = model.build_to_fill(&self.model_options(), device)?;
        let (network, _) = weights::load_segmentation(network, &model, &path, Adapt::Strict)?;
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
pub(crate) fn refuse_gan(run: &RunDir) -> Result<()> {
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
