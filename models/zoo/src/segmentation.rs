//! Networks for segmentation by name: a decoder on a classifier of the zoo.

use burn::tensor::Device;
use kindling_classification::ModelName;
use kindling_layers::names::Names;
use kindling_layers::trace::{FeatureMap, Trace};
use kindling_layers::{init, parameters};
use kindling_segmentation::{ENCODERS, Encoder, Unet, UnetConfig, encoder};

use crate::error::ZooError;
use crate::heads::SEGMENTATION_HEAD;
use crate::limits::MAX_IMAGE_SIZE;
use crate::registry::{Model, ModelOptions, find, nearest};

/// What the name of a U-Net begins with; that of its encoder follows.
const UNET: &str = "unet-";

/// A network for segmentation under its name, as `unet-mobilenet_v2`.
#[derive(Clone, Copy, Debug)]
pub struct SegmentationModel {
    /// The encoder. Its decoder is that of U-Net.
    pub encoder: Encoder,
    /// The name of the classifier that is the encoder, if it is not one of `segmentation_models_pytorch`'s.
    classifier: Option<ModelName>,
}

/// The networks for segmentation that have a reference, in the order they are listed. Any classifier of the zoo is an encoder too
/// ([`find_segmentation`]).
pub fn segmentation_models() -> impl Iterator<Item = SegmentationModel> {
    ENCODERS.iter().map(|&encoder| SegmentationModel { encoder, classifier: None })
}

/// Finds a network by its name, in upper or lower case: `unet-` and an encoder of `segmentation_models_pytorch`, or a classifier of the
/// zoo. Of names that both have, the encoder's details are the former's.
///
/// # Errors
/// [`ZooError::UnknownModel`] with the most similar names.
pub fn find_segmentation(name: &str) -> Result<SegmentationModel, ZooError> {
    let asked = name.to_lowercase();
    let unknown = |near: Vec<String>| ZooError::UnknownModel {
        name: name.to_string(),
        near: near.into_iter().map(|near| format!("{UNET}{near}")).collect(),
    };
    let Some(of) = asked.strip_prefix(UNET) else { return Err(unknown(nearest(&asked))) };
    if let Some(&encoder) = encoder(of) {
        return Ok(SegmentationModel { encoder, classifier: None });
    }
    let model = find(of).map_err(|_| unknown(nearest(of)))?;
    let encoder = Encoder::of_classifier(model.entry, model.name.library);
    Ok(SegmentationModel { encoder, classifier: Some(model.name) })
}

/// Whether a name is one of a network for segmentation, as far as its beginning says.
pub fn is_segmentation(name: &str) -> bool {
    name.to_lowercase().starts_with(UNET)
}

impl SegmentationModel {
    /// The name with which [`find_segmentation`] returns this network.
    pub fn key(&self) -> String {
        match self.classifier {
            None => format!("{UNET}{}", self.encoder.name),
            Some(_) => format!("{UNET}{}", self.classifier().key()),
        }
    }

    /// The classifier that the encoder is, with the details that it has here.
    pub fn classifier(&self) -> Model {
        let (entry, library) = self.encoder.entry();
        let of_library = || entry.names.iter().find(|name| name.library == library).copied();
        Model { entry, name: self.classifier.or_else(of_library).unwrap_or(entry.names[0]) }
    }

    /// The names of the network's layers in `segmentation_models_pytorch`, if that has it.
    pub fn layer_names(&self) -> Option<Names> {
        self.classifier.is_none().then(|| UnetConfig::new(&self.encoder, 3, 2).names())
    }

    /// Builds the network with initial weights from the seed, which are the same on every device. What `options` say of dropping the
    /// classifier's input means nothing here.
    ///
    /// # Errors
    /// [`ZooError::Classes`], [`ZooError::Channels`] or [`ZooError::Rate`] if an option is out of range.
    pub fn build(&self, options: &ModelOptions, device: &Device) -> Result<Unet, ZooError> {
        Ok(init::initialise(self.outline(options, device)?, options.seed))
    }

    /// Builds the network to be filled with the weights of a file, of which only the head may be other than the file's.
    ///
    /// # Errors
    /// As [`SegmentationModel::build`].
    pub fn build_to_fill(&self, options: &ModelOptions, device: &Device) -> Result<Unet, ZooError> {
        let head = |name: &str| SEGMENTATION_HEAD.contains(&name);
        Ok(init::initialise_only(self.outline(options, device)?, options.seed, head))
    }

    /// The trace of the network for a square image, without allocating weights.
    ///
    /// # Errors
    /// As [`SegmentationModel::build`].
    pub fn trace(&self, options: &ModelOptions, image_size: usize) -> Result<Trace, ZooError> {
        let network = self.outline(options, &Device::flex())?;
        Ok(Trace::of(&network, FeatureMap::square(options.in_channels, image_size)))
    }

    /// The number of the network's parameters, those included that an encoder keeps and does not use, as other libraries do.
    ///
    /// # Errors
    /// As [`SegmentationModel::build`].
    pub fn parameters(&self, options: &ModelOptions) -> Result<u64, ZooError> {
        Ok(parameters::count(&self.outline(options, &Device::flex())?))
    }

    fn outline(&self, options: &ModelOptions, device: &Device) -> Result<Unet, ZooError> {
        options.check()?;
        if let Some(rate) = options.drop_path_rate.filter(|rate| !(0.0..1.0).contains(rate)) {
            return Err(ZooError::Rate { what: "drop path rate", rate });
        }
        let config = UnetConfig::new(&self.encoder, options.in_channels, options.classes);
        Ok(UnetConfig { drop_path_rate: options.drop_path_rate, ..config }.init(device))
    }

    /// Checks that the network takes square images of this size.
    ///
    /// # Errors
    /// [`ZooError::ImageSize`].
    pub fn check_image_size(&self, size: usize) -> Result<(), ZooError> {
        let min = self.classifier().min_image_size();
        if (min..=MAX_IMAGE_SIZE).contains(&size) {
            return Ok(());
        }
        Err(ZooError::ImageSize { model: self.encoder.name, size, min, max: MAX_IMAGE_SIZE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::models;

    #[test]
    fn every_name_finds_its_network_and_unknown_ones_suggest_others() {
        for model in segmentation_models() {
            let found = find_segmentation(&model.key().to_uppercase()).expect("a listed name");
            assert_eq!(found.encoder.name, model.encoder.name);
            assert!(found.layer_names().is_some());
        }
        let error = find_segmentation("unet-mobilenetv2x").expect_err("no such name").to_string();
        assert!(error.contains("`unet-mobilenet"), "{error}");
        assert!(find_segmentation("mobilenet_v2").is_err());
    }

    #[test]
    fn every_classifier_of_the_zoo_is_an_encoder() {
        let options = ModelOptions { in_channels: 1, classes: 2, ..ModelOptions::imagenet() };
        for entry in models() {
            let name = format!("{UNET}{}", Model::from(entry).key());
            let model = find_segmentation(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let trace = model.trace(&options, 64).unwrap_or_else(|error| panic!("{name}: {error}"));
            let logits = trace.layers.last().expect("layers").output;
            assert_eq!(logits, FeatureMap { channels: 2, height: 64, width: 64 }, "{name}");
        }
    }
}
