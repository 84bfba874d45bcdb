//! Weights in safetensors files, under Kindling's own tensor names.

use std::path::Path;

use burn::module::Module;
use kindling_layers::parameters;
use kindling_layers::tensors::{self, Tensors};

use crate::error::ZooError;

/// Reads a weights file.
///
/// # Errors
/// [`ZooError::Io`] or [`ZooError::Corrupt`].
pub fn read(path: &Path) -> Result<Tensors, ZooError> {
    let bytes =
        std::fs::read(path).map_err(|source| ZooError::Io { action: "read", path: path.to_path_buf(), source })?;
    tensors::from_bytes(&bytes).map_err(|reason| ZooError::Corrupt { path: path.to_path_buf(), reason })
}

/// Fills a model from a weights file.
///
/// # Errors
/// As [`read`], and [`ZooError::OtherModel`] with the first tensor that does not fit; nothing is skipped silently.
pub fn load<M: Module>(model: M, name: &str, path: &Path) -> Result<M, ZooError> {
    parameters::write(model, read(path)?).map_err(|mismatch| ZooError::OtherModel {
        path: path.to_path_buf(),
        model: name.to_string(),
        mismatch,
    })
}
