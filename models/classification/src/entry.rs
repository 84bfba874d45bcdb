//! What the registry lists of a network.

use kindling_layers::names::Library;

use crate::names::LayerNames;
use crate::network::NetworkConfig;

/// Makes a model's configuration with a library's details.
pub type MakeConfig = fn(Library) -> NetworkConfig;

/// What is known about a network before it is built.
#[derive(Clone, Copy, Debug)]
pub struct ModelEntry {
    /// Its names; the first is its own: torchvision's where torchvision has the network, timm's otherwise.
    pub names: &'static [ModelName],
    /// Its family.
    pub family: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Side of the images it was designed for, in pixels.
    pub native_size: usize,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What makes it.
    pub config: MakeConfig,
    /// What other libraries call its layers.
    pub layer_names: LayerNames,
}

impl ModelEntry {
    /// The network's own name.
    pub fn name(&self) -> &'static str {
        self.names[0].name
    }
}

/// A name of a network, and the library that calls it so. The name decides the details: epsilon and momentum of batch
/// normalisation, padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The name.
    pub name: &'static str,
    /// The library.
    pub library: Library,
}

/// What the models of a paper have in common.
pub(crate) struct Paper {
    pub(crate) family: &'static str,
    /// Authors, year and address.
    pub(crate) source: &'static str,
    pub(crate) layer_names: LayerNames,
}

impl Paper {
    /// One of its models; `about` in a few words.
    pub(crate) const fn model(
        &self,
        names: &'static [ModelName],
        native_size: usize,
        about: &'static str,
        config: MakeConfig,
    ) -> ModelEntry {
        let &Self { family, source: paper, layer_names } = self;
        ModelEntry { names, family, paper, native_size, about, config, layer_names }
    }
}

pub(crate) const fn torchvision(name: &'static str) -> ModelName {
    ModelName { name, library: Library::Torchvision }
}

pub(crate) const fn timm(name: &'static str) -> ModelName {
    ModelName { name, library: Library::Timm }
}

/// timm's name for a network with TensorFlow's details.
pub(crate) const fn tf(name: &'static str) -> ModelName {
    ModelName { name, library: Library::TimmTensorFlow }
}
