//! Helpers that turn the tables of papers into networks.

use kindling_layers::names::Library;
use kindling_layers::{
    Activation, BatchNormConfig, HeadConfig, Padding, SqueezeExciteConfig, StemConfig, make_divisible,
};

use crate::network::{AnyBlockConfig, NetworkConfig};

/// The details in which libraries differ.
#[derive(Clone, Copy, Default)]
pub(crate) struct Details {
    pub(crate) norm: BatchNormConfig,
    pub(crate) padding: Padding,
}

impl Details {
    /// The details of a library: TensorFlow's epsilon and padding for timm's `tf_` names, otherwise PyTorch's. The normalisation of
    /// torchvision's networks differs from paper to paper, so it is given.
    pub(crate) fn of(library: Library, torchvision: BatchNormConfig) -> Self {
        match library {
            Library::Torchvision => Self { norm: torchvision, padding: Padding::Symmetric },
            Library::Timm => Self::default(),
            Library::TimmTensorFlow => Self { norm: BatchNormConfig::tensorflow(), padding: Padding::Same },
        }
    }

    /// A network without drop-path.
    pub(crate) fn network(self, stem: StemConfig, stages: Vec<Vec<AnyBlockConfig>>, head: HeadConfig) -> NetworkConfig {
        NetworkConfig { stem, stages, head, norm: self.norm, padding: self.padding, drop_path_rate: 0.0 }
    }
}

/// The blocks of a row of a table. The first one has the stride of the row, and the others have stride 1.
pub(crate) fn repeated(
    blocks: usize,
    stride: usize,
    mut block: impl FnMut(usize) -> AnyBlockConfig,
) -> Vec<AnyBlockConfig> {
    (0..blocks).map(|index| block(if index == 0 { stride } else { 1 })).collect()
}

/// A channel count scaled by a width, rounded to a multiple of 8.
pub(crate) fn scaled(channels: usize, width: f64) -> usize {
    make_divisible(channels as f64 * width, 8)
}

/// The squeeze-excite of MBConv, whose bottleneck is a quarter of the input of the block and not of the gated map.
pub(crate) fn mbconv_squeeze_excite(input: usize, expanded: usize, activation: Activation) -> SqueezeExciteConfig {
    SqueezeExciteConfig { channels: expanded, squeezed: input / 4, activation, gate: Activation::Sigmoid }
}

/// The head of most networks, without a hidden layer: the last convolution to `features` channels, pooling, dropout, classifier.
pub(crate) fn plain_head(features: usize, activation: Activation, drop_rate: f64) -> HeadConfig {
    HeadConfig { features: Some((features, activation)), hidden: None, drop_rate }
}
