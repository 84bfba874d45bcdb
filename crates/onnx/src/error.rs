//! Why a network cannot be written as an ONNX file.

use kindling_layers::trace::{FeatureMap, LayerTrace};

/// An error of the export: one sentence each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnnxError {
    /// The trace is empty, so there is no output.
    #[error("a network without layers has no output to write as ONNX")]
    NoLayers,
    /// The model, the input or the output cannot have this name.
    #[error("`{0}` cannot name the model, its input or its output: it is empty or already the name of something else")]
    Name(String),
    /// A layer's tensor is not there.
    #[error("the tensor `{0}` is missing")]
    MissingTensor(String),
    /// A tensor has another shape than its layer's.
    #[error("the tensor `{name}` has shape {found:?} where its layer needs {expected:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// What the layer needs.
        expected: Vec<usize>,
        /// The shape found.
        found: Vec<usize>,
    },
    /// A tensor holds something else than float32 or float64.
    #[error("the tensor `{name}` cannot be written as float32: {reason}")]
    TensorType {
        /// Its name.
        name: String,
        /// Its type, or why it cannot be read.
        reason: String,
    },
    /// The layer exists, but ONNX has no operation for this case of it.
    #[error("the layer `{layer}` ({op}) has no counterpart in ONNX: {reason}")]
    Unsupported {
        /// Its path.
        layer: String,
        /// What it is.
        op: String,
        /// What is special about it.
        reason: String,
    },
    /// The trace contradicts itself.
    #[error("the layer `{layer}` ({op}) does not fit into its network: {reason}")]
    Inconsistent {
        /// Its path.
        layer: String,
        /// What it is.
        op: String,
        /// What does not fit.
        reason: String,
    },
    /// The format's files end at 2 GB.
    #[error("the network takes {bytes} bytes as ONNX, and a file of that format holds at most {limit}")]
    TooLarge {
        /// What it takes.
        bytes: usize,
        /// What a file holds.
        limit: usize,
    },
}

impl OnnxError {
    pub(crate) fn unsupported(layer: &LayerTrace, reason: String) -> Self {
        Self::Unsupported { layer: layer.name.clone(), op: layer.op.to_string(), reason }
    }

    pub(crate) fn inconsistent(layer: &LayerTrace, reason: String) -> Self {
        Self::Inconsistent { layer: layer.name.clone(), op: layer.op.to_string(), reason }
    }
}

/// A map as errors write it: `channels x height x width`.
pub(crate) fn size_of(map: FeatureMap) -> String {
    format!("{}x{}x{}", map.channels, map.height, map.width)
}
