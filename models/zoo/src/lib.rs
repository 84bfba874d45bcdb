//! The zoo: the models of Kindling by name, with their metadata, their trace and their weights.

mod catalogue;
mod error;
mod gans;
mod network;
mod pretrained;
mod registry;
pub mod weights;

pub use error::ZooError;
pub use gans::{GANS, GanEntry, GanTraces};
pub use network::Network;
pub use pretrained::{Filter, PRETRAINED, Pretrained};
pub use registry::{Model, ModelEntry, ModelName, ModelOptions, find, matches, models};
