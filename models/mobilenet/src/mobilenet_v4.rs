//! MobileNetV4 without attention: "MobileNetV4: Universal Models for the Mobile Ecosystem", Qin et al. 2024,
//! <https://arxiv.org/abs/2404.10518>, tables 11 to 13 (Conv-S, Conv-M, Conv-L).

use kindling_layers::blocks::{FusedInvertedResidualConfig, MobileBlockConfig, UniversalInvertedBottleneckConfig};
use kindling_layers::{Activation, BatchNormConfig, HeadConfig, HiddenConfig, Padding, StemConfig, make_divisible};

use crate::MobileNetConfig;

/// A row of the paper's tables.
#[derive(Clone, Copy)]
enum Row {
    /// Convolution: kernel, output channels, stride.
    Conv(usize, usize, usize),
    /// Fused inverted bottleneck: expansion ratio, output channels, stride.
    Fused(usize, usize, usize),
    /// Universal inverted bottleneck: first kernel, second kernel (0: none), expansion ratio, output channels, stride.
    Universal(usize, usize, usize, usize, usize),
}

use Row::{Conv, Fused, Universal as Uib};

/// Conv-S, between the stem and the last 1x1 convolution.
const SMALL: &[&[Row]] = &[
    &[Conv(3, 32, 2), Conv(1, 32, 1)],
    &[Conv(3, 96, 2), Conv(1, 64, 1)],
    &[
        Uib(5, 5, 3, 96, 2),
        Uib(0, 3, 2, 96, 1),
        Uib(0, 3, 2, 96, 1),
        Uib(0, 3, 2, 96, 1),
        Uib(0, 3, 2, 96, 1),
        Uib(3, 0, 4, 96, 1),
    ],
    &[
        Uib(3, 3, 6, 128, 2),
        Uib(5, 5, 4, 128, 1),
        Uib(0, 5, 4, 128, 1),
        Uib(0, 5, 3, 128, 1),
        Uib(0, 3, 4, 128, 1),
        Uib(0, 3, 4, 128, 1),
    ],
];

/// Conv-M.
const MEDIUM: &[&[Row]] = &[
    &[Fused(4, 48, 2)],
    &[Uib(3, 5, 4, 80, 2), Uib(3, 3, 2, 80, 1)],
    &[
        Uib(3, 5, 6, 160, 2),
        Uib(3, 3, 4, 160, 1),
        Uib(3, 3, 4, 160, 1),
        Uib(3, 5, 4, 160, 1),
        Uib(3, 3, 4, 160, 1),
        Uib(3, 0, 4, 160, 1),
        Uib(0, 0, 2, 160, 1),
        Uib(3, 0, 4, 160, 1),
    ],
    &[
        Uib(5, 5, 6, 256, 2),
        Uib(5, 5, 4, 256, 1),
        Uib(3, 5, 4, 256, 1),
        Uib(3, 5, 4, 256, 1),
        Uib(0, 0, 4, 256, 1),
        Uib(3, 0, 4, 256, 1),
        Uib(3, 5, 2, 256, 1),
        Uib(5, 5, 4, 256, 1),
        Uib(0, 0, 4, 256, 1),
        Uib(0, 0, 4, 256, 1),
        Uib(5, 0, 2, 256, 1),
    ],
];

/// Conv-L.
const LARGE: &[&[Row]] = &[
    &[Fused(4, 48, 2)],
    &[Uib(3, 5, 4, 96, 2), Uib(3, 3, 4, 96, 1)],
    &[
        Uib(3, 5, 4, 192, 2),
        Uib(3, 3, 4, 192, 1),
        Uib(3, 3, 4, 192, 1),
        Uib(3, 3, 4, 192, 1),
        Uib(3, 5, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(5, 3, 4, 192, 1),
        Uib(3, 0, 4, 192, 1),
    ],
    &[
        Uib(5, 5, 4, 512, 2),
        Uib(5, 5, 4, 512, 1),
        Uib(5, 5, 4, 512, 1),
        Uib(5, 5, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 3, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 3, 4, 512, 1),
        Uib(5, 5, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
        Uib(5, 0, 4, 512, 1),
    ],
];

/// MobileNetV4-Conv-Small.
pub fn mobilenet_v4_conv_small() -> MobileNetConfig {
    from_table(SMALL, 32)
}

/// MobileNetV4-Conv-Medium.
pub fn mobilenet_v4_conv_medium() -> MobileNetConfig {
    from_table(MEDIUM, 32)
}

/// MobileNetV4-Conv-Large.
pub fn mobilenet_v4_conv_large() -> MobileNetConfig {
    from_table(LARGE, 24)
}

/// As timm builds it: ReLU, a last convolution to 960 channels, and a layer with normalisation to 1280 after pooling.
fn from_table(table: &[&[Row]], stem: usize) -> MobileNetConfig {
    let activation = Activation::Relu;
    let norm = BatchNormConfig::default();
    let padding = Padding::Symmetric;
    let mut input = stem;
    let mut block = |row: &Row| {
        let fused = |expanded, output, kernel, stride, shortcut| {
            MobileBlockConfig::Fused(FusedInvertedResidualConfig {
                input,
                expanded,
                output,
                kernel,
                stride,
                activation,
                shortcut,
                norm,
                padding,
            })
        };
        let (config, output) = match *row {
            Conv(kernel, output, stride) => (fused(input, output, kernel, stride, false), output),
            Fused(ratio, output, stride) => (fused(input * ratio, output, 3, stride, true), output),
            Uib(start, middle, ratio, output, stride) => {
                let some = |kernel: usize| (kernel > 0).then_some(kernel);
                let config = UniversalInvertedBottleneckConfig {
                    input,
                    expanded: make_divisible((input * ratio) as f64, 8),
                    output,
                    start_kernel: some(start),
                    middle_kernel: some(middle),
                    stride,
                    activation,
                    norm,
                };
                (MobileBlockConfig::Universal(config), output)
            }
        };
        input = output;
        config
    };
    let stages = table.iter().map(|rows| rows.iter().map(&mut block).collect()).collect();
    MobileNetConfig {
        stem: StemConfig { channels: stem, kernel: 3, activation, pool: false },
        stages,
        head: HeadConfig {
            features: Some((960, activation)),
            hidden: Some(HiddenConfig::Norm(1280, activation)),
            drop_rate: 0.2,
        },
        norm,
        padding,
        drop_path_rate: 0.0,
    }
}
