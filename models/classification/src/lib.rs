//! Every classifier of the zoo, a file a paper.
//!
//! A file holds the paper's table, the functions named after its models, a block where the paper has one of its own, what
//! torchvision and timm call the layers, and `MODELS`, what the registry lists. Functions that take a [`Library`] follow
//! its details, so that this library's weights give its outputs.

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
