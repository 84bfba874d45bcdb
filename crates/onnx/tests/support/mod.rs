//! What the tests in onnxruntime share.

pub(crate) mod interpreter;
pub(crate) mod python;
pub(crate) mod weights;
