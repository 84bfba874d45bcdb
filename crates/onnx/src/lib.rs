//! Networks as ONNX files.
//!
//! The graph is written from the trace, layer by layer, with the weights under the names of Kindling's own files. The network does not
//! run, so no device is needed.
//!
//! A trace has maps of one pixel where other libraries have vectors. In the file, a value is a map `[batch, channels, height, width]` as
//! long as a later layer needs one, so that squeeze-excite needs no reshaping. If only linear layers, activations and factors follow, it is
//! a matrix `[batch, channels]`, and linear layers are `Gemm`. The network's input and output are matrices if they are vectors in the
//! trace.
//!
//! `lowering` walks the trace, `operation` and `activation` write each operation, `shape` checks that a trace's shapes follow from
//! each other, `form` says what is a map and what a matrix, and `proto` has the messages of the file.

mod activation;
mod encode;
mod error;
mod export;
mod form;
mod graph;
mod lowering;
mod names;
mod operation;
mod proto;
mod shape;
#[cfg(test)]
mod testing;

pub use encode::{OPSET, encode};
pub use error::OnnxError;
pub use export::Export;
