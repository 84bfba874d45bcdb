//! Errors of opening the data set.

use std::path::PathBuf;

use kindling_data::DataError;

/// An error while opening the data set.
#[derive(Debug, thiserror::Error)]
pub enum BrainMriOrientationError {
    /// A volume is not in the cache folder.
    #[error(
        "brain-mri-orientation is not here ({missing} is missing): run scripts/fetch-brain-mri-orientation.sh (it downloads 28 MB and \
         keeps 17 MB in {folder:?})"
    )]
    NotFetched {
        /// The folder of the volumes.
        folder: PathBuf,
        /// The first one that is missing.
        missing: String,
    },
    /// A volume exists, but is not the one that the fetch script downloads.
    #[error(
        "{path:?} is damaged ({reason}): run scripts/fetch-brain-mri-orientation.sh again, it replaces damaged files and only \
         those"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A volume exists, but cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
}
