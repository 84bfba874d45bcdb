//! One type for all networks for segmentation.
//!
//! As with [`AnyBlock`], a network is a variant of an enum and not a trait object, and names of tensors do not contain the variant.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_classification::AnyBlock;
use kindling_layers::names::{KeyStyle, Names};
use kindling_layers::trace::{Describe, FeatureMap, Trace, Value};
use kindling_layers::{Backbone, Checkpointing, Dropout, Segmenter};

use crate::deeplab_v3::DeepLabV3;
use crate::deeplab_v3_plus::DeepLabV3Plus;
use crate::encoder::{Atrous, Beside, ENCODERS, Encoder};
use crate::encoder_decoder::EncoderDecoder;
use crate::fcn::Fcn;
use crate::lraspp::Lraspp;
use crate::unet::{Unet, UnetConfig};

/// A kind of decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecoderKind {
    /// [`crate::unet`].
    Unet,
    /// [`crate::deeplab_v3_plus`].
    DeepLabV3Plus,
    /// [`crate::lraspp`].
    Lraspp,
    /// [`crate::deeplab_v3`].
    DeepLabV3,
    /// [`crate::fcn`].
    Fcn,
}

impl DecoderKind {
    /// Every decoder, in the order they are listed.
    pub const ALL: [Self; 5] = [Self::Unet, Self::DeepLabV3Plus, Self::Lraspp, Self::DeepLabV3, Self::Fcn];

    /// What the name of a network begins with; that of its encoder follows.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Unet => "unet-",
            Self::DeepLabV3Plus => "deeplabv3plus-",
            Self::Lraspp => "lraspp_",
            Self::DeepLabV3 => "deeplabv3_",
            Self::Fcn => "fcn_",
        }
    }

    /// As its paper calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Unet => "U-Net",
            Self::DeepLabV3Plus => "DeepLabV3+",
            Self::Lraspp => "Lite R-ASPP",
            Self::DeepLabV3 => "DeepLabV3",
            Self::Fcn => "FCN",
        }
    }

    /// Whether it has a layer that drops values while training.
    pub fn drops(self) -> bool {
        !matches!(self, Self::Unet | Self::Lraspp)
    }

    /// Whether torchvision has an auxiliary classifier for it.
    pub fn has_auxiliary(self) -> bool {
        matches!(self, Self::DeepLabV3 | Self::Fcn)
    }

    /// Authors, year and address of the paper.
    pub fn paper(self) -> &'static str {
        match self {
            Self::Unet => "Ronneberger et al. 2015, https://arxiv.org/abs/1505.04597",
            Self::DeepLabV3Plus => "Chen et al. 2018, https://arxiv.org/abs/1802.02611",
            Self::Lraspp => "Howard et al. 2019, https://arxiv.org/abs/1905.02244",
            Self::DeepLabV3 => "Chen et al. 2017, https://arxiv.org/abs/1706.05587",
            Self::Fcn => "Long et al. 2015, https://arxiv.org/abs/1411.4038",
        }
    }

    /// The library that has it, by the keys of its weights files.
    pub fn library(self) -> KeyStyle {
        match self {
            Self::Unet | Self::DeepLabV3Plus => KeyStyle::Smp,
            Self::Lraspp | Self::DeepLabV3 | Self::Fcn => KeyStyle::Torchvision,
        }
    }

    /// The encoders with which it equals that library's network, by their names there.
    pub fn reference_encoders(self) -> Vec<&'static str> {
        match self {
            Self::Unet => ENCODERS.iter().map(|encoder| encoder.name).collect(),
            // Of the others `segmentation_models_pytorch` leaves it to timm which kernels change, or begins elsewhere.
            Self::DeepLabV3Plus => vec!["mobilenet_v2", "resnet18", "resnet34"],
            Self::Lraspp => vec!["mobilenet_v3_large"],
            Self::DeepLabV3 => vec!["mobilenet_v3_large", "resnet50"],
            Self::Fcn => vec!["resnet50"],
        }
    }

    /// The encoder as this decoder wants it: U-Net reads every resolution, and the others want a large last map. ResNets divide by 8 in
    /// torchvision, the others by 16.
    fn adapt(self, encoder: Encoder) -> Encoder {
        let is_resnet = is_resnet(&encoder);
        match self {
            Self::Unet => encoder,
            Self::DeepLabV3Plus => encoder.reading(Beside::LastOf(4)).dividing_by(16, Atrous::FromTheFirst),
            Self::Lraspp => encoder.of_torchvision().reading(Beside::FirstOf(8)).dividing_by(16, Atrous::FromTheFirst),
            Self::DeepLabV3 | Self::Fcn if is_resnet => encoder.of_torchvision().dividing_by(8, Atrous::AfterTheFirst),
            Self::DeepLabV3 | Self::Fcn => encoder.of_torchvision().dividing_by(16, Atrous::FromTheFirst),
        }
    }
}

fn is_resnet(encoder: &Encoder) -> bool {
    encoder.entry().0.family == "ResNet"
}

/// Configuration of a [`SegmentationNetwork`].
#[derive(Clone, Copy, Debug)]
pub struct SegmentationConfig {
    /// The decoder.
    pub decoder: DecoderKind,
    /// The encoder, as the decoder wants it.
    encoder: Encoder,
    /// Channels of the images.
    pub in_channels: usize,
    /// Classes of a pixel.
    pub classes: usize,
    /// Takes the place of the decoder's share of values that are dropped while training, where it drops some.
    pub drop_rate: Option<f64>,
    /// Takes the place of the encoder's share of residual branches that are left out while training.
    pub drop_path_rate: Option<f64>,
    /// Whether there is torchvision's auxiliary classifier beside the decoder, where [`DecoderKind::has_auxiliary`] says that there may be.
    /// It makes logits of an earlier map of the encoder: in a training pass, behind those of the decoder.
    pub auxiliary: bool,
}

impl SegmentationConfig {
    /// A network with the rates of dropout and drop-path of its library, without an auxiliary classifier.
    pub fn new(decoder: DecoderKind, encoder: &Encoder, in_channels: usize, classes: usize) -> Self {
        let encoder = decoder.adapt(*encoder);
        Self { decoder, encoder, in_channels, classes, drop_rate: None, drop_path_rate: None, auxiliary: false }
    }

    /// The encoder, as the decoder and the auxiliary classifier want it. The latter reads what it does in torchvision: the last map of
    /// a ResNet's third stage, and of MobileNetV3 the first map of an eighth of the image's size.
    pub fn encoder(&self) -> Encoder {
        match (self.auxiliary && self.decoder.has_auxiliary(), is_resnet(&self.encoder)) {
            (false, _) => self.encoder,
            (true, true) => self.encoder.reading(Beside::LastOf(16)),
            (true, false) => self.encoder.reading(Beside::FirstOf(8)),
        }
    }

    /// A network whose weights are zero until [`kindling_layers::init::initialise`] or a weights file fills them.
    pub fn init(&self, device: &Device) -> SegmentationNetwork {
        let &Self { in_channels, classes, drop_path_rate, .. } = self;
        let drop_rate = |own| self.drop_rate.unwrap_or(own);
        let fcn =
            |input, layer| Fcn::new(input, classes, Dropout { probability: drop_rate(Fcn::DROP_RATE), layer }, device);
        // Not the random numbers of the decoder's dropout.
        let auxiliary = |input| self.auxiliary.then(|| fcn(input, 1));
        match self.decoder {
            DecoderKind::Unet => {
                let config = UnetConfig { drop_path_rate, ..UnetConfig::new(&self.encoder, in_channels, classes) };
                SegmentationNetwork::Unet(config.init(device))
            }
            DecoderKind::DeepLabV3Plus => {
                let (encoder, maps) = self.encoder_and_channels(device);
                let decoder = DeepLabV3Plus::new(maps, classes, drop_rate(DeepLabV3Plus::DROP_RATE), device);
                SegmentationNetwork::DeepLabV3Plus(EncoderDecoder { encoder, decoder, auxiliary: None })
            }
            DecoderKind::Lraspp => {
                let (encoder, maps) = self.encoder_and_channels(device);
                let decoder = Lraspp::new(maps, classes, device);
                SegmentationNetwork::Lraspp(EncoderDecoder { encoder, decoder, auxiliary: None })
            }
            DecoderKind::DeepLabV3 => {
                let (encoder, [first, last]) = self.encoder_and_channels(device);
                let decoder = DeepLabV3::new(last, classes, drop_rate(DeepLabV3::DROP_RATE), device);
                SegmentationNetwork::DeepLabV3(EncoderDecoder { encoder, decoder, auxiliary: auxiliary(first) })
            }
            DecoderKind::Fcn => {
                let (encoder, [first, last]) = self.encoder_and_channels(device);
                let decoder = fcn(last, 0);
                SegmentationNetwork::Fcn(EncoderDecoder { encoder, decoder, auxiliary: auxiliary(first) })
            }
        }
    }

    /// The encoder, and the channels of its first and its last map.
    fn encoder_and_channels(&self, device: &Device) -> (Backbone<AnyBlock>, [usize; 2]) {
        let encoder = self.encoder().init(self.in_channels, self.drop_path_rate, device);
        // The size is arbitrary; channels do not depend on it.
        let maps = Trace::of(&encoder, FeatureMap::square(self.in_channels, 64)).stages;
        let channels =
            [maps.first(), maps.last()].map(|map| map.map_or(self.in_channels, |map| map.value.map.channels));
        (encoder, channels)
    }

    /// The names of the network's layers in the library that has its decoder.
    pub fn names(&self) -> Names {
        let mut names = Names::default();
        self.encoder.names(&mut names);
        match self.init(&Device::flex()) {
            SegmentationNetwork::Unet(network) => network.decoder_names(&mut names),
            SegmentationNetwork::DeepLabV3Plus(network) => network.decoder_names(&mut names),
            SegmentationNetwork::Lraspp(network) => network.decoder_names(&mut names),
            SegmentationNetwork::DeepLabV3(network) => network.decoder_names(&mut names),
            SegmentationNetwork::Fcn(network) => network.decoder_names(&mut names),
        }
        names
    }
}

macro_rules! networks {
    ($($(#[$doc:meta])+ $variant:ident($network:ty),)+) => {
        /// A network for segmentation.
        #[derive(Module, Debug)]
        #[allow(clippy::large_enum_variant)] // one of them in a run
        pub enum SegmentationNetwork {
            $($(#[$doc])+ $variant($network),)+
        }

        impl SegmentationNetwork {
            /// The encoder.
            pub fn encoder(&self) -> &Backbone<AnyBlock> {
                match self {
                    $(Self::$variant(network) => &network.encoder,)+
                }
            }

            /// The network with another encoder of the same kind, as one with other weights.
            pub fn with_encoder(self, encoder: Backbone<AnyBlock>) -> Self {
                match self {
                    $(Self::$variant(mut network) => {
                        network.encoder = encoder;
                        Self::$variant(network)
                    })+
                }
            }
        }

        impl Segmenter for SegmentationNetwork {
            fn forward(&self, images: Tensor<4>) -> Tensor<4> {
                match self {
                    $(Self::$variant(network) => network.forward(images),)+
                }
            }

            fn segments(&self, checkpointing: Checkpointing) -> usize {
                match self {
                    $(Self::$variant(network) => network.segments(checkpointing),)+
                }
            }

            fn run_segment(&self, checkpointing: Checkpointing, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
                match self {
                    $(Self::$variant(network) => network.run_segment(checkpointing, index, maps),)+
                }
            }

            fn finish(&self, x: Tensor<4>) -> Tensor<4> {
                match self {
                    $(Self::$variant(network) => network.finish(x),)+
                }
            }
        }

        impl Describe for SegmentationNetwork {
            fn describe(&self, input: Value, trace: &mut Trace) -> Value {
                match self {
                    $(Self::$variant(network) => network.describe(input, trace),)+
                }
            }
        }
    };
}

networks! {
    /// U-Net.
    Unet(Unet),
    /// DeepLabV3+.
    DeepLabV3Plus(EncoderDecoder<DeepLabV3Plus>),
    /// Lite R-ASPP.
    Lraspp(EncoderDecoder<Lraspp>),
    /// DeepLabV3.
    DeepLabV3(EncoderDecoder<DeepLabV3>),
    /// FCN.
    Fcn(EncoderDecoder<Fcn>),
}

impl SegmentationNetwork {
    /// Whether it has an auxiliary classifier.
    pub fn has_auxiliary(&self) -> bool {
        match self {
            Self::DeepLabV3(network) => network.auxiliary.is_some(),
            Self::Fcn(network) => network.auxiliary.is_some(),
            Self::Unet(_) | Self::DeepLabV3Plus(_) | Self::Lraspp(_) => false,
        }
    }

    /// The network that draws masks: without the auxiliary classifier.
    pub fn without_auxiliary(self) -> Self {
        match self {
            Self::DeepLabV3(network) => Self::DeepLabV3(EncoderDecoder { auxiliary: None, ..network }),
            Self::Fcn(network) => Self::Fcn(EncoderDecoder { auxiliary: None, ..network }),
            other => other,
        }
    }
}
