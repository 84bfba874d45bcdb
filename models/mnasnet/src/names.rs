//! What torchvision and timm call the layers of an MNASNet.

use kindling_layers::Staged;
use kindling_layers::blocks::MobileBlock;
use kindling_layers::names::{KeyStyle, Names};

/// The names in one style, if the library has this network.
pub fn names(network: &Staged<MobileBlock>, style: KeyStyle) -> Option<Names> {
    match style {
        KeyStyle::Timm => Some(network.timm_names()),
        KeyStyle::Torchvision => torchvision(network),
        KeyStyle::EfficientNetPytorch => None,
    }
}

/// torchvision counts activations too: convolution, normalisation and activation are three steps of a sequence. Stem and
/// first block lie directly in it, the other stages are its elements 8 to 13. It has B1 only.
fn torchvision(network: &Staged<MobileBlock>) -> Option<Names> {
    let mut names = Names::default();
    let numbered = |names: &mut Names, own: &str, reference: &str, step: usize| {
        names.conv_norm(own, &format!("{reference}.{step}"), &format!("{reference}.{}", step + 1));
    };
    numbered(&mut names, "stem", "layers", 0);
    for (stage, blocks) in network.stages.iter().enumerate() {
        for (index, block) in blocks.iter().enumerate() {
            let MobileBlock::InvertedResidual(block) = block else { return None };
            if block.squeeze_excite.is_some() {
                return None;
            }
            let own = format!("stages.{stage}.{index}");
            let (reference, mut step) = match stage {
                0 => ("layers".to_string(), 3),
                _ => (format!("layers.{}.{index}.layers", stage + 7), 0),
            };
            if block.expand.is_some() {
                numbered(&mut names, &format!("{own}.expand"), &reference, step);
                step += 3;
            }
            numbered(&mut names, &format!("{own}.depthwise"), &reference, step);
            numbered(&mut names, &format!("{own}.project"), &reference, step + 3);
        }
    }
    numbered(&mut names, "head.features", "layers", network.stages.len() + 7);
    names.plain("head.classifier", "classifier.1");
    Some(names)
}
