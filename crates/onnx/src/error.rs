//! Errors of the export to ONNX.

use kindling_layers::trace::{FeatureMap, LayerTrace};

/// An error of the export; each displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnnxError {
    /// The trace is empty, so there is no output.
    #[error("a network without layers has no output to write as ONNX")]
    NoLayers,
    /// The model, the input or the output cannot have this name.
    #[error("`{0}` cannot name the model, its input or its output: it is empty or already the name of something else")]
    Name(String),
    /// A tensor of a layer is missing.
    #[error("the tensor `{0}` is missing")]
    MissingTensor(String),
    /// A tensor does not have the shape that its layer needs.
    #[error("the tensor `{name}` has shape {found:?} where its layer needs {expected:?}")]
    TensorShape {
        /// Name of the tensor.
        name: String,
        /// What the layer needs.
        expected: Vec<usize>,
        /// The shape found.
        found: Vec<usize>,
    },
    /// A tensor is neither float32 nor float64.
    #[error("the tensor `{name}` cannot be written as float32: {reason}")]
    TensorType {
        /// Name of the tensor.
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
        /// Why not.
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
    /// A file of the format can have at most 2 GB.
    #[error("the network takes {bytes} bytes as ONNX, and a file of that format holds at most {limit}")]
    TooLarge {
        /// Bytes of the network.
        bytes: usize,
        /// The most bytes of a file.
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

/// The shape of a map in errors: `channels x height x width`.
pub(crate) fn size_of(map: FeatureMap) -> String {
    format!("{}x{}x{}", map.channels, map.height, map.width)
}
