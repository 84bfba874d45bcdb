//! The paper's table 1.

use kindling_layers::{Activation, BatchNormConfig, HeadConfig, Padding, StagedConfig, StemConfig};

use crate::residual_block::ResidualBlockConfig;

/// What makes a ResNet.
pub type ResNetConfig = StagedConfig<ResidualBlockConfig>;

/// Widths of the four stages.
const WIDTHS: [usize; 4] = [64, 128, 256, 512];

/// ResNet-18.
pub fn resnet18() -> ResNetConfig {
    from_table([2, 2, 2, 2], false)
}

/// ResNet-34.
pub fn resnet34() -> ResNetConfig {
    from_table([3, 4, 6, 3], false)
}

/// ResNet-50, with the stride in the 3x3 convolutions ("v1.5").
pub fn resnet50() -> ResNetConfig {
    from_table([3, 4, 6, 3], true)
}

fn from_table(repeats: [usize; 4], bottleneck: bool) -> ResNetConfig {
    let norm = BatchNormConfig::default();
    let mut input = 64;
    let mut block = |width, stride| {
        let config = ResidualBlockConfig { input, width, bottleneck, stride, norm };
        input = if bottleneck { 4 * width } else { width };
        config
    };
    let stages = WIDTHS
        .iter()
        .zip(repeats)
        .enumerate()
        .map(|(stage, (&width, repeats))| {
            (0..repeats).map(|repeat| block(width, if stage > 0 && repeat == 0 { 2 } else { 1 })).collect()
        })
        .collect();
    ResNetConfig {
        stem: StemConfig { channels: 64, kernel: 7, activation: Activation::Relu, pool: true },
        stages,
        head: HeadConfig { features: None, hidden: None, drop_rate: 0.0 },
        norm,
        padding: Padding::Symmetric,
        drop_path_rate: 0.0,
    }
}
