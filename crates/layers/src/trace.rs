//! The trace of a network: the graph of its primitive layers for an input shape.
//!
//! Every block describes itself: which primitive layers run, on which values, with what name, output shape, parameters and
//! multiply-adds. Tables, counts, the export to ONNX and the memory planner are all derived from this one graph.

use std::fmt;

use kindling_ops::{Activation, Interpolation};

/// The shape of the feature map of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureMap {
    /// Values that each pixel has.
    pub channels: usize,
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
}

impl FeatureMap {
    /// A square map.
    pub fn square(channels: usize, size: usize) -> Self {
        Self { channels, height: size, width: size }
    }

    /// A map of one pixel, which is the output of pooling and linear layers.
    pub fn vector(channels: usize) -> Self {
        Self::square(channels, 1)
    }

    /// Elements of one image.
    pub fn elements(&self) -> u64 {
        (self.channels * self.height * self.width) as u64
    }
}

/// A value of the graph: the output of a layer, or the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Shape of the value.
    pub map: FeatureMap,
    /// The layer that produced it, counted from 1; 0 is the input of the network.
    pub id: usize,
}

/// Zeros around a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zeros {
    /// Rows above and columns to the left.
    pub before: [usize; 2],
    /// Rows below and columns to the right.
    pub after: [usize; 2],
}

/// A primitive operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// A convolution with square kernel.
    Conv {
        /// Side of the kernel.
        kernel: usize,
        /// Input pixels from one output pixel to the next, in both directions.
        stride: usize,
        /// Pixels from one tap of the kernel to the next.
        dilation: usize,
        /// 1, or the number of channels if depthwise.
        groups: usize,
        /// Padding of the input.
        padding: Zeros,
    },
    /// A transposed convolution with square kernel.
    ConvTranspose {
        /// Side of the kernel.
        kernel: usize,
        /// Output pixels from one input pixel to the next, in both directions.
        stride: usize,
        /// Rows and columns that are cut off each side of the output.
        padding: usize,
    },
    /// Batch normalisation.
    BatchNorm {
        /// Added to the variance.
        epsilon: f64,
    },
    /// A linear layer with bias.
    Linear,
    /// An activation function.
    Activation(Activation),
    /// The sum of two values.
    Add,
    /// The product of two values, of which the second has one pixel or the shape of the first.
    Multiply,
    /// Every value times a constant.
    Scale {
        /// The constant.
        factor: f64,
    },
    /// The mean of each plane.
    GlobalAveragePool,
    /// The mean over the cells of a grid of `output` x `output`, divided as in PyTorch's adaptive pooling.
    AdaptiveAveragePool {
        /// Side of the grid.
        output: usize,
    },
    /// The mean over windows that do not overlap.
    AveragePool {
        /// Side and stride.
        kernel: usize,
    },
    /// The largest value of each window.
    MaxPool {
        /// Side of the window.
        kernel: usize,
        /// Pixels from one window to the next, in both directions.
        stride: usize,
        /// Rows and columns of padding on each side, which no maximum comes from.
        padding: usize,
    },
    /// The channels of several values, one after the other.
    Concat,
    /// A range of channels.
    Slice {
        /// The first channel.
        start: usize,
        /// The channel after the last.
        end: usize,
    },
    /// Every pixel becomes a square of pixels.
    Upsample {
        /// Side of the square.
        factor: usize,
    },
    /// A map of another size, by interpolation.
    Resize {
        /// How.
        interpolation: Interpolation,
    },
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conv { kernel: 1, groups: 1, .. } => f.write_str("pointwise"),
            Self::Conv { kernel, groups: 1, .. } => write!(f, "conv {kernel}x{kernel}"),
            Self::Conv { kernel, .. } => write!(f, "depthwise {kernel}x{kernel}"),
            Self::ConvTranspose { kernel, .. } => write!(f, "transposed {kernel}x{kernel}"),
            Self::BatchNorm { .. } => f.write_str("batch norm"),
            Self::Linear => f.write_str("linear"),
            Self::Activation(activation) => write!(f, "{activation}"),
            Self::Add => f.write_str("add"),
            Self::Multiply => f.write_str("multiply"),
            Self::Scale { factor } => write!(f, "times {factor}"),
            Self::GlobalAveragePool => f.write_str("global mean"),
            Self::AdaptiveAveragePool { output } => write!(f, "mean to {output}x{output}"),
            Self::AveragePool { kernel } => write!(f, "mean {kernel}x{kernel}"),
            Self::MaxPool { kernel, .. } => write!(f, "max {kernel}x{kernel}"),
            Self::Concat => f.write_str("concatenate"),
            Self::Slice { start, end } => write!(f, "channels {start}..{end}"),
            Self::Upsample { factor } => write!(f, "upsample {factor}x"),
            Self::Resize { .. } => f.write_str("resize"),
        }
    }
}

/// One primitive layer of a trace, for one image.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTrace {
    /// Dotted path of the layer in the model, as in its weights file; for a layer without weights, of the block that runs it.
    pub name: String,
    /// The operation; displays as `conv 3x3`, `depthwise 5x5`, `batch norm`, `linear`, ...
    pub op: Op,
    /// [`Value::id`]s of its inputs.
    pub inputs: Vec<usize>,
    /// Shape of its output.
    pub output: FeatureMap,
    /// Trainable parameters.
    pub params: u64,
    /// Multiply-adds of convolutions and linear layers.
    pub macs: u64,
    /// Elements of the outputs of convolutions and linear layers.
    pub activations: u64,
    /// Whether the output is recomputed in the backward pass instead of being kept ([`crate::ConvNorm::pass_rebuilt`]).
    pub rebuilt: bool,
    /// Whether inference on the CPU stores no output, because the layer is a part of a larger operation
    /// ([`kindling_ops::inverted_residual()`]).
    pub inside: bool,
    /// Whether it may enlarge its input while it reads it, and read what is beside that input as it is
    /// ([`crate::Conv2d::read_enlarged`]).
    pub enlarges: bool,
}

/// The layers of a model in the order they run, for one image of a given shape.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The input of the network.
    pub input: FeatureMap,
    /// The primitive layers.
    pub layers: Vec<LayerTrace>,
    /// The last value of each resolution, finest first, as a decoder reads them.
    pub stages: Vec<Stage>,
    path: Vec<String>,
}

/// A feature map that a network can return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Path of the block that produces it.
    pub name: String,
    /// The map.
    pub value: Value,
}

impl Trace {
    /// The trace of a model for one image of shape `input`.
    pub fn of(model: &impl Describe, input: FeatureMap) -> Self {
        let mut trace = Self { input, layers: Vec::new(), stages: Vec::new(), path: Vec::new() };
        model.describe(Value { map: input, id: 0 }, &mut trace);
        trace
    }

    /// Runs `body` with `name` added to the path.
    pub fn scope<R>(&mut self, name: impl Into<String>, body: impl FnOnce(&mut Self) -> R) -> R {
        self.path.push(name.into());
        let result = body(self);
        self.path.pop();
        result
    }

    /// Adds a layer with `params` trainable parameters at the current path.
    pub fn push(&mut self, op: Op, inputs: &[Value], output: FeatureMap, params: u64) -> Value {
        let elements = output.elements();
        let channels = output.channels as u64;
        let (macs, activations) = match op {
            Op::Conv { .. } => (elements * (params / channels), elements),
            // One multiply-add for each pixel of the input and each weight.
            Op::ConvTranspose { .. } => {
                (inputs.first().map_or(0, |input| (input.map.height * input.map.width) as u64 * params), elements)
            }
            // Weights without the bias.
            Op::Linear => (params - channels, elements),
            _ => (0, 0),
        };
        let inputs = inputs.iter().map(|input| input.id).collect();
        let name = self.here();
        self.layers.push(LayerTrace {
            name,
            op,
            inputs,
            output,
            params,
            macs,
            activations,
            rebuilt: false,
            inside: false,
            enlarges: false,
        });
        Value { map: output, id: self.layers.len() }
    }

    /// Adds a layer without parameters, under a name of its own at the current path.
    pub fn apply(&mut self, name: &str, op: Op, inputs: &[Value], output: FeatureMap) -> Value {
        self.scope(name, |trace| trace.push(op, inputs, output, 0))
    }

    /// Adds an activation function, unless it is the identity.
    pub fn activation(&mut self, activation: Activation, input: Value) -> Value {
        match activation {
            Activation::Identity => input,
            _ => self.apply("act", Op::Activation(activation), &[input], input.map),
        }
    }

    /// Adds the sum of two values.
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.apply("add", Op::Add, &[a, b], a.map)
    }

    /// Records that the layer that produced a value recomputes it in the backward pass.
    pub fn rebuilt(&mut self, value: Value) {
        if let Some(layer) = value.id.checked_sub(1).and_then(|index| self.layers.get_mut(index)) {
            layer.rebuilt = true;
        }
    }

    /// Records that the convolution that produced a value may enlarge its input while it reads it.
    pub fn enlarged(&mut self, value: Value) {
        if let Some(layer) = value.id.checked_sub(1).and_then(|index| self.layers.get_mut(index)) {
            layer.enlarges = true;
        }
    }

    /// Records that inference on the CPU does not store the outputs of the first `count` convolutions from this layer on.
    pub fn inside(&mut self, layer: usize, count: usize) {
        let convolutions = self.layers.iter_mut().skip(layer).filter(|layer| matches!(layer.op, Op::Conv { .. }));
        convolutions.take(count).for_each(|layer| layer.inside = true);
    }

    /// Records that the network can return this value as the feature map of a stage. It replaces an earlier one of the same size.
    pub fn stage(&mut self, value: Value) {
        if self.stages.last().is_some_and(|stage| stage.value.map.height == value.map.height) {
            self.stages.pop();
        }
        self.stages.push(Stage { name: self.here(), value });
    }

    fn here(&self) -> String {
        self.path.join(".")
    }

    /// Trainable parameters of the model.
    pub fn params(&self) -> u64 {
        self.layers.iter().map(|layer| layer.params).sum()
    }

    /// Multiply-adds for one image.
    pub fn macs(&self) -> u64 {
        self.layers.iter().map(|layer| layer.macs).sum()
    }

    /// Elements of convolution and linear outputs for one image.
    pub fn activations(&self) -> u64 {
        self.layers.iter().map(|layer| layer.activations).sum()
    }
}

/// A block that can describe itself.
pub trait Describe {
    /// Adds this block's layers for an input and returns the value of its output.
    fn describe(&self, input: Value, trace: &mut Trace) -> Value;
}
