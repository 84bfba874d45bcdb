//! From flags and the data set to the resolved configuration, and what a resume may not change.

use anyhow::{Result, anyhow, bail};
use kindling_data::{Dataset, Opening, SplitRule};
use kindling_gan_training::DiffAugment;
use kindling_runs::RunDir;
use kindling_zoo::find_gan;

use super::defaults::{FEATURES, LECAM, MODEL, defaults_of, sample_iterations};
use super::settings::Settings;
use super::train::Args;
use crate::budget::limit_before_reading;
use crate::dataset::{self, path_of, rule_of};
use crate::device::DeviceChoice;
use crate::gan_config::{GanRunConfig, Upsampling, preprocess};
use crate::settings::{change, refused_change, set, table_of};

/// Below so many images a discriminator soon knows them by heart.
const FEW_IMAGES: usize = 10_000;
impl Args {
    /// The configuration of a new run: defaults, over them what the flags say, and what depends on other settings or on the data
    /// where nobody has said it.
    pub(super) fn resolve(&self) -> Result<(GanRunConfig, Dataset)> {
        // Names and sizes first: a typing error should not wait for a data set to be opened.
        let asked = &self.settings;
        let entry = find_gan(asked.model.as_deref().unwrap_or(MODEL)).map_err(anyhow::Error::msg)?;
        let size = entry.image_size;
        if let Some(asked) = asked.image_size.filter(|asked| *asked != size) {
            bail!("{} makes images of {size}x{size} pixels, not of {asked}; leave --image-size out", entry.name);
        }
        if entry.name != MODEL && asked.upsampling == Some(Upsampling::Transposed) {
            bail!("{} always resizes; --upsampling is for dcgan_64", entry.name);
        }
        let features = asked.features.unwrap_or(FEATURES);
        if features == 0 || !features.is_multiple_of(4) || features > 256 {
            bail!("--features {features} is no width that there is: take a multiple of 4 up to 256");
        }
        let mut given = table_of(asked)?;
        // What is found out is what holds where nothing is said.
        given.retain(|_, value| value.as_str() != Some("auto"));
        let is_said = |key: &str| given.contains_key(key);
        let (lecam_said, augment_said) = (is_said("train.lecam"), is_said("train.diff_augment"));
        let (lr_said, grids_said) = (is_said("train.lr_discriminator"), is_said("train.sample_iterations"));
        let mut table = table_of(&defaults_of(Some(entry)))?;
        given.into_iter().for_each(|(key, value)| set(&mut table, &key, value));
        let mut config: GanRunConfig =
            table.try_into().map_err(|error: toml::de::Error| anyhow!("{}", error.message()))?;
        limit_before_reading(config.memory_budget, DeviceChoice::configured(&config.device)?)?;
        let opened = dataset::open_unlabelled(&config.data.source, SplitRule::Keyed, Opening::new(config.train.seed))?;
        config.data.split_rule = rule_of(&opened, SplitRule::Keyed);
        let dataset = opened.dataset;
        let images = dataset.train.len();
        if images < 2 {
            bail!(
                "{} has {images} training image; a discriminator needs at least two to tell real from fake",
                dataset.name
            );
        }
        config.data.path = path_of(&config.data.source);
        config.data.preprocess = preprocess(&dataset, size, asked.channels)?;
        let train = &mut config.train;
        if !lr_said {
            train.lr_discriminator = train.lr;
        }
        if !grids_said {
            train.sample_iterations = sample_iterations(train.iterations);
        }
        let few = images < FEW_IMAGES;
        if !lecam_said && few {
            train.lecam = LECAM;
        }
        if !augment_said && few {
            train.diff_augment = DiffAugment::ALL;
        }
        Ok((config.checked()?, dataset))
    }

    /// The configuration of a run as its resume is asked to go on, and what that changes. A flag that would make it another run
    /// is an error, not a silent change.
    pub(super) fn resumed(&self, run: &RunDir, stored: &GanRunConfig) -> Result<(GanRunConfig, Vec<(String, String)>)> {
        let (settings, mut given) = (Settings::all(), table_of(&self.settings)?);
        // How many images are compared is no question of what fits: there is nothing to find out anew.
        given.retain(|key, value| key != "compare" || value.as_str() != Some("auto"));
        let data = self.settings.data.as_deref().and_then(path_of);
        if data.is_some() && data == stored.data.path {
            given.remove("data.source");
        }
        let mut table = table_of(stored)?;
        if let Some(change) = refused_change(&settings, &given, &table) {
            bail!(
                "{} cannot be resumed as something else: {change}; start a new run in another folder",
                run.path().display()
            );
        }
        let changed = change(&settings, &given, &mut table);
        let config: GanRunConfig = table.try_into().map_err(|error: toml::de::Error| anyhow!("{}", error.message()))?;
        Ok((config.checked()?, changed))
    }
}
