//! The zoo: Kindling's models by name, with their metadata, traces and weights.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod adversaries;
mod catalogue;
mod error;
mod gans;
mod heads;
mod limits;
mod pretrained;
mod registry;
mod segmentation;
pub mod weights;

pub use adversaries::{GanDiscriminator, GanGenerator};
pub use error::ZooError;
pub use gans::{GANS, GanEntry, GanOptions, GanTraces, find_gan};
pub use kindling_classification::{ModelEntry, ModelName, Network};
pub use kindling_gan::Upsampling;
pub use kindling_segmentation::{DecoderKind, SegmentationNetwork};
pub use pretrained::{Filter, PRETRAINED, Pretrained, pretrained_for};
pub use registry::{Model, ModelOptions, find, is_called, matches, models};
pub use segmentation::{SegmentationModel, find_segmentation, is_segmentation, segmentation_models};
