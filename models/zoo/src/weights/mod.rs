//! Import and export of weights: files of PyTorch and of Kindling, with keys of other libraries and our own.

mod export;
mod file;
mod import;
mod keys;

pub use export::{export, export_named};
pub use file::read;
pub use import::{
    Adapt, Import, classes, has_auxiliary, import, import_named, import_segmentation, segmentation_classes,
};

use std::path::Path;

use kindling_classification::Network;
use kindling_layers::tensors::Tensors;
use kindling_segmentation::SegmentationNetwork;

use crate::error::ZooError;
use crate::registry::Model;
use crate::segmentation::SegmentationModel;

/// Fills the network of a model from a file, whatever its format and its keys: [`read`] and [`import()`].
///
/// # Errors
/// As [`read`] and [`fill`].
pub fn load(network: Network, model: &Model, path: &Path, adapt: Adapt) -> Result<(Network, Import), ZooError> {
    fill(network, model, path, read(path)?, adapt)
}

/// Fills the network of a model with the tensors that were read from `path`.
///
/// # Errors
/// [`ZooError::OtherModel`] with the first tensor that does not fit.
pub fn fill(
    network: Network,
    model: &Model,
    path: &Path,
    tensors: Tensors,
    adapt: Adapt,
) -> Result<(Network, Import), ZooError> {
    import(network, model, tensors, adapt).map_err(|mismatch| ZooError::OtherModel {
        path: path.to_path_buf(),
        model: model.key(),
        mismatch,
    })
}

/// As [`load`], of a network for segmentation.
///
/// # Errors
/// As [`load`].
pub fn load_segmentation(
    network: SegmentationNetwork,
    model: &SegmentationModel,
    path: &Path,
    adapt: Adapt,
) -> Result<(SegmentationNetwork, Import), ZooError> {
    fill_segmentation(network, model, path, read(path)?, adapt)
}

/// As [`fill`], of a network for segmentation.
///
/// # Errors
/// As [`fill`].
pub fn fill_segmentation(
    network: SegmentationNetwork,
    model: &SegmentationModel,
    path: &Path,
    tensors: Tensors,
    adapt: Adapt,
) -> Result<(SegmentationNetwork, Import), ZooError> {
    import_segmentation(network, model, tensors, adapt).map_err(|mismatch| ZooError::OtherModel {
        path: path.to_path_buf(),
        model: model.key(),
        mismatch,
    })
}
