//! Classifiers as encoders, under the names of `segmentation_models_pytorch`.

use burn::tensor::Device;
use kindling_classification::{
    AnyBlock, AnyBlockConfig, Network, NetworkConfig, efficientnet, efficientnet_lite, mobilenet_v2, mobilenet_v3,
    resnet,
};
use kindling_classification::{LayerNames, ModelEntry};
use kindling_layers::blocks::BlockConfig;
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
    /// Whose names its layers have, and in which network these lie.
    keys: KeyStyle,
    inside: Inside,
    taps: Taps,
    /// The factor by which maps are divided at most, and what blocks do that would divide them further.
    divides_by: Option<(usize, Atrous)>,
    /// The map that is read beside the last, if that takes the place of `taps`.
    beside: Option<Beside>,
}

/// Where the layers of a classifier lie in a library's network for segmentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// In the encoder of `segmentation_models_pytorch`.
    Encoder,
    /// In a model of timm that is the encoder of `segmentation_models_pytorch`.
    TimmEncoder,
    /// In the backbone of torchvision's networks, without the `features` that a MobileNet's layers lie in.
    Backbone,
}

impl Inside {
    /// What a layer of the classifier is called there.
    fn name(self, layer: &str) -> String {
        match self {
            Self::Encoder => format!("encoder.{layer}"),
            Self::TimmEncoder => format!("encoder.model.{layer}"),
            Self::Backbone => format!("backbone.{}", layer.strip_prefix("features.").unwrap_or(layer)),
        }
    }
}

/// A map of an encoder, by its share of the image's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The first that is smaller by this factor.
    FirstOf(usize),
    /// The last that is.
    LastOf(usize),
}

/// How the kernels of an encoder see its last maps, which are not divided ([`Conv2d::atrous`](kindling_layers::Conv2d::atrous)). Libraries
/// differ in the first block of what would have been the next resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atrous {
    /// Its taps are as far apart as those of the blocks after it (torchvision's MobileNetV3, `segmentation_models_pytorch`).
    FromTheFirst,
    /// Its taps are as far apart as those of the blocks before it, whose map it reads (torchvision's ResNet).
    AfterTheFirst,
}

/// Every encoder.
pub const ENCODERS: &[Encoder] = &[
    Encoder::new("mobilenet_v2", mobilenet_v2::MODELS, "mobilenet_v2").of(Library::Torchvision, KeyStyle::Torchvision),
    Encoder::new("timm-mobilenetv3_small_100", mobilenet_v3::MODELS, "mobilenet_v3_small").inside(Inside::TimmEncoder),
    Encoder::new("timm-mobilenetv3_large_100", mobilenet_v3::MODELS, "mobilenet_v3_large").inside(Inside::TimmEncoder),
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
        Self {
            name,
            paper,
            classifier,
            library,
            keys,
            inside: Inside::Encoder,
            taps: Taps::Last,
            divides_by: None,
            beside: None,
        }
    }

    const fn of(self, library: Library, keys: KeyStyle) -> Self {
        Self { library, keys, ..self }
    }

    const fn inside(self, inside: Inside) -> Self {
        Self { inside, ..self }
    }

    const fn after(self, blocks: &'static [usize]) -> Self {
        Self { taps: Taps::Blocks(blocks), ..self }
    }

    /// A classifier with the details of a library, which need not be one of [`ENCODERS`]: the last map of each resolution is read. Its
    /// layers have the names of timm where timm has it.
    pub fn of_classifier(entry: &'static ModelEntry, library: Library) -> Self {
        let keys = if library == Library::Torchvision { KeyStyle::Torchvision } else { KeyStyle::Timm };
        let (name, paper) = (entry.name(), std::slice::from_ref(entry));
        Self { library, keys, ..Self::new(name, paper, name) }
    }

    /// The encoder that divides by `factor` at most.
    pub(crate) fn dividing_by(self, factor: usize, atrous: Atrous) -> Self {
        Self { divides_by: Some((factor, atrous)), ..self }
    }

    /// The encoder as part of torchvision's networks, which read the last map.
    pub(crate) fn of_torchvision(self) -> Self {
        Self { taps: Taps::Only(None), inside: Inside::Backbone, ..self }
    }

    /// The encoder of which this map and the last one are read.
    pub(crate) fn reading(self, beside: Beside) -> Self {
        Self { beside: Some(beside), ..self }
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
        let (config, _) = self.classifier();
        let divisions = divisions(&config);
        let taps = self.beside.map_or(self.taps, |beside| {
            Taps::Only(match beside {
                Beside::FirstOf(factor) => divisions.iter().position(|&(_, divided_by)| divided_by == factor),
                Beside::LastOf(factor) => divisions.iter().rposition(|&(_, divided_by)| divided_by == factor),
            })
        });
        network.into_backbone(taps).atrous(self.dilations(&divisions))
    }

    /// Pixels between the taps of the kernels of each block, if the block does not divide its map although the classifier's does.
    fn dilations(&self, divisions: &[(usize, usize)]) -> Vec<Option<usize>> {
        let Some((most, atrous)) = self.divides_by else { return Vec::new() };
        let dilation = |&(before, after): &(usize, usize)| {
            let seen = if atrous == Atrous::FromTheFirst { after } else { before };
            (after > most).then_some((seen / most).max(1))
        };
        divisions.iter().map(dilation).collect()
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

    /// Adds the names of the encoder's layers: here after `encoder.`, there as the library's network for segmentation has them.
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
            names.push(LayerName { own: format!("encoder.{own}"), reference: self.inside.name(&reference), kind });
        }
    }
}

/// By how much maps are divided before and after each block of a classifier.
fn divisions(config: &NetworkConfig) -> Vec<(usize, usize)> {
    let mut divided_by = if config.stem.pool { 4 } else { 2 };
    let divide = |block: &AnyBlockConfig| {
        let before = divided_by;
        divided_by *= block.stride();
        (before, divided_by)
    };
    config.stages.iter().flatten().map(divide).collect()
}
