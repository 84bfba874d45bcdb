//! Finds models by name.

use burn::tensor::Device;
use kindling_classification::{ModelEntry, ModelName, Network, NetworkConfig};
use kindling_layers::init;
use kindling_layers::names::{KeyStyle, Names};
use kindling_layers::trace::Trace;

use crate::catalogue::MODELS;
use crate::error::ZooError;
use crate::gans::GANS;
use crate::heads::HEAD;
use crate::limits::{MAX_CHANNELS, MAX_CLASSES, MAX_IMAGE_SIZE};

/// A network under one of its names.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// The network.
    pub entry: &'static ModelEntry,
    /// The name under which it was requested.
    pub name: ModelName,
}

/// Every network, in the order it is listed.
pub fn models() -> impl Iterator<Item = &'static ModelEntry> {
    MODELS.iter().copied().flatten()
}

/// Finds the model of a name, in upper or lower case. If two libraries share a name, it means the first one in [`ModelEntry::names`];
/// `timm.efficientnet_b5` and `torchvision.efficientnet_b5` are unambiguous.
///
/// # Errors
/// [`ZooError::UnknownModel`] with the most similar names, or [`ZooError::Generator`] for the name of a GAN.
pub fn find(name: &str) -> Result<Model, ZooError> {
    let asked = name.to_lowercase();
    let (library, plain) = match asked.split_once('.') {
        Some((library, plain)) => (Some(library), plain),
        None => (None, asked.as_str()),
    };
    let fits = |known: &&ModelName| known.name == plain && library.is_none_or(|it| it == known.library.to_string());
    models().find_map(|entry| entry.names.iter().find(fits).map(|&name| Model { entry, name })).ok_or_else(
        || match GANS.iter().find(|gan| gan.name == asked) {
            Some(gan) => ZooError::Generator(gan.name),
            None => ZooError::UnknownModel { name: name.to_string(), near: nearest(plain) },
        },
    )
}

/// Up to three names that are similar to `asked`, most similar first, and at most one for each network.
pub(crate) fn nearest(asked: &str) -> Vec<String> {
    let plain = |name: &str| name.replace(['_', '-', '.'], "");
    let asked = plain(asked);
    let mut scored: Vec<(f64, &str)> = models()
        .filter_map(|entry| {
            let scores = entry.names.iter().map(|it| (strsim::jaro_winkler(&asked, &plain(it.name)), it.name));
            scores.max_by(|a, b| a.0.total_cmp(&b.0))
        })
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, name)| name.to_string()).collect()
}

/// Whether one of a network's names [`matches()`] a pattern, with or without the name of its library before it.
pub fn is_called(entry: &'static ModelEntry, pattern: &str) -> bool {
    let of = |&name: &ModelName| Model { entry, name };
    entry.names.iter().any(|name| matches(pattern, name.name) || matches(pattern, &of(name).reference()))
}

impl From<&'static ModelEntry> for Model {
    fn from(entry: &'static ModelEntry) -> Self {
        Self { entry, name: entry.names[0] }
    }
}

/// What a model of the zoo is built for: its images, its outputs and its drop rates, and what is built beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelOptions {
    /// Channels of the images, 1 to 1024: 1 for scans, 3 for colour.
    pub in_channels: usize,
    /// Outputs of the head, 1 to 100,000: one a class, and a single one where the answer is a number or lies between two grades.
    pub classes: usize,
    /// Share of the classifier's input dropped while training, in `[0, 1)`; the paper's if `None`.
    pub drop_rate: Option<f64>,
    /// Share of samples whose last residual branch is left out while training, in `[0, 1)`; the paper's if `None`.
    pub drop_path_rate: Option<f64>,
    /// Whether a network for segmentation has torchvision's auxiliary classifier, which only training runs. Classifiers have none.
    pub auxiliary: bool,
    /// Seed of the initial weights.
    pub seed: u64,
}

impl ModelOptions {
    /// The defaults of the reference implementations: 3 channels, 1000 classes.
    pub fn imagenet() -> Self {
        Self { in_channels: 3, classes: 1000, drop_rate: None, drop_path_rate: None, auxiliary: false, seed: 0 }
    }

    /// Checks channels and classes of a classifier, which has at least two.
    ///
    /// # Errors
    /// [`ZooError::Classes`] or [`ZooError::Channels`].
    pub fn check(&self) -> Result<(), ZooError> {
        if self.classes < 2 {
            return Err(ZooError::Classes(self.classes));
        }
        self.check_outputs()
    }

    /// Checks channels and outputs, of which one is enough.
    fn check_outputs(&self) -> Result<(), ZooError> {
        if !(1..=MAX_CLASSES).contains(&self.classes) {
            return Err(ZooError::Classes(self.classes));
        }
        if !(1..=MAX_CHANNELS).contains(&self.in_channels) {
            return Err(ZooError::Channels(self.in_channels));
        }
        Ok(())
    }
}

impl Model {
    /// A name with which [`find`] returns this model: the plain name, or, if two libraries share it, the name with the library.
    pub fn key(&self) -> String {
        match find(self.name.name) {
            Ok(first) if first.name == self.name => self.name.name.to_string(),
            _ => self.reference(),
        }
    }

    /// The names of the network's layers in a library, if the library has the network.
    pub fn layer_names(&self, network: &Network, style: KeyStyle) -> Option<Names> {
        self.entry.layer_names.of(network, style)
    }

    /// The name with its library, as in `torchvision.mobilenet_v2`: the implementation that its numbers are compared with.
    pub fn reference(&self) -> String {
        format!("{}.{}", self.name.library, self.name.name)
    }

    /// Builds the network with initial weights from the seed, which are the same on every device.
    ///
    /// # Errors
    /// [`ZooError::Classes`], [`ZooError::Channels`] or [`ZooError::Rate`] if an option is out of range.
    pub fn build(&self, options: &ModelOptions, device: &Device) -> Result<Network, ZooError> {
        Ok(init::initialise(self.outline(options, device)?, options.seed))
    }

    /// Builds the network to be filled with the weights of a file. Only the head has initial weights, those of [`Model::build`], because
    /// the head of the file may have other classes. All other weights are zeros, which are not allocated before they are read.
    ///
    /// # Errors
    /// As [`Model::build`].
    pub fn build_to_fill(&self, options: &ModelOptions, device: &Device) -> Result<Network, ZooError> {
        Ok(init::initialise_only(self.outline(options, device)?, options.seed, |name| HEAD.contains(&name)))
    }

    /// The trace of the network for a square image, without allocating weights.
    ///
    /// # Errors
    /// As [`Model::build`].
    pub fn trace(&self, options: &ModelOptions, image_size: usize) -> Result<Trace, ZooError> {
        Ok(self.outline(options, &Device::flex())?.trace(options.in_channels, image_size))
    }

    /// The network with weights that are not allocated before they are read.
    fn outline(&self, options: &ModelOptions, device: &Device) -> Result<Network, ZooError> {
        options.check_outputs()?;
        let mut config = self.config();
        let choose = |what, place: &mut f64, choice: Option<f64>| match choice {
            Some(rate) if !(0.0..1.0).contains(&rate) => Err(ZooError::Rate { what, rate }),
            Some(rate) => {
                *place = rate;
                Ok(())
            }
            None => Ok(()),
        };
        choose("drop rate", &mut config.head.drop_rate, options.drop_rate)?;
        choose("drop path rate", &mut config.drop_path_rate, options.drop_path_rate)?;
        Ok(config.init(options.in_channels, options.classes, device))
    }

    fn config(&self) -> NetworkConfig {
        (self.entry.config)(self.name.library)
    }

    /// The smallest side of images: the total stride of the network.
    pub fn min_image_size(&self) -> usize {
        self.config().total_stride()
    }

    /// Checks that the network takes square images of this size.
    ///
    /// # Errors
    /// [`ZooError::ImageSize`].
    pub fn check_image_size(&self, size: usize) -> Result<(), ZooError> {
        let min = self.min_image_size();
        if (min..=MAX_IMAGE_SIZE).contains(&size) {
            return Ok(());
        }
        Err(ZooError::ImageSize { model: self.name.name, size, min, max: MAX_IMAGE_SIZE })
    }
}

/// Whether a name matches a pattern in which `*` stands for any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len()).filter(|at| tail.is_char_boundary(*at)).any(|at| matches(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_finds_its_model_and_its_library() {
        let mut seen = HashSet::new();
        for entry in models() {
            for &name in entry.names {
                let model = Model { entry, name };
                assert!(seen.insert(model.reference()), "{} stands twice", model.reference());
                for asked in [model.key(), model.reference(), model.reference().to_uppercase()] {
                    let found = find(&asked).expect("a listed name");
                    assert_eq!((found.entry.name(), found.name), (entry.name(), name), "{asked}");
                }
            }
        }
        assert!(seen.len() > 60, "{} names", seen.len());
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = find("mobilenetv3small").expect_err("no such name").to_string();
        assert!(error.contains("`mobilenetv3_small_100`") || error.contains("`mobilenet_v3_small`"), "{error}");
        let error = find("torchvision.efficientnet_lite0").expect_err("timm's").to_string();
        assert!(error.contains("efficientnet_lite0"), "{error}");
        let error = find("vgg").expect_err("no such name").to_string();
        assert!(error.contains("kindling models"), "{error}");
    }

    #[test]
    fn options_out_of_range_are_refused() {
        let build = |options: &ModelOptions| find("mobilenet_v2").expect("a name").build(options, &Device::flex());
        let options = ModelOptions::imagenet();
        let one = ModelOptions { classes: 1, ..options };
        assert!(matches!(one.check(), Err(ZooError::Classes(1))), "a classifier tells two classes apart");
        assert!(build(&one).is_ok(), "and a number is one output");
        assert!(matches!(build(&ModelOptions { classes: 0, ..options }), Err(ZooError::Classes(0))));
        assert!(matches!(build(&ModelOptions { in_channels: 0, ..options }), Err(ZooError::Channels(0))));
        let (most, beyond) = (usize::MAX, 1_000_000_000);
        assert!(matches!(build(&ModelOptions { classes: most, ..options }), Err(ZooError::Classes(_))));
        assert!(matches!(build(&ModelOptions { in_channels: beyond, ..options }), Err(ZooError::Channels(_))));
        for rate in [-0.1, 1.0, f64::NAN] {
            assert!(matches!(build(&ModelOptions { drop_rate: Some(rate), ..options }), Err(ZooError::Rate { .. })));
            assert!(matches!(
                build(&ModelOptions { drop_path_rate: Some(rate), ..options }),
                Err(ZooError::Rate { .. })
            ));
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        for pattern in ["*", "mobilenet*", "*v2", "mob*_v2", "mobilenet_v2"] {
            assert!(matches(pattern, "mobilenet_v2"), "{pattern}");
        }
        for pattern in ["", "mobilenet", "*v3", "resnet*"] {
            assert!(!matches(pattern, "mobilenet_v2"), "{pattern}");
        }
    }
}
