//! The trace as the operations that actually run: a normalisation and the activation after it are one operation, and each operation
//! knows its place in the order of Burn's backward pass.

use kindling_layers::trace::{FeatureMap, LayerTrace, Op, Trace};
use kindling_layers::{Activation, Freeze};

use super::node::{Kind, Node, Place};
use super::{Situation, enlarging, reading};

/// The operations in the order they run forward.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// The shape of each value.
    pub(super) maps: Vec<FeatureMap>,
    /// Whether the backward pass needs the gradient of each value.
    pub(super) wants_gradient: Vec<bool>,
    /// Elements of each tensor of the network, whether it trains or not, running statistics included.
    pub(super) tensors: Vec<u64>,
    /// Elements of each running statistic that a step moves: not those of frozen layers.
    pub(super) statistics: Vec<u64>,
    /// Multiply-adds of the largest product of matrices that one image takes.
    pub(super) product: u64,
}

impl Graph {
    /// The operations that run.
    pub(super) fn of_run(trace: &Trace, situation: &Situation) -> Self {
        let mut graph = Self::of(trace, situation.freeze);
        reading::defer_maps(&mut graph.nodes);
        enlarging::read_before(&mut graph.nodes, &graph.maps, situation);
        graph.with_levels()
    }

    pub(super) fn of(trace: &Trace, freeze: Freeze) -> Self {
        let maps: Vec<FeatureMap> =
            std::iter::once(trace.input).chain(trace.layers.iter().map(|layer| layer.output)).collect();
        let mut levels = vec![0; maps.len()];
        let mut wants_gradient = vec![false; maps.len()];
        let mut nodes: Vec<Node> = Vec::with_capacity(trace.layers.len());
        let (mut all, mut statistics, mut product) = (Vec::<u64>::new(), Vec::<u64>::new(), 0);
        for (layer, described) in trace.layers.iter().enumerate() {
            let output = layer + 1;
            let place = place_of(&described.name);
            let frozen = is_frozen(place, freeze);
            let tensors = tensors_of(described);
            all.extend(&tensors);
            if matches!(described.op, Op::BatchNorm { .. }) {
                // Mean and variance, in addition to scale and shift.
                all.extend(&tensors);
                statistics.extend(tensors.iter().filter(|_| !frozen));
            }
            if let Some(norm) = nodes.last_mut()
                && let Some(activation) = fused(norm, described)
            {
                norm.kind = Kind::NormAct(activation);
                norm.output = output;
                levels[output] = norm.level;
                wants_gradient[output] = wants_gradient[layer];
                continue;
            }
            let kind = kind_of(described);
            if matches!(kind, Kind::Dense { .. } | Kind::Pointwise | Kind::Linear) {
                product = described.macs.max(product);
            }
            let params = if frozen { Vec::new() } else { tensors };
            let before = described.inputs.iter().map(|input| levels[*input]).max().unwrap_or(0);
            levels[output] = before + 1;
            let wants = !frozen && (!params.is_empty() || described.inputs.iter().any(|input| wants_gradient[*input]));
            wants_gradient[output] = wants;
            nodes.push(Node {
                kind,
                layer,
                inputs: described.inputs.clone(),
                output,
                params,
                level: levels[output],
                place,
                frozen,
                reads: false,
                rebuilt: described.rebuilt,
                inside: described.inside,
                enlarges: described.enlarges,
            });
        }
        Self { nodes, maps, wants_gradient, tensors: all, statistics, product }
    }

    /// The same graph with the levels of the operations that are left.
    fn with_levels(mut self) -> Self {
        let mut levels = vec![0; self.maps.len()];
        for node in self.nodes.iter_mut().filter(|node| node.kind != Kind::Deferred) {
            node.level = 1 + node.inputs.iter().map(|input| levels[*input]).max().unwrap_or(0);
            levels[node.output] = node.level;
        }
        self
    }

    /// Elements of the largest tensor, whether it trains or not.
    pub(super) fn largest(&self) -> u64 {
        self.tensors.iter().copied().max().unwrap_or(0)
    }

    /// The elements of each tensor that trains, in the order of the network.
    pub(super) fn trained(&self) -> impl Iterator<Item = u64> {
        self.nodes.iter().flat_map(|node| node.params.iter().copied())
    }
}

/// The activation of a layer, if it is computed as part of the normalisation before it.
fn fused(last: &Node, layer: &LayerTrace) -> Option<Activation> {
    match (last.kind, layer.op) {
        (Kind::NormAct(Activation::Identity), Op::Activation(activation)) if layer.inputs == [last.output] => {
            Some(activation)
        }
        _ => None,
    }
}

fn kind_of(layer: &LayerTrace) -> Kind {
    match layer.op {
        Op::Conv { kernel: 1, stride: 1, groups: 1, .. } => Kind::Pointwise,
        Op::Conv { kernel, stride, dilation, groups: 1, padding } => {
            Kind::Dense { kernel, stride, dilation, before: padding.before }
        }
        Op::Conv { kernel, stride, dilation, .. } => Kind::Depthwise { reach: (kernel - 1) * dilation + 1, stride },
        Op::BatchNorm { .. } => Kind::NormAct(Activation::Identity),
        Op::Linear => Kind::Linear,
        Op::Activation(activation) => Kind::Activation(activation),
        Op::Add => Kind::Add(Activation::Identity),
        Op::Multiply => Kind::Multiply,
        Op::GlobalAveragePool => Kind::Mean,
        Op::MaxPool { .. } => Kind::MaxPool,
        Op::Slice { .. } => Kind::Slice,
        Op::Concat => Kind::Concat,
        Op::Upsample { .. } | Op::Resize { .. } => Kind::Resize,
        _ => Kind::Other,
    }
}

/// Elements of each parameter of a layer.
fn tensors_of(layer: &LayerTrace) -> Vec<u64> {
    let channels = layer.output.channels as u64;
    match layer.op {
        Op::BatchNorm { .. } => vec![channels; 2],
        Op::Linear => vec![layer.params - channels, channels],
        _ if layer.params > 0 => vec![layer.params],
        _ => Vec::new(),
    }
}

/// The place of a layer, from its name in a staged network, or in one with an encoder and a decoder. A decoder with numbered blocks is
/// recomputed block by block, and any other as a whole, with the interpolation after it and an auxiliary classifier.
fn place_of(name: &str) -> Place {
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
    if let Some(of_encoder) = name.strip_prefix("encoder.") {
        return match of_encoder.strip_prefix("features") {
            Some(_) => Place::Features,
            None => place_of(of_encoder),
        };
    }
    let mut segments = name.split('.');
    match segments.next() {
        // A block of U-Net is divided behind its first convolution. Other decoders run in one go.
        Some("decoder") => match (number(segments.next()), segments.next(), segments.next()) {
            (Some(block), Some("upsample" | "concat"), _) | (Some(block), Some("conv1"), Some("conv")) => {
                Place::Decoder(block, 0)
            }
            (Some(block), ..) => Place::Decoder(block, 1),
            (None, ..) => Place::Decoder(0, 0),
        },
        Some("enlarge" | "auxiliary") => Place::Decoder(0, 0),
        Some("stem" | "pool") => Place::Stem,
        Some("stages") => match (number(segments.next()), number(segments.next())) {
            (Some(stage), Some(block)) => Place::Block(stage, block),
            _ => Place::Tail,
        },
        Some("head") if segments.next() == Some("features") => Place::Features,
        _ => Place::Tail,
    }
}

fn is_frozen(place: Place, freeze: Freeze) -> bool {
    match (freeze, place) {
        (Freeze::None, _) | (_, Place::Tail) => false,
        (Freeze::Backbone, place) => !matches!(place, Place::Decoder(..)),
        (Freeze::Stages(_), Place::Stem) => true,
        (Freeze::Stages(stages), Place::Block(stage, _)) => stage < stages,
        (Freeze::Stages(_), Place::Features | Place::Decoder(..)) => false,
    }
}
