//! All classifiers of the zoo, with a file for each paper.
//!
//! A file contains the table of the paper, functions named after its models, its own block if it has one, the names of layers in
//! torchvision and timm, and `MODELS`, its entries in the registry. Functions that take a [`Library`] follow the details of that
//! library, so that its weights give its outputs.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod efficientnet;
pub mod efficientnet_lite;
pub mod efficientnet_v2;
mod entry;
pub mod ghostnet;
pub mod mixnet;
pub mod mnasnet;
pub mod mobilenet_v1;
pub mod mobilenet_v2;
pub mod mobilenet_v3;
pub mod mobilenet_v4;
mod names;
mod network;
pub mod resnet;
mod tables;

pub use entry::{MakeConfig, ModelEntry, ModelName};
pub use names::{LayerNames, Naming};
pub use network::{AnyBlock, AnyBlockConfig, Network, NetworkConfig};

#[cfg(doc)]
use kindling_layers::names::Library;
