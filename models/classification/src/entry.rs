//! Entries of the registry of networks.

use kindling_layers::names::Library;

use crate::names::LayerNames;
use crate::network::NetworkConfig;

/// Returns the configuration of a model with the details of a library.
pub type MakeConfig = fn(Library) -> NetworkConfig;

/// Metadata of a network.
#[derive(Clone, Copy, Debug)]
pub struct ModelEntry {
    /// Its names. The first one is torchvision's if torchvision has the network, otherwise timm's.
    pub names: &'static [ModelName],
    /// The name that the architectures of its kind share, as `EfficientNet`.
    pub family: &'static str,
    /// Authors, year and address of the paper.
    pub paper: &'static str,
    /// Side of the images that it was designed for, in pixels.
    pub native_size: usize,
    /// What sets it apart, in a few words for a list.
    pub about: &'static str,
    /// Makes its layers, with the details of the library whose name was asked for.
    pub config: MakeConfig,
    /// Names of its layers in other libraries.
    pub layer_names: LayerNames,
}

impl ModelEntry {
    /// The name that lists and messages show: the first of [`ModelEntry::names`].
    pub fn name(&self) -> &'static str {
        self.names[0].name
    }
}

/// A name of a network in a library. The library determines details of the network: epsilon and momentum of batch normalisation, and
/// padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// As the library writes it, in lower case: `mobilenetv3_small_100`.
    pub name: &'static str,
    /// Whose details and weights the network has under this name.
    pub library: Library,
}

/// What the models of a paper share.
pub(crate) struct Paper {
    pub(crate) family: &'static str,
    /// Authors, year and address.
    pub(crate) source: &'static str,
    pub(crate) layer_names: LayerNames,
}

impl Paper {
    /// A model of the paper; `about` is a short description.
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
