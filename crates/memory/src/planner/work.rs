//! What a step has to compute and to move at least, from the trace alone: the roofline of Williams et al. (2009), operation by
//! operation.
//!
//! Arithmetic is that of convolutions and linear layers by their definition, a multiply-add being two operations. Bytes are those of the
//! operations as they run, as if each read its inputs and weights from memory once and wrote its output once: a normalisation that the
//! next operation applies while it reads has none of its own, and neither has a view. The gradients of a layer read what its inputs'
//! and weights' gradients depend on, and write those. What is computed again for the backward pass does not count.

use std::iter::Sum;
use std::ops::Add;

use kindling_layers::Activation;
use kindling_layers::trace::{LayerTrace, Trace};
use kindling_ops::Peak;

use super::graph::Graph;
use super::node::{Kind, Node};
use super::{Situation, WEIGHT_BYTES};

/// What something computes and moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Operations of products, a multiply-add being two.
    pub flops: u64,
    /// Bytes that are read from memory and written to it at least once.
    pub bytes: u64,
}

/// The work of an operation in a training step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerWork {
    /// The layer's name in the trace.
    pub name: String,
    /// The kind of the layer.
    pub kind: String,
    /// Work of the forward pass.
    pub forward: Work,
    /// Work of the backward pass.
    pub backward: Work,
}

/// The least time that work takes, in seconds: an operation takes as long as its arithmetic or its bytes, whichever is longer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// Of operations that arithmetic holds up.
    pub arithmetic: f64,
    /// Of operations that memory holds up.
    pub memory: f64,
}

/// What holds work up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Side {
    /// Products.
    Arithmetic,
    /// Reading and writing.
    Memory,
}

impl Work {
    /// The least time that this takes, as one operation, where `peak` is the most that is reached.
    pub fn bound(self, peak: Peak) -> Bound {
        let (arithmetic, memory) = (self.flops as f64 / peak.flops, self.bytes as f64 / peak.bytes);
        if arithmetic > memory { Bound { arithmetic, memory: 0.0 } } else { Bound { arithmetic: 0.0, memory } }
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { flops: self.flops + other.flops, bytes: self.bytes + other.bytes }
    }
}

impl LayerWork {
    /// The least time that both passes take, one after the other.
    pub fn bound(&self, peak: Peak) -> Bound {
        self.forward.bound(peak) + self.backward.bound(peak)
    }
}

impl Bound {
    /// All of it.
    pub fn seconds(self) -> f64 {
        self.arithmetic + self.memory
    }

    /// What more than half of it is due to.
    pub fn by(self) -> Side {
        if self.arithmetic > self.memory { Side::Arithmetic } else { Side::Memory }
    }
}

impl Add for Bound {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { arithmetic: self.arithmetic + other.arithmetic, memory: self.memory + other.memory }
    }
}

impl Sum for Bound {
    fn sum<I: Iterator<Item = Self>>(bounds: I) -> Self {
        bounds.fold(Self::default(), Add::add)
    }
}

/// The work of each operation for `situation.micro_batch` images at once, in the order in which layers run.
pub fn work_by_layer(trace: &Trace, situation: &Situation) -> Vec<LayerWork> {
    let graph = Graph::of_run(trace, situation);
    let count = Count { trace, graph: &graph, situation };
    let of = |node: &Node| {
        let layer = count.layer(node);
        let (forward, backward) = (count.forward(node), count.backward(node));
        LayerWork { name: layer.name.clone(), kind: layer.op.to_string(), forward, backward }
    };
    graph.nodes.iter().filter(|node| node.kind != Kind::Deferred).map(of).collect()
}

/// The work of the optimizer's update: it reads each weight that trains, its gradient and its moments, and writes all but the gradient.
pub fn work_of_update(trace: &Trace, situation: &Situation) -> Work {
    let trained: u64 = Graph::of_run(trace, situation).trained().sum();
    let moments = situation.optimizer.moments();
    Work { flops: 0, bytes: trained * WEIGHT_BYTES * (3 + 2 * moments) }
}

/// What counts the work of operations.
struct Count<'a> {
    trace: &'a Trace,
    graph: &'a Graph,
    situation: &'a Situation,
}

impl Count<'_> {
    fn layer(&self, node: &Node) -> &LayerTrace {
        &self.trace.layers[node.layer]
    }

    fn forward(&self, node: &Node) -> Work {
        let layer = self.layer(node);
        let maps = match node.kind {
            Kind::Deferred | Kind::Slice => 0,
            _ => self.maps(&node.inputs) + self.maps(&[node.output]),
        };
        Work { flops: self.flops(node), bytes: maps + layer.params * WEIGHT_BYTES }
    }

    /// The products of an operation, once for each of its gradients in the backward pass.
    fn flops(&self, node: &Node) -> u64 {
        2 * self.layer(node).macs * self.situation.micro_batch as u64
    }

    fn backward(&self, node: &Node) -> Work {
        let wants = &self.graph.wants_gradient;
        if !wants[node.output] {
            return Work::default();
        }
        let wanted: Vec<usize> = node.inputs.iter().copied().filter(|input| wants[*input]).collect();
        let trained: u64 = node.params.iter().sum();
        let products = u64::from(trained > 0) + u64::from(!wanted.is_empty());
        let weights = if wanted.is_empty() { 0 } else { self.layer(node).params };
        let bytes = self.maps_of_backward(node, &wanted, trained > 0) + (weights + trained) * WEIGHT_BYTES;
        Work { flops: products * self.flops(node), bytes }
    }

    /// Bytes of the maps that gradients are computed from, and of the gradients of maps.
    fn maps_of_backward(&self, node: &Node, wanted: &[usize], trains: bool) -> u64 {
        let (inputs, output) = (self.maps(&node.inputs), self.maps(&[node.output]));
        match node.kind {
            // The gradient of the output is handed on, as it is or as a view of it.
            Kind::Deferred | Kind::Concat => 0,
            Kind::Add(_) | Kind::Mean if !node.reads => 0,
            // The normalisation's input is read for its gradient. Without an activation, the shortcut's gradient is the output's.
            Kind::Add(Activation::Identity) => output + 2 * self.maps(&node.inputs[..1]),
            Kind::Add(_) => 2 * output + inputs + self.maps(&node.inputs[..1]),
            Kind::Dense { .. } | Kind::Enlarging | Kind::Depthwise { .. } | Kind::Pointwise | Kind::Linear
                if !trains && !node.reads =>
            {
                output + self.maps(wanted)
            }
            Kind::MaxPool if !node.reads => output + self.maps(wanted),
            Kind::Slice | Kind::Resize => output + self.maps(wanted),
            _ => output + inputs + self.maps(wanted),
        }
    }

    /// Bytes of maps of all images.
    fn maps(&self, values: &[usize]) -> u64 {
        let elements: u64 = values.iter().map(|value| self.graph.maps[*value].elements()).sum();
        elements * (self.situation.micro_batch * self.situation.precision.bytes()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;
    use kindling_layers::Precision;
    use kindling_layers::trace::{Describe, FeatureMap, Op, Value, Zeros};

    /// A product of 3 to 8 channels, a convolution of 8 to 16, its normalisation, and a product of 16 to 4 that reads through it.
    struct Network;

    fn conv(kernel: usize) -> Op {
        let padding = Zeros { before: [kernel / 2; 2], after: [kernel / 2; 2] };
        Op::Conv { kernel, stride: 1, dilation: 1, groups: 1, padding }
    }

    impl Describe for Network {
        fn describe(&self, input: Value, trace: &mut Trace) -> Value {
            let map = |channels| FeatureMap::square(channels, 10);
            trace.scope("stem", |trace| {
                let x = trace.scope("first", |trace| trace.push(conv(1), &[input], map(8), 24));
                let x = trace.scope("second", |trace| trace.push(conv(3), &[x], map(16), 1152));
                let x = trace.scope("norm", |trace| trace.push(Op::BatchNorm { epsilon: 1e-5 }, &[x], map(16), 32));
                trace.scope("third", |trace| trace.push(conv(1), &[x], map(4), 64))
            })
        }
    }

    fn works(precision: Precision) -> Vec<LayerWork> {
        let trace = Trace::of(&Network, FeatureMap::square(3, 10));
        let situation = Situation { precision, ..Situation::whole_batch(2, Target::Cpu { threads: 1 }) };
        work_by_layer(&trace, &situation)
    }

    /// By hand, for two images of 10x10. The convolution has 8 * 9 * 16 = 1152 weights and as many multiply-adds for each of 200 pixels.
    #[test]
    fn arithmetic_and_bytes_of_a_convolution_are_those_counted_by_hand() {
        let works = works(Precision::F32);
        let names: Vec<&str> = works.iter().map(|work| work.name.as_str()).collect();
        assert_eq!(names, ["stem.first", "stem.second", "stem.third"], "the normalisation is applied by its reader");
        let second = &works[1];
        assert_eq!(second.forward, Work { flops: 460_800, bytes: 4 * (1600 + 3200 + 1152) });
        // Of the output's gradient and the input: the gradients of input and weights. The former needs the weights.
        assert_eq!(second.backward, Work { flops: 921_600, bytes: 4 * (3200 + 1600 + 1600 + 1152 + 1152) });
    }

    #[test]
    fn images_have_no_gradient() {
        let first = &works(Precision::F32)[0];
        assert_eq!(first.forward, Work { flops: 9600, bytes: 4 * (600 + 1600 + 24) });
        assert_eq!(first.backward, Work { flops: 9600, bytes: 4 * (1600 + 600 + 24) });
    }

    /// The product that normalises while it reads has the gradients of scale and shift, 32 numbers, beside those of its 64 weights.
    #[test]
    fn an_operation_that_reads_through_a_normalisation_has_its_gradients_too() {
        let third = &works(Precision::F32)[2];
        assert_eq!(third.forward, Work { flops: 25_600, bytes: 4 * (3200 + 800 + 64) });
        assert_eq!(third.backward, Work { flops: 51_200, bytes: 4 * (800 + 3200 + 3200 + 64 + 64 + 32) });
    }

    #[test]
    fn maps_of_a_half_format_take_half_the_bytes_and_weights_do_not() {
        assert_eq!(works(Precision::Bf16)[1].forward, Work { flops: 460_800, bytes: 2 * (1600 + 3200) + 4 * 1152 });
    }

    #[test]
    fn an_operation_takes_as_long_as_the_slower_of_arithmetic_and_memory() {
        let work = Work { flops: 460_800, bytes: 23_808 };
        let computing = work.bound(Peak { flops: 1e9, bytes: 1e8 });
        assert_eq!((computing.seconds(), computing.by()), (460_800.0 / 1e9, Side::Arithmetic));
        let moving = work.bound(Peak { flops: 1e9, bytes: 1e7 });
        assert_eq!((moving.seconds(), moving.by()), (23_808.0 / 1e7, Side::Memory));
        let both: Bound = [computing, moving].into_iter().sum();
        assert_eq!((both.seconds(), both.by()), (460_800.0 / 1e9 + 23_808.0 / 1e7, Side::Memory));
    }

    /// 24 + 1152 + 32 + 64 weights. AdamW reads weight, gradient and two moments, and writes weight and moments.
    #[test]
    fn an_update_moves_weights_gradients_and_moments() {
        let trace = Trace::of(&Network, FeatureMap::square(3, 10));
        let situation = Situation::whole_batch(2, Target::Cpu { threads: 1 });
        assert_eq!(work_of_update(&trace, &situation), Work { flops: 0, bytes: 1272 * 4 * 7 });
    }
}
