//! MixNet-S, the paper's figure 5a.

use kindling_layers::Activation::{self, Relu as RE, Silu as SW};
use kindling_layers::names::Library;
use kindling_layers::{BatchNormConfig, HeadConfig, Padding, StagedConfig, StemConfig};

use crate::mix_block::MixBlockConfig;

/// What makes a MixNet.
pub type MixNetConfig = StagedConfig<MixBlockConfig>;

/// A row: depthwise kernels, parts of expansion and of projection, stride, expansion ratio, output channels,
/// squeeze-excite's share of the input channels, activation.
type Row = (&'static [usize], usize, usize, usize, usize, usize, f64, Activation);

const S: &[&[Row]] = &[
    // kernels, expand, project, s, ratio, c, SE, activation
    &[(&[3], 1, 1, 1, 1, 16, 0.0, RE)],
    &[(&[3], 2, 2, 2, 6, 24, 0.0, RE), (&[3], 2, 2, 1, 3, 24, 0.0, RE)],
    &[
        (&[3, 5, 7], 1, 1, 2, 6, 40, 0.5, SW),
        (&[3, 5], 2, 2, 1, 6, 40, 0.5, SW),
        (&[3, 5], 2, 2, 1, 6, 40, 0.5, SW),
        (&[3, 5], 2, 2, 1, 6, 40, 0.5, SW),
    ],
    &[(&[3, 5, 7], 1, 2, 2, 6, 80, 0.25, SW), (&[3, 5], 1, 2, 1, 6, 80, 0.25, SW), (&[3, 5], 1, 2, 1, 6, 80, 0.25, SW)],
    &[
        (&[3, 5, 7], 2, 2, 1, 6, 120, 0.5, SW),
        (&[3, 5, 7, 9], 2, 2, 1, 3, 120, 0.5, SW),
        (&[3, 5, 7, 9], 2, 2, 1, 3, 120, 0.5, SW),
    ],
    &[
        (&[3, 5, 7, 9, 11], 1, 1, 2, 6, 200, 0.5, SW),
        (&[3, 5, 7, 9], 1, 2, 1, 6, 200, 0.5, SW),
        (&[3, 5, 7, 9], 1, 2, 1, 6, 200, 0.5, SW),
    ],
];

/// MixNet-S.
pub fn mixnet_s(library: Library) -> MixNetConfig {
    let (norm, padding) = match library {
        Library::TimmTensorFlow => (BatchNormConfig::tensorflow(), Padding::Same),
        Library::Timm | Library::Torchvision => (BatchNormConfig::default(), Padding::Symmetric),
    };
    let stem = 16;
    let mut input = stem;
    let mut block = |&(kernels, expand_parts, project_parts, stride, ratio, output, squeeze, activation): &Row| {
        let config = MixBlockConfig {
            input,
            expanded: input * ratio,
            output,
            kernels: kernels.to_vec(),
            expand_parts,
            project_parts,
            stride,
            squeezed: (squeeze > 0.0).then_some((input as f64 * squeeze) as usize),
            activation,
            norm,
            padding,
        };
        input = output;
        config
    };
    let stages = S.iter().map(|rows| rows.iter().map(&mut block).collect()).collect();
    MixNetConfig {
        stem: StemConfig { channels: stem, kernel: 3, activation: RE, pool: false },
        stages,
        head: HeadConfig { features: Some((1536, RE)), hidden: None, drop_rate: 0.2 },
        norm,
        padding,
        drop_path_rate: 0.0,
    }
}
