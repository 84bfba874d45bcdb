//! One door for folders, manifests and shards.

use std::path::Path;

use crate::{DataError, Opened, Opening, open_folder_with, open_manifest, shards};

/// Opens whatever a path leads to: a manifest (`.csv`, `.jsonl`, `.ndjson`), a shard (`.tar`) or a folder of shards, or a
/// folder with one sub-folder a class.
///
/// # Errors
/// Any [`DataError`] of data sets, with the path.
pub fn open_path(path: &Path, opening: &Opening) -> Result<Opened, DataError> {
    let is = |extensions: &[&str]| {
        path.extension().is_some_and(|have| extensions.iter().any(|known| have.eq_ignore_ascii_case(known)))
    };
    if is(&["csv", "jsonl", "ndjson"]) && !path.is_dir() {
        open_manifest(path, opening)
    } else if is(&["tar"]) || (path.is_dir() && shards::are_in(path)) {
        shards::open(path, opening)
    } else if path.is_dir() || !path.exists() {
        open_folder_with(path, opening)
    } else {
        Err(DataError::NoDataset { path: path.to_owned() })
    }
}
