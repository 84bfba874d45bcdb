//! The operations of a network as they run.

use kindling_layers::Activation;

/// An operation with its gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A convolution through im2col.
    Dense {
        kernel: usize,
        stride: usize,
        dilation: usize,
        before: [usize; 2],
    },
    /// One filter a channel, that reaches over so many pixels.
    Depthwise {
        reach: usize,
        stride: usize,
    },
    /// A 3x3 convolution that enlarges its first input while it reads it, and has the channels of a second one beside.
    Enlarging,
    /// A matrix product.
    Pointwise,
    /// Normalisation and activation.
    NormAct(Activation),
    Activation(Activation),
    /// A sum, with the activation after it if that is part of the operation.
    Add(Activation),
    Multiply,
    Mean,
    Linear,
    MaxPool,
    Slice,
    Concat,
    /// A map of another size. Keeps nothing.
    Resize,
    /// Does nothing: the operations after it apply it while they read.
    Deferred,
    /// Anything else: keeps its input and computes a map.
    Other,
}

/// The part of a network that an operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The first convolution, with its pooling.
    Stem,
    /// A block of a stage.
    Block(usize, usize),
    /// The last convolution.
    Features,
    /// A part of a block of a decoder that can be recomputed.
    Decoder(usize, usize),
    /// Everything after those, which is never recomputed.
    Tail,
}

/// One operation of a step.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Number of the layer that it is shown as.
    pub(super) layer: usize,
    pub(super) inputs: Vec<usize>,
    pub(super) output: usize,
    /// Elements of the gradient of each parameter tensor; empty if frozen.
    pub(super) params: Vec<u64>,
    /// Burn's backward pass visits operations by decreasing level, and within a level the last one first.
    pub(super) level: usize,
    pub(super) place: Place,
    pub(super) frozen: bool,
    /// Whether it normalises its (first) input while it reads it.
    pub(super) reads: bool,
    /// Whether its output is recomputed where the backward pass needs it.
    pub(super) rebuilt: bool,
    /// Whether inference on the CPU computes it as a part of a later operation, and does not store its output.
    pub(super) inside: bool,
    /// Whether it may be of the kind [`Kind::Enlarging`].
    pub(super) enlarges: bool,
}
