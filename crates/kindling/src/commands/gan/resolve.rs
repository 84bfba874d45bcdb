//! From flags and the data set to the resolved configuration, and what a resume may not change.

use anyhow::{Result, bail};
use kindling_data::Dataset;
use kindling_gan_training::{AdversarialConfig, DiffAugment};
use kindling_runs::RunDir;
use kindling_zoo::{GanEntry, find_gan};

use super::config::{GanConfig, GanData, GanRunConfig, Upsampling, preprocess};
use super::train::{Args, Switch};
use crate::commands::train::{changed, changed_option, default_workers};
use crate::dataset;
use crate::device::DeviceChoice;
use crate::memory::{Choice, limit_before_reading};

const MODEL: &str = "dcgan_64";
const DATA: &str = "fashion-mnist";
/// Below so many images a discriminator soon knows them by heart.
const FEW_IMAGES: usize = 10_000;
/// Strength of LeCam's regulariser on few images.
const LECAM: f64 = 0.1;
const FEATURES: usize = 64;
const COMPARED: usize = 500;

/// What suits a model where nothing is asked for.
struct Defaults {
    iterations: u64,
    batch_size: usize,
    ghost_batch_size: usize,
}

impl Defaults {
    fn of(entry: &GanEntry) -> Self {
        match entry.image_size {
            // The paper's batch, in two groups.
            ..=64 => Self { iterations: 2_000, batch_size: 64, ghost_batch_size: 32 },
            _ => Self { iterations: 10_000, batch_size: 8, ghost_batch_size: 8 },
        }
    }
}

impl Args {
    /// The configuration of a new run.
    pub(super) fn resolve(&self) -> Result<(GanRunConfig, Dataset)> {
        // Names and sizes first: a typing error should not wait for a data set to be opened.
        let entry = find_gan(self.model.as_deref().unwrap_or(MODEL)).map_err(anyhow::Error::msg)?;
        let size = entry.image_size;
        if let Some(asked) = self.image_size.filter(|asked| *asked != size) {
            bail!("{} makes images of {size}x{size} pixels, not of {asked}; leave --image-size out", entry.name);
        }
        let upsampling = self.upsampling.unwrap_or_default();
        if entry.name != MODEL && self.upsampling == Some(Upsampling::Transposed) {
            bail!("{} always resizes; --upsampling is for dcgan_64", entry.name);
        }
        let features = self.features.unwrap_or(FEATURES);
        if features == 0 || !features.is_multiple_of(4) || features > 256 {
            bail!("--features {features} is no width that there is: take a multiple of 4 up to 256");
        }
        let seed = self.seed.unwrap_or(0);
        let source = self.data.clone().unwrap_or(DATA.to_string());
        let device = self.device.unwrap_or(DeviceChoice::Auto);
        limit_before_reading(self.memory_budget, device)?;
        let dataset = dataset::open_unlabelled(&source, seed)?;
        let images = dataset.train.len();
        if images < 2 {
            bail!(
                "{} has {images} training image; a discriminator needs at least two to tell real from fake",
                dataset.name
            );
        }
        let preprocess = preprocess(&dataset, size, self.channels)?;
        let config = GanRunConfig {
            device: device.to_string(),
            workers: self.workers.unwrap_or_else(default_workers),
            memory_budget: self.memory_budget,
            compare: self.compare.map_or(COMPARED, |choice| choice.fixed().unwrap_or(COMPARED)),
            gan: GanConfig { name: entry.name.to_string(), features, upsampling },
            data: GanData { source, preprocess },
            train: self.train_config(entry, images, seed),
        };
        Ok((config.checked()?, dataset))
    }

    fn train_config(&self, entry: &GanEntry, images: usize, seed: u64) -> AdversarialConfig {
        let defaults = Defaults::of(entry);
        let iterations = self.iterations.unwrap_or(defaults.iterations);
        let few = images < FEW_IMAGES;
        let lr = self.lr.unwrap_or(2e-4);
        AdversarialConfig {
            iterations,
            batch_size: self.batch_size.unwrap_or(defaults.batch_size),
            rounds: self.discriminator_steps.unwrap_or(1),
            micro_batch: self.micro_batch.and_then(Choice::fixed),
            activation_checkpointing: self.activation_checkpointing.and_then(Choice::fixed),
            ghost_batch_size: self.ghost_batch_size.unwrap_or(defaults.ghost_batch_size),
            loss: self.loss.unwrap_or_default(),
            lr,
            lr_discriminator: self.lr_discriminator.unwrap_or(lr),
            cooldown: self.cooldown.unwrap_or(0.0),
            betas: [self.beta1.unwrap_or(0.5), self.beta2.unwrap_or(0.999)],
            ema: self.ema.unwrap_or(0.999),
            spectral_norm: self.spectral_norm.unwrap_or(Switch::On) == Switch::On,
            lecam: match self.lecam.unwrap_or(Choice::Auto) {
                Choice::Fixed(strength) => strength,
                Choice::Auto if few => LECAM,
                Choice::Auto => 0.0,
            },
            reconstruction: self.reconstruction.unwrap_or(1.0),
            precision: self.precision.unwrap_or_default(),
            diff_augment: match self.diff_augment.unwrap_or(Choice::Auto) {
                Choice::Fixed(augment) => augment,
                Choice::Auto if few => DiffAugment::ALL,
                Choice::Auto => DiffAugment::NONE,
            },
            clip_norm: self.clip_norm,
            seed,
            checkpoint_iterations: self.checkpoint_iterations.unwrap_or(200),
            sample_iterations: self.sample_iterations.unwrap_or((iterations / 20).clamp(1, 500)),
        }
    }

    /// A resumed run stays what it was: a flag that says otherwise is an error, not a silent change.
    pub(super) fn refuse_changes(&self, run: &RunDir, config: &GanRunConfig) -> Result<()> {
        let train = &config.train;
        let upsampling = |it: Upsampling| format!("{it:?}").to_lowercase();
        let switch = |on: bool| if on { "on" } else { "off" }.to_string();
        let changes = [
            changed("--model", self.model.clone(), config.gan.name.clone()),
            changed("--data", self.data.clone(), config.data.source.clone()),
            changed("--image-size", self.image_size, config.data.preprocess.size),
            changed("--channels", self.channels, config.data.preprocess.channels),
            changed("--features", self.features, config.gan.features),
            changed("--upsampling", self.upsampling.map(upsampling), upsampling(config.gan.upsampling)),
            changed("--iterations", self.iterations, train.iterations),
            changed("--batch-size", self.batch_size, train.batch_size),
            changed("--discriminator-steps", self.discriminator_steps, train.rounds),
            changed("--ghost-batch-size", self.ghost_batch_size, train.ghost_batch_size),
            changed("--loss", self.loss, train.loss),
            changed("--lr", self.lr, train.lr),
            changed("--lr-discriminator", self.lr_discriminator, train.lr_discriminator),
            changed("--cooldown", self.cooldown, train.cooldown),
            changed("--beta1", self.beta1, train.betas[0]),
            changed("--beta2", self.beta2, train.betas[1]),
            changed("--ema", self.ema, train.ema),
            changed(
                "--spectral-norm",
                self.spectral_norm.map(|it| switch(it == Switch::On)),
                switch(train.spectral_norm),
            ),
            changed("--lecam", self.lecam.and_then(Choice::fixed), train.lecam),
            changed("--reconstruction", self.reconstruction, train.reconstruction),
            changed("--precision", self.precision, train.precision),
            changed("--diff-augment", self.diff_augment.and_then(Choice::fixed), train.diff_augment),
            changed_option("--clip-norm", self.clip_norm, train.clip_norm),
            changed("--seed", self.seed, train.seed),
        ];
        match changes.into_iter().flatten().next() {
            None => Ok(()),
            Some(change) => bail!(
                "{} cannot be resumed as something else: {change}; start a new run in another folder",
                run.path().display()
            ),
        }
    }
}
