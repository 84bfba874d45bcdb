//! The resolved configuration of a GAN's run: `config.toml`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use burn::module::Module;
use burn::tensor::Device;
use clap::ValueEnum;
use kindling_data::{Dataset, Normalisation, Preprocess, SplitRule, within};
use kindling_files as files;
use kindling_gan_training::{AdversarialConfig, Adversaries};
use kindling_layers::{parameters, tensors};
use kindling_runs::RunDir;
use kindling_zoo::{GanDiscriminator, GanEntry, GanGenerator, GanOptions, find_gan};
use serde::{Deserialize, Serialize};

use crate::budget::MemoryBudget;
use crate::dataset::{self, is_shuffled, moved};
use crate::ranges::MOST_WORKERS;

/// The widest layer is 16 times as wide.
const MOST_FEATURES: usize = 1024;

/// Everything a run was asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GanRunConfig {
    /// As given with `--device`.
    pub(crate) device: String,
    /// Loader threads; without influence on the result.
    pub(crate) workers: usize,
    /// The most memory to use; without influence on the result.
    #[serde(default, with = "kindling_given::auto")]
    pub(crate) memory_budget: Option<MemoryBudget>,
    /// Images of either kind that are compared with each grid; 0 for none. Without influence on the result.
    pub(crate) compare: usize,
    pub(crate) gan: GanConfig,
    pub(crate) data: GanData,
    pub(crate) train: AdversarialConfig,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GanConfig {
    /// A name of the zoo.
    pub(crate) name: String,
    /// What every layer's width is a multiple of, 1 to 1024.
    pub(crate) features: usize,
    pub(crate) upsampling: Upsampling,
}

/// How a generator doubles its maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Upsampling {
    /// Transposed convolutions, as DCGAN's paper has it
    #[default]
    Transposed,
    /// Nearest neighbours, then a convolution
    Resize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GanData {
    /// A named data set or the path of an image folder, as it was typed.
    #[serde(deserialize_with = "dataset::read_name")]
    pub(crate) source: String,
    /// The same path from the root, so that the run goes on from any working folder; none of a named data set.
    #[serde(default, with = "kindling_given::none")]
    pub(crate) path: Option<PathBuf>,
    /// How a manifest or shards without splits are split; runs of earlier versions say nothing.
    #[serde(default, skip_serializing_if = "is_shuffled")]
    pub(crate) split_rule: SplitRule,
    pub(crate) preprocess: Preprocess,
}

impl GanData {
    /// As [`crate::config::DataConfig::place`].
    pub(crate) fn place(&self, run: &RunDir, now: Option<&Path>) -> Result<String> {
        moved(&self.source, self.path.as_deref(), run, now)
    }
}

impl GanRunConfig {
    /// The configuration of a run.
    pub(crate) fn of(run: &RunDir) -> Result<Self> {
        let text = files::read_to_string(&run.config(), files::MAX_TEXT_BYTES)
            .with_context(|| format!("reading {}", run.config().display()))?;
        if text.parse::<toml::Table>().is_ok_and(|table| !table.contains_key("gan")) {
            let run = run.path().display();
            bail!("{run} is the run of a classifier, not of a GAN; `kindling eval {run}` scores it");
        }
        run.read_config::<Self>()?.checked().with_context(|| run.config().display().to_string())
    }

    /// Itself, if every number of it lies in its range.
    ///
    /// # Errors
    /// A sentence about the first that does not.
    pub(crate) fn checked(self) -> Result<Self> {
        self.data.preprocess.check().map_err(anyhow::Error::msg)?;
        within("number of loader threads", self.workers, 0..=MOST_WORKERS).map_err(anyhow::Error::msg)?;
        within("width of the layers", self.gan.features, 1..=MOST_FEATURES).map_err(anyhow::Error::msg)?;
        self.train.check()?;
        Ok(self)
    }

    pub(crate) fn entry(&self) -> Result<&'static GanEntry> {
        find_gan(&self.gan.name).map_err(anyhow::Error::msg)
    }

    fn options(&self) -> GanOptions {
        let upsampling = match self.gan.upsampling {
            Upsampling::Transposed => kindling_zoo::Upsampling::Transposed,
            Upsampling::Resize => kindling_zoo::Upsampling::Resize,
        };
        let new = GanOptions::new(self.data.preprocess.channels, self.train.seed);
        GanOptions { features: self.gan.features, upsampling, ..new }
    }

    /// Both networks with the initial weights of the seed.
    pub(crate) fn networks(&self, device: &Device) -> Result<Adversaries<GanGenerator, GanDiscriminator>> {
        let (entry, options) = (self.entry()?, self.options());
        Ok(Adversaries {
            generator: entry.generator(&options, device),
            discriminator: entry.discriminator(&options, device),
        })
    }

    /// The averaged generator of a run, without gradients.
    pub(crate) fn trained(&self, run: &RunDir, device: &Device) -> Result<GanGenerator> {
        let path = run.weights();
        if !path.is_file() {
            bail!(
                "{} has no weights yet: they are written with its first checkpoint; \
                 `kindling gan train --resume` continues the run",
                run.path().display()
            );
        }
        let generator = self.entry()?.generator(&self.options(), device);
        Ok(filled(generator, &path)?.valid())
    }
}

/// A generator with the weights of a file.
fn filled(generator: GanGenerator, path: &Path) -> Result<GanGenerator> {
    let name = || path.display().to_string();
    let opened = files::open_within(path, files::MAX_WEIGHTS_BYTES);
    let (mut file, length) = opened.with_context(|| format!("reading {}", name()))?;
    let tensors = tensors::from_reader(&mut file, length).map_err(anyhow::Error::msg).with_context(name)?;
    parameters::write(generator, tensors).map_err(|mismatch| anyhow::anyhow!("{}: {mismatch}", name()))
}

/// Values in `[-1, 1]`, as generators make them.
pub(crate) fn preprocess(dataset: &Dataset, size: usize, channels: Option<usize>) -> Result<Preprocess> {
    let channels = channels.unwrap_or(dataset.channels);
    if channels != 1 && channels != 3 {
        bail!("images have 1 channel (grey) or 3 (RGB), not {channels}");
    }
    if channels > dataset.channels {
        bail!(
            "the images of {} are grey, and a generator with --channels {channels} makes RGB; leave --channels out",
            dataset.name
        );
    }
    let half = vec![0.5; channels];
    Ok(Preprocess::padded(size, channels, Normalisation { mean: half.clone(), std: half }))
}
