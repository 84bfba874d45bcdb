//! The list of classifiers, family by family.

mod efficientnet;
mod mobilenet;
mod others;

use kindling_layers::names::Library;

use crate::network::NetworkConfig;
use crate::registry::{ModelEntry, ModelName};

/// Every model, in the order it is listed.
pub(crate) const MODELS: &[&[ModelEntry]] = &[mobilenet::MODELS, efficientnet::MODELS, others::MODELS];

/// A function that makes a model's configuration with a library's details.
pub(crate) type MakeConfig = fn(Library) -> NetworkConfig;

const fn torchvision(name: &'static str) -> ModelName {
    ModelName { name, library: Library::Torchvision }
}

const fn timm(name: &'static str) -> ModelName {
    ModelName { name, library: Library::Timm }
}

const fn tf(name: &'static str) -> ModelName {
    ModelName { name, library: Library::TimmTensorFlow }
}
