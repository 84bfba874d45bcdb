//! Classifiers as encoders, under the names of `segmentation_models_pytorch`.

use burn::tensor::Device;
use kindling_classification::{
    AnyBlock, Network, NetworkConfig, efficientnet, efficientnet_lite, mobilenet_v2, mobilenet_v3, resnet,
};
use kindling_classification::{LayerNames, ModelEntry};
use kindling_layers::names::{KeyStyle, LayerName, Library, Names};
use kindling_layers::{Backbone, Taps};

/// A classifier without its head.
///
/// `segmentation_models_pytorch` builds some of them otherwise than their names say: `timm-tf_efficientnet_lite0` without TensorFlow's
/// padding and epsilon, and `timm-mobilenetv3_...` with them. From `efficientnet-b0` it reads the map after the first block of 112 channels,
/// not after the last one of that resolution. It pads that network as for images of 224 pixels, whatever their size; here the padding is
/// TensorFlow's at every size, which is the same for multiples of 32.
#[derive(Clone, Copy, Debug)]
pub struct Encoder {
    /// Its name in `segmentation_models_pytorch`.
    pub name: &'static str,
    /// The classifier's entries, and its first name there.
    paper: &'static [ModelEntry],
    classifier: &'static str,
    /// Whose details it follows.
    library: Library,
    /// Whose names its layers have, after `prefix`.
    keys: KeyStyle,
    prefix: &'static str,
    taps: Taps,
}

/// Every encoder.
pub const ENCODERS: &[Encoder] = &[
    Encoder::new("mobilenet_v2", mobilenet_v2::MODELS, "mobilenet_v2").of(Library::Torchvision, KeyStyle::Torchvision),
    Encoder::new("timm-mobilenetv3_small_100", mobilenet_v3::MODELS, "mobilenet_v3_small").inside("encoder.model."),
    Encoder::new("timm-mobilenetv3_large_100", mobilenet_v3::MODELS, "mobilenet_v3_large").inside("encoder.model."),
    Encoder::new("timm-tf_efficientnet_lite0", efficientnet_lite::MODELS, "efficientnet_lite0")
        .of(Library::Timm, KeyStyle::Timm)
        .after(&[2, 4, 10, 15]),
    Encoder::new("efficientnet-b0", efficientnet::MODELS, "efficientnet_b0")
        .of(Library::TimmTensorFlow, KeyStyle::EfficientNetPytorch)
        .after(&[2, 4, 8, 15]),
    Encoder::new("resnet18", resnet::MODELS, "resnet18").of(Library::Torchvision, KeyStyle::Torchvision),
    Encoder::new("resnet34", resnet::MODELS, "resnet34").of(Library::Torchvision, KeyStyle::Torchvision),
];

/// The encoder of this name.
pub fn encoder(name: &str) -> Option<&'static Encoder> {
    ENCODERS.iter().find(|encoder| encoder.name == name)
}

impl Encoder {
    const fn new(name: &'static str, paper: &'static [ModelEntry], classifier: &'static str) -> Self {
        let (library, keys) = (Library::TimmTensorFlow, KeyStyle::Timm);
        Self { name, paper, classifier, library, keys, prefix: "encoder.", taps: Taps::Last }
    }

    const fn of(self, library: Library, keys: KeyStyle) -> Self {
        Self { library, keys, ..self }
    }

    const fn inside(self, prefix: &'static str) -> Self {
        Self { prefix, ..self }
    }

    const fn after(self, blocks: &'static [usize]) -> Self {
        Self { taps: Taps::Blocks(blocks), ..self }
    }

    /// A classifier with the details of a library, which need not be one of [`ENCODERS`]: the last map of each resolution is read. Its
    /// layers have the names of timm where timm has it.
    pub fn of_classifier(entry: &'static ModelEntry, library: Library) -> Self {
        let keys = if library == Library::Torchvision { KeyStyle::Torchvision } else { KeyStyle::Timm };
        let (name, paper) = (entry.name(), std::slice::from_ref(entry));
        Self { name, paper, classifier: name, library, keys, prefix: "encoder.", taps: Taps::Last }
    }

    /// The entry of the classifier, and the library whose details it has here.
    pub fn entry(&self) -> (&'static ModelEntry, Library) {
        let entry = self.paper.iter().find(|entry| entry.name() == self.classifier);
        // A test looks all of them up.
        let entry = entry.unwrap_or_else(|| unreachable!("{} has no classifier {}", self.name, self.classifier));
        (entry, self.library)
    }

    /// A classifier of this encoder's kind as the encoder.
    pub fn of_network(&self, network: Network) -> Backbone<AnyBlock> {
        network.into_backbone(self.taps)
    }

    /// The configuration of the classifier, and how its layers are named.
    fn classifier(&self) -> (NetworkConfig, LayerNames) {
        let (entry, library) = self.entry();
        ((entry.config)(library), entry.layer_names)
    }

    /// The encoder for images of `channels` channels, with weights of zero. `drop_path_rate` takes the place of the classifier's.
    pub(crate) fn init(&self, channels: usize, drop_path_rate: Option<f64>, device: &Device) -> Backbone<AnyBlock> {
        let (mut config, _) = self.classifier();
        config.drop_path_rate = drop_path_rate.unwrap_or(config.drop_path_rate);
        self.of_network(config.init(channels, 1, device))
    }

    /// Adds the names of the encoder's layers: here after `encoder.`, there as `segmentation_models_pytorch` has them.
    pub(crate) fn names(&self, names: &mut Names) {
        let (config, layer_names) = self.classifier();
        let network = config.init(3, 1, &Device::flex());
        let of_classifier = layer_names.of(&network, self.keys).unwrap_or_default();
        for LayerName { own, reference, kind } in of_classifier.iter().cloned() {
            let own = match own.strip_prefix("head.") {
                None => own,
                Some(last @ ("features.conv" | "features.norm")) => last.to_string(),
                Some(_) => continue,
            };
            let (own, reference) = (format!("encoder.{own}"), format!("{}{reference}", self.prefix));
            names.push(LayerName { own, reference, kind });
        }
    }
}
