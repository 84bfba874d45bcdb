//! What torchvision, timm and `efficientnet_pytorch` call the layers of an EfficientNet.

use kindling_layers::Staged;
use kindling_layers::blocks::{InvertedResidual, MobileBlock};
use kindling_layers::names::{KeyStyle, Names};

/// The names in one style, if the library has this network.
pub fn names(network: &Staged<MobileBlock>, style: KeyStyle) -> Option<Names> {
    match style {
        KeyStyle::Timm => Some(network.timm_names()),
        KeyStyle::Torchvision => torchvision(network),
        KeyStyle::EfficientNetPytorch => efficientnet_pytorch(network),
    }
}

/// The blocks with their place among the stages.
fn blocks(network: &Staged<MobileBlock>) -> impl Iterator<Item = (usize, usize, &MobileBlock)> {
    network
        .stages
        .iter()
        .enumerate()
        .flat_map(|(stage, blocks)| blocks.iter().enumerate().map(move |(index, block)| (stage, index, block)))
}

/// torchvision has no Lite networks: those without squeeze-excite.
fn torchvision(network: &Staged<MobileBlock>) -> Option<Names> {
    let gated = |block: &MobileBlock| match block {
        MobileBlock::InvertedResidual(block) => block.squeeze_excite.is_some(),
        _ => false,
    };
    if !network.stages.iter().flatten().any(gated) {
        return None;
    }
    let mut names = Names::default();
    let numbered = |names: &mut Names, own: &str, reference: String| {
        names.conv_norm(own, &format!("{reference}.0"), &format!("{reference}.1"));
    };
    numbered(&mut names, "stem", "features.0".into());
    for (stage, index, block) in blocks(network) {
        let own = format!("stages.{stage}.{index}");
        let reference = format!("features.{}.{index}.block", stage + 1);
        let mut step = 0..;
        let mut place = || format!("{reference}.{}", step.next().unwrap_or(0));
        match block {
            MobileBlock::InvertedResidual(block) => {
                if block.expand.is_some() {
                    numbered(&mut names, &format!("{own}.expand"), place());
                }
                numbered(&mut names, &format!("{own}.depthwise"), place());
                if block.squeeze_excite.is_some() {
                    names.torchvision_squeeze_excite(&format!("{own}.squeeze_excite"), &place());
                }
                numbered(&mut names, &format!("{own}.project"), place());
            }
            MobileBlock::Fused(block) => {
                numbered(&mut names, &format!("{own}.expand"), place());
                if block.project.is_some() {
                    numbered(&mut names, &format!("{own}.project"), place());
                }
            }
            MobileBlock::Universal(_) => {}
        }
    }
    numbered(&mut names, "head.features", format!("features.{}", network.stages.len() + 1));
    names.plain("head.classifier", "classifier.1");
    Some(names)
}

/// The port that the Lite weights come from numbers blocks through; it has no fused blocks.
fn efficientnet_pytorch(network: &Staged<MobileBlock>) -> Option<Names> {
    let mut names = Names::default();
    names.conv_norm("stem", "_conv_stem", "_bn0");
    for (number, (stage, index, block)) in blocks(network).enumerate() {
        let MobileBlock::InvertedResidual(InvertedResidual { expand, squeeze_excite, .. }) = block else {
            return None;
        };
        let (own, reference) = (format!("stages.{stage}.{index}"), format!("_blocks.{number}"));
        let mut layer = |part: &str, conv: &str, norm: &str| {
            let (conv, norm) = (format!("{reference}.{conv}"), format!("{reference}.{norm}"));
            names.conv_norm(&format!("{own}.{part}"), &conv, &norm);
        };
        if expand.is_some() {
            layer("expand", "_expand_conv", "_bn0");
        }
        layer("depthwise", "_depthwise_conv", "_bn1");
        layer("project", "_project_conv", "_bn2");
        if squeeze_excite.is_some() {
            names.squeeze_excite(&format!("{own}.squeeze_excite"), &reference, ["_se_reduce", "_se_expand"]);
        }
    }
    names.conv_norm("head.features", "_conv_head", "_bn1");
    names.plain("head.classifier", "_fc");
    Some(names)
}
