//! Networks for segmentation by name: a decoder on a classifier of the zoo.

use burn::tensor::Device;
use kindling_classification::ModelName;
use kindling_layers::names::{KeyStyle, Library, Names};
use kindling_layers::trace::{FeatureMap, Trace};
use kindling_layers::{init, parameters};
use kindling_segmentation::{DecoderKind, Encoder, SegmentationConfig, SegmentationNetwork, encoder};

use crate::error::ZooError;
use crate::heads::SEGMENTATION_HEAD;
use crate::limits::MAX_IMAGE_SIZE;
use crate::registry::{Model, ModelOptions, find, nearest};

/// A network for segmentation under its name, as `unet-mobilenet_v2`.
#[derive(Clone, Copy, Debug)]
pub struct SegmentationModel {
    /// Its decoder.
    pub decoder: DecoderKind,
    /// Its encoder, before the decoder adapts it.
    encoder: Encoder,
    /// The name of the classifier that is the encoder, if the encoder is not one of `segmentation_models_pytorch`'s.
    classifier: Option<ModelName>,
}

/// The networks for segmentation that have a reference, in the order they are listed. Any classifier of the zoo is an encoder too
/// ([`find_segmentation`]).
pub fn segmentation_models() -> impl Iterator<Item = SegmentationModel> {
    DecoderKind::ALL.into_iter().flat_map(|decoder| {
        let encoders = decoder.reference_encoders().into_iter();
        encoders.filter_map(move |encoder| with_encoder(decoder, encoder).ok())
    })
}

/// Finds a network by its name, in upper or lower case: a decoder (`unet-`, `deeplabv3plus-`, `lraspp_`, `deeplabv3_`, `fcn_`) and an
/// encoder, which is one of `segmentation_models_pytorch` or a classifier of the zoo. Where both have the name, U-Net and DeepLabV3+ have
/// the former's details, and the others torchvision's. Whether `-` or `_` stands between the two makes no difference.
///
/// # Errors
/// [`ZooError::UnknownModel`] with the most similar names.
pub fn find_segmentation(name: &str) -> Result<SegmentationModel, ZooError> {
    let asked = name.to_lowercase();
    let unknown = |prefix: &str, near: Vec<String>| ZooError::UnknownModel {
        name: name.to_string(),
        near: near.into_iter().map(|near| format!("{prefix}{near}")).collect(),
    };
    let Some((decoder, encoder)) = divided(&asked) else {
        return Err(unknown(DecoderKind::Unet.prefix(), nearest(&asked)));
    };
    with_encoder(decoder, encoder).map_err(|_| unknown(decoder.prefix(), nearest(encoder)))
}

/// The decoder of a name, and what follows.
fn divided(name: &str) -> Option<(DecoderKind, &str)> {
    DecoderKind::ALL.into_iter().find_map(|decoder| {
        let stem = decoder.prefix().trim_end_matches(['-', '_']);
        let encoder = name.strip_prefix(stem)?.strip_prefix(['-', '_'])?;
        Some((decoder, encoder))
    })
}

fn with_encoder(decoder: DecoderKind, name: &str) -> Result<SegmentationModel, ZooError> {
    if decoder.library() == KeyStyle::Smp
        && let Some(&encoder) = encoder(name)
    {
        return Ok(SegmentationModel { decoder, encoder, classifier: None });
    }
    let model = find(name)?;
    let encoder = Encoder::of_classifier(model.entry, model.name.library);
    Ok(SegmentationModel { decoder, encoder, classifier: Some(model.name) })
}

/// Whether a name is one of a network for segmentation, as far as its beginning says.
pub fn is_segmentation(name: &str) -> bool {
    divided(&name.to_lowercase()).is_some()
}

impl SegmentationModel {
    /// The name with which [`find_segmentation`] returns this network.
    pub fn key(&self) -> String {
        let encoder = match self.classifier {
            None => self.encoder.name.to_string(),
            Some(_) => self.classifier().key(),
        };
        format!("{}{encoder}", self.decoder.prefix())
    }

    /// The classifier that the encoder is, with the details that it has here.
    pub fn classifier(&self) -> Model {
        let (entry, library) = self.encoder.entry();
        let of_library = || entry.names.iter().find(|name| name.library == library).copied();
        Model { entry, name: self.classifier.or_else(of_library).unwrap_or(entry.names[0]) }
    }

    /// The keys of its weights files in the library that it equals, and the names of its layers there, with those of the auxiliary
    /// classifier if it is to have one.
    pub fn layer_names(&self, auxiliary: bool) -> Option<(KeyStyle, Names)> {
        let library = self.decoder.library();
        let of_library = match self.classifier {
            None => library == KeyStyle::Smp,
            Some(name) => library == KeyStyle::Torchvision && name.library == Library::Torchvision,
        };
        let known = of_library && self.decoder.reference_encoders().contains(&self.encoder.name);
        let options = ModelOptions { auxiliary, ..ModelOptions::imagenet() };
        known.then(|| (library, self.config(&options).names()))
    }

    /// The encoder, as the network that is built with these options wants it.
    pub fn encoder(&self, options: &ModelOptions) -> Encoder {
        self.config(options).encoder()
    }

    /// Builds the network with initial weights from the seed, which are the same on every device. U-Net has no layer of which
    /// `options` could say what is dropped.
    ///
    /// # Errors
    /// [`ZooError::Classes`], [`ZooError::Channels`] or [`ZooError::Rate`] if an option is out of range, [`ZooError::NoAuxiliary`] if there
    /// is no auxiliary classifier for it.
    pub fn build(&self, options: &ModelOptions, device: &Device) -> Result<SegmentationNetwork, ZooError> {
        Ok(init::initialise(self.outline(options, device)?, options.seed))
    }

    /// Builds the network to be filled with the weights of a file, of which only the head may be other than the file's.
    ///
    /// # Errors
    /// As [`SegmentationModel::build`].
    pub fn build_to_fill(&self, options: &ModelOptions, device: &Device) -> Result<SegmentationNetwork, ZooError> {
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

    fn outline(&self, options: &ModelOptions, device: &Device) -> Result<SegmentationNetwork, ZooError> {
        options.check()?;
        for (what, rate) in [("drop rate", options.drop_rate), ("drop path rate", options.drop_path_rate)] {
            if let Some(rate) = rate.filter(|rate| !(0.0..1.0).contains(rate)) {
                return Err(ZooError::Rate { what, rate });
            }
        }
        if options.auxiliary && !self.decoder.has_auxiliary() {
            return Err(ZooError::NoAuxiliary(self.key()));
        }
        Ok(self.config(options).init(device))
    }

    fn config(&self, options: &ModelOptions) -> SegmentationConfig {
        let &ModelOptions { in_channels, classes, drop_rate, drop_path_rate, auxiliary, .. } = options;
        let mut config = SegmentationConfig::new(self.decoder, &self.encoder, in_channels, classes);
        (config.drop_rate, config.drop_path_rate, config.auxiliary) = (drop_rate, drop_path_rate, auxiliary);
        config
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
    use kindling_layers::tensors::Tensors;

    use super::*;
    use crate::registry::models;
    use crate::weights::{self, Adapt, Import};

    #[test]
    fn every_name_finds_its_network_and_unknown_ones_suggest_others() {
        for model in segmentation_models() {
            let found = find_segmentation(&model.key().to_uppercase()).expect("a listed name");
            assert_eq!((found.decoder, found.encoder.name), (model.decoder, model.encoder.name));
            assert!(found.layer_names(false).is_some());
        }
        let error = find_segmentation("unet-mobilenetv2x").expect_err("no such name").to_string();
        assert!(error.contains("`unet-mobilenet"), "{error}");
        assert!(find_segmentation("mobilenet_v2").is_err());
    }

    #[test]
    fn either_library_s_way_of_writing_a_name_is_understood() {
        for (name, key) in [
            ("DeepLabV3Plus-resnet34", "deeplabv3plus-resnet34"),
            ("deeplabv3-resnet50", "deeplabv3_resnet50"),
            ("lraspp_mobilenet_v3_large", "lraspp_mobilenet_v3_large"),
            ("unet_resnet18", "unet-resnet18"),
        ] {
            let model = find_segmentation(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(model.key(), key);
        }
        assert!(!is_segmentation("resnet50") && is_segmentation("fcn_anything"));
    }

    /// Names, shapes and numbers.
    fn comparable(tensors: &Tensors) -> Vec<(&str, Vec<usize>, Vec<f64>)> {
        let all = tensors.iter();
        all.map(|(name, data)| (name.as_str(), data.shape().as_slice().to_vec(), data.iter().collect())).collect()
    }

    #[test]
    fn an_auxiliary_classifier_is_read_and_written_with_torchvisions_names_and_left_out_where_there_is_none() {
        let model = find_segmentation("deeplabv3_mobilenet_v3_large").expect("a listed name");
        let device = Device::flex();
        let options = ModelOptions { classes: 3, auxiliary: true, ..ModelOptions::imagenet() };
        let build = |options: &ModelOptions| model.build(options, &device).expect("buildable");
        let (_, names) = model.layer_names(true).expect("torchvision has it");
        let file = weights::export_named(&build(&options), &names).expect("readable");
        let auxiliary: Vec<&str> = file
            .keys()
            .filter_map(|key| key.strip_prefix("aux_classifier."))
            .filter(|key| !key.contains("num_"))
            .collect();
        let expected = ["0.weight", "1.bias", "1.running_mean", "1.running_var", "1.weight", "4.bias", "4.weight"];
        assert_eq!(auxiliary, expected);

        let other = ModelOptions { seed: 1, ..options };
        let fill = |options: &ModelOptions, tensors: &Tensors, adapt| {
            weights::import_segmentation(build(options), &model, tensors.clone(), adapt)
        };
        let (filled, Import { left_out, .. }) = fill(&other, &file, Adapt::Strict).expect("its own tensors");
        assert!(left_out.is_empty(), "{left_out:?}");
        let again = weights::export_named(&filled, &names).expect("readable");
        assert_eq!(comparable(&again), comparable(&file));

        let (without, import) =
            fill(&ModelOptions { auxiliary: false, ..other }, &file, Adapt::Strict).expect("what is left out is named");
        assert!(!without.has_auxiliary() && import.left_out.len() == 8, "{import:?}");
        let lacking = file.iter().filter(|(key, _)| !key.starts_with("aux_classifier.4"));
        let lacking: Tensors = lacking.map(|(key, data)| (key.clone(), data.clone())).collect();
        let error = fill(&other, &lacking, Adapt::Strict).expect_err("loading is strict").to_string();
        assert!(error.contains("aux_classifier.4."), "{error}");
        let (_, import) = fill(&ModelOptions { classes: 5, ..other }, &file, Adapt::StemAndHead).expect("new heads");
        assert_eq!(import.replaced_head, Some(3));
    }

    #[test]
    fn an_auxiliary_classifier_is_refused_where_torchvision_has_none() {
        let options = ModelOptions { auxiliary: true, ..ModelOptions::imagenet() };
        for name in ["unet-resnet18", "deeplabv3plus-resnet18", "lraspp_mobilenet_v3_large"] {
            let model = find_segmentation(name).expect("a listed name");
            let error = model.build(&options, &Device::flex()).expect_err("no such network").to_string();
            assert!(error.contains(name) && error.contains("fcn_"), "{error}");
        }
    }

    #[test]
    fn every_classifier_of_the_zoo_is_an_encoder_of_every_decoder() {
        let options = ModelOptions { in_channels: 1, classes: 2, ..ModelOptions::imagenet() };
        for (entry, decoder) in models().flat_map(|entry| DecoderKind::ALL.map(|decoder| (entry, decoder))) {
            let name = format!("{}{}", decoder.prefix(), Model::from(entry).key());
            let model = find_segmentation(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let trace = model.trace(&options, 64).unwrap_or_else(|error| panic!("{name}: {error}"));
            let logits = trace.layers.last().expect("layers").output;
            assert_eq!(logits, FeatureMap { channels: 2, height: 64, width: 64 }, "{name}");
            if decoder.has_auxiliary() {
                let trace = model.trace(&ModelOptions { auxiliary: true, ..options }, 64);
                let trace = trace.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(trace.layers.last().expect("layers").output.channels, 4, "{name}");
            }
        }
    }
}
