//! The list of models.

use burn::tensor::Device;
use kindling_layers::init;
use kindling_mobilenet::{MobileNetConfig, mobilenet_v2, mobilenet_v3_small};

use crate::error::ZooError;
use crate::network::Network;

/// What the zoo knows about a model before it is built.
#[derive(Clone, Copy, Debug)]
pub struct ModelEntry {
    /// Its name: torchvision's where torchvision has the model, timm's otherwise.
    pub name: &'static str,
    /// The other library's names for the same network.
    pub aliases: &'static [&'static str],
    /// Its family.
    pub family: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// The implementation its numbers are compared with.
    pub reference: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// The smallest image side it takes: its total stride.
    pub min_image_size: usize,
    config: fn() -> MobileNetConfig,
}

/// The largest image side the zoo builds for; beyond it a single feature map passes four gigabytes.
const MAX_IMAGE_SIZE: usize = 8192;

/// Every model, in the order it is listed.
const MODELS: &[ModelEntry] = &[
    ModelEntry {
        name: "mobilenet_v2",
        aliases: &["mobilenetv2_100"],
        family: "MobileNet",
        paper: "Sandler et al. 2018, https://arxiv.org/abs/1801.04381",
        reference: "torchvision.mobilenet_v2",
        about: "inverted residuals, ReLU6; the standard light baseline",
        min_image_size: 32,
        config: || mobilenet_v2(1.0),
    },
    ModelEntry {
        name: "mobilenet_v3_small",
        aliases: &["mobilenetv3_small_100"],
        family: "MobileNet",
        paper: "Howard et al. 2019, https://arxiv.org/abs/1905.02244",
        reference: "torchvision.mobilenet_v3_small",
        about: "squeeze-excite, hard-swish; the lightest, and the default",
        min_image_size: 32,
        config: mobilenet_v3_small,
    },
];

/// Every model, in the order it is listed.
pub fn models() -> &'static [ModelEntry] {
    MODELS
}

/// The model of this name or alias.
///
/// # Errors
/// [`ZooError::UnknownModel`] with the nearest names.
pub fn find(name: &str) -> Result<&'static ModelEntry, ZooError> {
    let asked = name.to_lowercase();
    let known = |entry: &&ModelEntry| entry.name == asked || entry.aliases.contains(&asked.as_str());
    MODELS.iter().find(known).ok_or_else(|| ZooError::UnknownModel { name: name.to_string(), near: nearest(&asked) })
}

/// Up to three names that look like `asked`, nearest first.
fn nearest(asked: &str) -> Vec<String> {
    let plain = |name: &str| name.replace(['_', '-', '.'], "");
    let asked = plain(asked);
    let mut scored: Vec<(f64, &str)> = MODELS
        .iter()
        .map(|entry| {
            let names = std::iter::once(&entry.name).chain(entry.aliases);
            let score = names.map(|name| strsim::jaro_winkler(&asked, &plain(name))).fold(0.0, f64::max);
            (score, entry.name)
        })
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, name)| name.to_string()).collect()
}

/// What a user chooses about a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelOptions {
    /// Channels of the images: 1 for scans, 3 for colour.
    pub in_channels: usize,
    /// Classes of the head, at least 2.
    pub classes: usize,
    /// Share of the classifier's input dropped while training, in `[0, 1)`; the paper's if `None`.
    pub drop_rate: Option<f64>,
    /// Seed of the initial weights.
    pub seed: u64,
}

impl ModelEntry {
    /// Builds the network with initial weights from the seed, the same on every device.
    ///
    /// # Errors
    /// [`ZooError::Classes`] for fewer than two classes.
    pub fn build(&self, options: &ModelOptions, device: &Device) -> Result<Network, ZooError> {
        if options.classes < 2 {
            return Err(ZooError::Classes(options.classes));
        }
        let mut config = (self.config)();
        if let Some(rate) = options.drop_rate {
            config.drop_rate = rate;
        }
        let network = Network::MobileNet(config.init(options.in_channels, options.classes, device));
        Ok(init::initialise(network, options.seed))
    }

    /// Checks that the network can take square images of this size.
    ///
    /// # Errors
    /// [`ZooError::ImageSize`].
    pub fn check_image_size(&self, size: usize) -> Result<(), ZooError> {
        if (self.min_image_size..=MAX_IMAGE_SIZE).contains(&size) {
            return Ok(());
        }
        Err(ZooError::ImageSize { model: self.name, size, min: self.min_image_size, max: MAX_IMAGE_SIZE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_aliases_are_unique_and_found() {
        assert!(!MODELS.is_empty());
        let mut seen = HashSet::new();
        for entry in MODELS {
            for name in std::iter::once(&entry.name).chain(entry.aliases) {
                assert!(seen.insert(*name), "{name} stands twice");
                assert_eq!(find(name).expect("a listed name").name, entry.name);
            }
        }
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = find("mobilenetv3small").expect_err("no such name").to_string();
        assert!(error.contains("`mobilenet_v3_small`"), "{error}");
        let error = find("vgg").expect_err("no such name").to_string();
        assert!(error.contains("kindling models"), "{error}");
    }

    #[test]
    fn a_head_of_fewer_than_two_classes_is_refused() {
        let options = ModelOptions { in_channels: 1, classes: 1, drop_rate: None, seed: 0 };
        assert!(matches!(MODELS[0].build(&options, &Device::flex()), Err(ZooError::Classes(1))));
    }
}
