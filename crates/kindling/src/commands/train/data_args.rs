//! The flags about data: how images are prepared, augmented, chosen and loaded.

use std::path::Path;

use anyhow::{Context, Result, bail};
use kindling_data::{Augment, Dataset, Fit, MaxBad, Normalisation, OnBadSample, Policy, Preprocess, Sampling};
use kindling_memory::MemorySize;
use kindling_runs::read_toml;

use crate::config::{DataConfig, measure};

/// What `--normalise percentiles` stretches each image by.
const PERCENTILES: [f32; 2] = [0.01, 0.99];

/// Flags of `train` that are about data.
#[derive(clap::Args)]
pub(crate) struct DataArgs {
    /// none, light (flip, small shifts, turns and scales, brightness, contrast), medium, heavy, or a TOML file with a policy
    /// of one's own [default: the data set's]
    #[arg(long, value_name = "POLICY", help_heading = "What")]
    augment: Option<String>,
    /// What happens to the part of a rectangle that a square has no room for: pad keeps all of it, crop cuts the middle out
    /// [default: pad]
    #[arg(long, value_name = "pad|crop", help_heading = "What")]
    fit: Option<String>,
    /// Zero point and unit of pixel values: data (mean and deviation of the data set), imagenet, percentiles (as data, after each
    /// image is stretched from its 1st to its 99th percentile), or none; stored with the run [default: data, or the pretrained weights' own]
    #[arg(long, value_name = "HOW", help_heading = "What")]
    normalise: Option<String>,
    /// How the samples of an epoch are chosen: even (each once), balanced (classes equally often), weights (as the data set
    /// says), the latter two with replacement [default: even]
    #[arg(long, value_name = "HOW", help_heading = "Training")]
    sampling: Option<Sampling>,
    /// What happens to a sample that cannot be read: fail, or skip (another one takes its place, and bad-samples.jsonl of the
    /// run lists it) [default: fail]
    #[arg(long, value_name = "fail|skip", help_heading = "How")]
    on_bad_sample: Option<OnBadSample>,
    /// How many samples of a split may be skipped before the run stops: a share, 0 to 100%, or a number, 0 or more
    /// [default: 1%]
    #[arg(long, value_name = "SHARE|N", help_heading = "How")]
    max_bad: Option<MaxBad>,
    /// The most memory of batches that are made ahead, on the host; one is always made ahead; without influence on the result
    /// [default: 256MiB]
    #[arg(long, value_name = "SIZE", help_heading = "How")]
    prefetch_bytes: Option<MemorySize>,
}

impl DataArgs {
    /// The policy asked for: a name, or a file.
    pub(super) fn augment(&self) -> Result<Option<Augment>> {
        self.augment.as_deref().map(augment).transpose()
    }

    /// Puts what was asked for into a new run's preprocessing.
    pub(super) fn prepare(&self, preprocess: &mut Preprocess, dataset: &Dataset) -> Result<()> {
        match self.fit.as_deref() {
            None => {}
            Some("pad") => preprocess.fit = Fit::Pad,
            Some("crop") => preprocess.fit = Fit::Crop(preprocess.size),
            Some(other) => bail!("--fit takes pad or crop, not `{other}`"),
        }
        preprocess.normalisation = match self.normalise.as_deref() {
            None => return Ok(()),
            Some("none") => Normalisation::identity(dataset.channels),
            Some("imagenet") => Normalisation::imagenet(dataset.channels),
            Some("data") => measure(dataset, preprocess, self.on_bad_sample.unwrap_or_default())?,
            Some("percentiles") => {
                preprocess.percentiles = Some(PERCENTILES);
                measure(dataset, preprocess, self.on_bad_sample.unwrap_or_default())?
            }
            Some(other) => bail!("--normalise takes data, imagenet, percentiles or none, not `{other}`"),
        };
        Ok(())
    }

    pub(super) fn sampling(&self) -> Option<Sampling> {
        self.sampling
    }

    pub(super) fn on_bad_sample(&self) -> Option<OnBadSample> {
        self.on_bad_sample
    }

    pub(super) fn max_bad(&self) -> Option<MaxBad> {
        self.max_bad
    }

    pub(super) fn prefetch_bytes(&self) -> Option<u64> {
        self.prefetch_bytes.map(|size| size.0)
    }

    /// What a resumed run may not change, as a sentence about the first of it.
    pub(super) fn refused_change(&self, data: &DataConfig) -> Result<Option<String>> {
        let sampling = self.sampling.filter(|given| *given != data.sampling);
        Ok(match (self.augment()?, sampling) {
            (Some(given), _) if given != data.augment => {
                Some(format!("--augment is {given}, the run has {}", data.augment))
            }
            (_, Some(given)) => Some(format!("--sampling is {given}, the run has {}", data.sampling)),
            _ if self.fit.is_some() => Some("--fit is fixed by the run".to_string()),
            _ if self.normalise.is_some() => Some("--normalise is fixed by the run".to_string()),
            _ => None,
        })
    }
}

/// A policy by its name, or from a file.
pub(crate) fn augment(text: &str) -> Result<Augment> {
    if let Ok(named) = text.parse() {
        return Ok(named);
    }
    let path = Path::new(text);
    if !path.is_file() {
        bail!("there is no augmentation `{text}` and no such file; choose none, light, medium, heavy, or a TOML file");
    }
    let policy: Policy = read_toml(path)?;
    Augment::custom(policy).with_context(|| text.to_string())
}
