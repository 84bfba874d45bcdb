//! What the papers' tables share on the way to a network.

use kindling_layers::names::Library;
use kindling_layers::{
    Activation, BatchNormConfig, HeadConfig, Padding, SqueezeExciteConfig, StemConfig, make_divisible,
};

use crate::network::{AnyBlockConfig, NetworkConfig};

/// What one library builds otherwise than another.
#[derive(Clone, Copy, Default)]
pub(crate) struct Details {
    pub(crate) norm: BatchNormConfig,
    pub(crate) padding: Padding,
}

impl Details {
    /// A library's: TensorFlow's epsilon and padding for timm's `tf_` names, PyTorch's otherwise, but for the normalisation
    /// of torchvision's network, which differs from paper to paper.
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

/// A row of a table that stands for several blocks, of which the first has the row's stride and the others 1.
pub(crate) fn repeated(
    blocks: usize,
    stride: usize,
    mut block: impl FnMut(usize) -> AnyBlockConfig,
) -> Vec<AnyBlockConfig> {
    (0..blocks).map(|index| block(if index == 0 { stride } else { 1 })).collect()
}

/// Channels scaled by a width, to a multiple of 8.
pub(crate) fn scaled(channels: usize, width: f64) -> usize {
    make_divisible(channels as f64 * width, 8)
}

/// Squeeze-excite of MBConv: its bottleneck is a quarter of the block's input, not of the map it gates.
pub(crate) fn mbconv_squeeze_excite(input: usize, expanded: usize, activation: Activation) -> SqueezeExciteConfig {
    SqueezeExciteConfig { channels: expanded, squeezed: input / 4, activation, gate: Activation::Sigmoid }
}

/// A head without hidden layer, as most networks have it: the last convolution to `features` channels, pooling, dropout,
/// classifier.
pub(crate) fn plain_head(features: usize, activation: Activation, drop_rate: f64) -> HeadConfig {
    HeadConfig { features: Some((features, activation)), hidden: None, drop_rate }
}
