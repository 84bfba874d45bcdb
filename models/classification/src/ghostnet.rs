//! GhostNet: "More Features from Cheap Operations", Han et al. 2020, <https://arxiv.org/abs/1911.11907>. Of the two
//! libraries only timm has it.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::blocks::{Block, BlockConfig};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_layers::{
    Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, DropPath, HeadConfig, HiddenConfig, Map,
    SqueezeExcite, SqueezeExciteConfig, StemConfig, make_divisible, twice,
};

use crate::entry::{ModelEntry, Paper, timm};
use crate::names::LayerNames;
use crate::network::NetworkConfig;
use crate::tables::Details;

const PAPER: Paper = Paper {
    family: "GhostNet",
    source: "Han et al. 2020, https://arxiv.org/abs/1911.11907",
    layer_names: LayerNames::TIMM,
};

/// What the registry lists.
pub const MODELS: &[ModelEntry] =
    &[PAPER.model(&[timm("ghostnet_100")], 224, "half of the features from cheap convolutions, ReLU", |_| ghostnet())];

/// A row: kernel, expansion size, output channels, squeeze-excite, stride.
type Row = (usize, usize, usize, bool, usize);

/// The paper's table 1.
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
pub fn ghostnet() -> NetworkConfig {
    let details = Details::default();
    let activation = Activation::Relu;
    let mut input = 16;
    let stem = StemConfig::conv3x3(input, activation);
    let mut block = |&(kernel, expanded, output, squeeze_excite, stride): &Row| {
        let norm = details.norm;
        let config = GhostBottleneckConfig { input, expanded, output, kernel, stride, squeeze_excite, norm };
        input = output;
        config.into()
    };
    let stages = TABLE.iter().map(|rows| rows.iter().map(&mut block).collect()).collect();
    let hidden = HiddenConfig::Linear(1280, activation);
    let head = HeadConfig { features: Some((960, activation)), hidden: Some(hidden), drop_rate: 0.2 };
    details.network(stem, stages, head)
}

/// Configuration of a [`GhostBottleneck`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GhostBottleneckConfig {
    /// Input channels.
    pub input: usize,
    /// Channels between the two ghost modules.
    pub expanded: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the depthwise kernels.
    pub kernel: usize,
    /// 1, or 2 for a depthwise convolution between the modules.
    pub stride: usize,
    /// Whether squeeze-excite precedes the second module.
    pub squeeze_excite: bool,
    /// Normalisation of every convolution.
    pub norm: BatchNormConfig,
}

impl BlockConfig for GhostBottleneckConfig {
    type Block = GhostBottleneck;

    fn init(&self, drop_path: DropPath, device: &Device) -> GhostBottleneck {
        let &Self { input, expanded, output, kernel, stride, norm, .. } = self;
        let linear = |conv| ConvNormConfig { conv, norm, activation: Activation::Identity }.init(device);
        let squeeze_excite = SqueezeExciteConfig {
            channels: expanded,
            squeezed: make_divisible(expanded as f64 / 4.0, 4),
            activation: Activation::Relu,
            gate: Activation::HardSigmoid,
        };
        let shortcut = || GhostShortcut {
            depthwise: linear(Conv2dConfig::depthwise(input, kernel, stride)),
            project: linear(Conv2dConfig::pointwise(input, output)),
        };
        GhostBottleneck {
            expand: GhostModule::new(input, expanded, Activation::Relu, norm, device),
            depthwise: (stride > 1).then(|| linear(Conv2dConfig::depthwise(expanded, kernel, stride))),
            squeeze_excite: self.squeeze_excite.then(|| squeeze_excite.init(device)),
            project: GhostModule::new(expanded, output, Activation::Identity, norm, device),
            shortcut: (stride > 1 || input != output).then(shortcut),
            drop_path,
        }
    }

    fn output(&self) -> usize {
        self.output
    }

    fn stride(&self) -> usize {
        self.stride
    }
}

/// Ghost module, depthwise convolution if the stride is 2, squeeze-excite, linear ghost module, and a shortcut (figure 3).
#[derive(Module, Debug)]
pub struct GhostBottleneck {
    expand: GhostModule,
    depthwise: Option<ConvNorm>,
    squeeze_excite: Option<SqueezeExcite>,
    project: GhostModule,
    shortcut: Option<GhostShortcut>,
    #[module(skip)]
    drop_path: DropPath,
}

/// The shortcut of blocks that change the shape.
#[derive(Module, Debug)]
pub struct GhostShortcut {
    depthwise: ConvNorm,
    project: ConvNorm,
}

impl Block for GhostBottleneck {
    type Config = GhostBottleneckConfig;

    fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        let [input, x] = twice(input);
        let mut x = Map::from(self.expand.forward(x.into()));
        if let Some(depthwise) = &self.depthwise {
            x = depthwise.pass(x);
        }
        if let Some(squeeze_excite) = &self.squeeze_excite {
            x = squeeze_excite.gate(x);
        }
        let shortcut = match &self.shortcut {
            Some(GhostShortcut { depthwise, project }) => project.pass(depthwise.pass(input.into())).whole(),
            None => input,
        };
        self.drop_path.forward(self.project.forward(x)) + shortcut
    }

    fn atrous(self, dilation: usize) -> Self {
        let shortcut = self.shortcut.map(|it| GhostShortcut { depthwise: it.depthwise.atrous(dilation), ..it });
        Self {
            expand: self.expand.atrous(dilation),
            depthwise: self.depthwise.map(|conv| conv.atrous(dilation)),
            project: self.project.atrous(dilation),
            shortcut,
            ..self
        }
    }

    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        self.expand.timm_names(&format!("{own}.expand"), &format!("{reference}.ghost1"), names);
        if self.depthwise.is_some() {
            let (conv, norm) = (format!("{reference}.conv_dw"), format!("{reference}.bn_dw"));
            names.conv_norm(&format!("{own}.depthwise"), &conv, &norm);
        }
        if self.squeeze_excite.is_some() {
            names.timm_squeeze_excite(&format!("{own}.squeeze_excite"), &format!("{reference}.se"));
        }
        self.project.timm_names(&format!("{own}.project"), &format!("{reference}.ghost2"), names);
        if self.shortcut.is_some() {
            let at = |step: usize| format!("{reference}.shortcut.{step}");
            names.conv_norm(&format!("{own}.shortcut.depthwise"), &at(0), &at(1));
            names.conv_norm(&format!("{own}.shortcut.project"), &at(2), &at(3));
        }
    }
}

impl Describe for GhostBottleneck {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut x = trace.scope("expand", |trace| self.expand.describe(input, trace));
        if let Some(depthwise) = &self.depthwise {
            x = trace.scope("depthwise", |trace| depthwise.describe(x, trace));
        }
        if let Some(squeeze_excite) = &self.squeeze_excite {
            x = trace.scope("squeeze_excite", |trace| squeeze_excite.describe(x, trace));
        }
        x = trace.scope("project", |trace| self.project.describe(x, trace));
        let shortcut = match &self.shortcut {
            None => input,
            Some(GhostShortcut { depthwise, project }) => trace.scope("shortcut", |trace| {
                let x = trace.scope("depthwise", |trace| depthwise.describe(input, trace));
                trace.scope("project", |trace| project.describe(x, trace))
            }),
        };
        trace.add(x, shortcut)
    }
}

/// A pointwise convolution to half of the channels, and a depthwise 3x3 convolution from those to the other half (section 3.1,
/// ratio 2).
#[derive(Module, Debug)]
pub struct GhostModule {
    primary: ConvNorm,
    cheap: ConvNorm,
}

impl GhostModule {
    /// A module on `device`.
    ///
    /// # Panics
    /// If `output` is odd.
    pub fn new(input: usize, output: usize, activation: Activation, norm: BatchNormConfig, device: &Device) -> Self {
        assert!(output.is_multiple_of(2), "a ghost module makes pairs of features, not {output}");
        let layer = |conv| ConvNormConfig { conv, norm, activation }.init(device);
        let half = output / 2;
        Self { primary: layer(Conv2dConfig::pointwise(input, half)), cheap: layer(Conv2dConfig::depthwise(half, 3, 1)) }
    }

    /// `[batch, input, height, width]` to `[batch, output, height, width]`.
    pub fn forward(&self, x: Map) -> Tensor<4> {
        let primary = self.primary.pass(x).whole();
        let cheap = self.cheap.forward(primary.clone());
        Tensor::cat(vec![primary, cheap], 1)
    }

    fn atrous(self, dilation: usize) -> Self {
        Self { cheap: self.cheap.atrous(dilation), ..self }
    }

    fn timm_names(&self, own: &str, reference: &str, names: &mut Names) {
        for (part, timm) in [("primary", "primary_conv"), ("cheap", "cheap_operation")] {
            let reference = format!("{reference}.{timm}");
            names.conv_norm(&format!("{own}.{part}"), &format!("{reference}.0"), &format!("{reference}.1"));
        }
    }
}

impl Describe for GhostModule {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let primary = trace.scope("primary", |trace| self.primary.describe(input, trace));
        let cheap = trace.scope("cheap", |trace| self.cheap.describe(primary, trace));
        let channels = primary.map.channels + cheap.map.channels;
        trace.apply("concat", Op::Concat, &[primary, cheap], FeatureMap { channels, ..primary.map })
    }
}
