//! Why the data set is not to be had, as one sentence each.

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
        /// Where the volumes are looked for.
        folder: PathBuf,
        /// The first one that is missing.
        missing: String,
    },
    /// A volume is there, but is not what the fetch script brought.
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
    /// A volume is there, but the system does not let it be read.
    #[error(transparent)]
    Data(#[from] DataError),
}
