//! The paper's table 1.

use kindling_layers::{Activation, BatchNormConfig, HeadConfig, HiddenConfig, Padding, StagedConfig, StemConfig};

use crate::ghost_bottleneck::GhostBottleneckConfig;

/// What makes a GhostNet.
pub type GhostNetConfig = StagedConfig<GhostBottleneckConfig>;

/// A row: kernel, expansion size, output channels, squeeze-excite, stride.
type Row = (usize, usize, usize, bool, usize);

const TABLE: &[&[Row]] = &[
    // k, expanded, output, SE, s
    &[(3, 16, 16, false, 1)],
    &[(3, 48, 24, false, 2)],
    &[(3, 72, 24, false, 1)],
    &[(5, 72, 40, true, 2)],
    &[(5, 120, 40, true, 1)],
    &[(3, 240, 80, false, 2)],
    &[
        (3, 200, 80, false, 1),
        (3, 184, 80, false, 1),
        (3, 184, 80, false, 1),
        (3, 480, 112, true, 1),
        (3, 672, 112, true, 1),
    ],
    &[(5, 672, 160, true, 2)],
    &[(5, 960, 160, false, 1), (5, 960, 160, true, 1), (5, 960, 160, false, 1), (5, 960, 160, true, 1)],
];

/// GhostNet at width 1.
pub fn ghostnet() -> GhostNetConfig {
    let norm = BatchNormConfig::default();
    let activation = Activation::Relu;
    let stem = 16;
    let mut input = stem;
    let mut block = |&(kernel, expanded, output, squeeze_excite, stride): &Row| {
        let config = GhostBottleneckConfig { input, expanded, output, kernel, stride, squeeze_excite, norm };
        input = output;
        config
    };
    GhostNetConfig {
        stem: StemConfig { channels: stem, kernel: 3, activation, pool: false },
        stages: TABLE.iter().map(|rows| rows.iter().map(&mut block).collect()).collect(),
        head: HeadConfig {
            features: Some((960, activation)),
            hidden: Some(HiddenConfig::Linear(1280, activation)),
            drop_rate: 0.2,
        },
        norm,
        padding: Padding::Symmetric,
        drop_path_rate: 0.0,
    }
}
