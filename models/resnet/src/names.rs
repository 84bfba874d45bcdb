//! What torchvision and timm call the layers of a ResNet: the same.

use kindling_layers::Staged;
use kindling_layers::names::{KeyStyle, Names};

use crate::residual_block::ResidualBlock;

/// The names in one style, if the library has this network.
pub fn names(network: &Staged<ResidualBlock>, style: KeyStyle) -> Option<Names> {
    if style == KeyStyle::EfficientNetPytorch {
        return None;
    }
    let mut names = Names::default();
    names.conv_norm("stem", "conv1", "bn1");
    for (stage, blocks) in network.stages.iter().enumerate() {
        for (index, block) in blocks.iter().enumerate() {
            let reference = format!("layer{}.{index}", stage + 1);
            block.names(&format!("stages.{stage}.{index}"), &reference, &mut names);
        }
    }
    names.plain("head.classifier", "fc");
    Some(names)
}
