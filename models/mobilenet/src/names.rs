//! What torchvision and timm call the layers of a MobileNet.

use kindling_layers::blocks::MobileBlock;
use kindling_layers::names::{KeyStyle, Names};
use kindling_layers::{Hidden, Staged};

/// The names in one style, if the library has this network.
pub fn names(network: &Staged<MobileBlock>, style: KeyStyle) -> Option<Names> {
    match style {
        KeyStyle::Timm => Some(network.timm_names()),
        KeyStyle::Torchvision => torchvision(network),
        KeyStyle::EfficientNetPytorch => None,
    }
}

/// torchvision has V2 and V3: its blocks are numbered through, and within a block its layers.
fn torchvision(network: &Staged<MobileBlock>) -> Option<Names> {
    network.head.features.as_ref()?;
    let v3 = match &network.head.hidden {
        None => false,
        Some(Hidden::Linear(_)) => true,
        Some(Hidden::Norm(_)) => return None,
    };
    let mut names = Names::default();
    let numbered = |names: &mut Names, own: &str, reference: String| {
        names.conv_norm(own, &format!("{reference}.0"), &format!("{reference}.1"));
    };
    numbered(&mut names, "stem", "features.0".into());
    let mut number = 0;
    for (stage, blocks) in network.stages.iter().enumerate() {
        for (index, block) in blocks.iter().enumerate() {
            let MobileBlock::InvertedResidual(block) = block else { return None };
            number += 1;
            let own = format!("stages.{stage}.{index}");
            let reference = format!("features.{number}.{}", if v3 { "block" } else { "conv" });
            let mut step = 0..;
            let mut place = || format!("{reference}.{}", step.next().unwrap_or(0));
            if block.expand.is_some() {
                numbered(&mut names, &format!("{own}.expand"), place());
            }
            numbered(&mut names, &format!("{own}.depthwise"), place());
            if block.squeeze_excite.is_some() {
                names.torchvision_squeeze_excite(&format!("{own}.squeeze_excite"), &place());
            }
            let project = format!("{own}.project");
            if v3 {
                numbered(&mut names, &project, place());
            } else {
                // V2 has the projection's convolution and normalisation directly in the block's sequence.
                names.conv_norm(&project, &place(), &place());
            }
        }
    }
    numbered(&mut names, "head.features", format!("features.{}", number + 1));
    if v3 {
        names.plain("head.hidden.linear", "classifier.0");
    }
    names.plain("head.classifier", if v3 { "classifier.3" } else { "classifier.1" });
    Some(names)
}
