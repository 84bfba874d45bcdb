//! The zoo: the models of Kindling by name, with their metadata, their trace and their weights.

mod adversaries;
mod catalogue;
mod error;
mod gans;
mod network;
mod pretrained;
mod registry;
pub mod weights;

pub use adversaries::{GanCritic, GanGenerator};
pub use error::ZooError;
pub use gans::{GANS, GanEntry, GanOptions, GanTraces, find_gan};
pub use kindling_gan::Upsampling;
pub use network::Network;
pub use pretrained::{Filter, PRETRAINED, Pretrained};
pub use registry::{Model, ModelEntry, ModelName, ModelOptions, find, matches, models};
