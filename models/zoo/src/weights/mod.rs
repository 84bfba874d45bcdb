//! Weights in and out of a network: files of PyTorch and of Kindling, keys of other libraries and our own.

mod export;
mod file;
mod import;
mod keys;

pub use export::export;
pub use file::read;
pub use import::{Adapt, Import, import};

use std::path::Path;

use crate::error::ZooError;
use crate::network::Network;

/// Fills a network from a file, whatever its format and whoever's its keys: [`read`] and [`import`].
///
/// # Errors
/// As [`read`], and [`ZooError::OtherModel`] with the first tensor that does not fit.
pub fn load(network: Network, name: &str, path: &Path, adapt: Adapt) -> Result<(Network, Import), ZooError> {
    import(network, read(path)?, adapt).map_err(|mismatch| ZooError::OtherModel {
        path: path.to_path_buf(),
        model: name.to_string(),
        mismatch,
    })
}
