//! The zoo: the models of Kindling by name, with their metadata, their trace and their weights.

mod error;
mod network;
pub mod reference;
mod registry;
pub mod weights;

pub use error::ZooError;
pub use network::Network;
pub use registry::{ModelEntry, ModelOptions, find, models};
