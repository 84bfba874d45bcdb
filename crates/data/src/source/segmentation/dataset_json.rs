//! `dataset.json`, which nnU-Net and the Medical Segmentation Decathlon describe their data with.

use std::path::Path;

use kindling_files as files;
use serde_json::{Map, Value};

use super::declared::{MAX_BYTES, named};
use super::pairs::{self, Paired};
use super::splits_final::Splits;
use super::{decathlon, nnunet, wrong};
use crate::error::DataError;
use crate::source::mask_numbers::Numbers;
use crate::source::{Opened, Opening};
use crate::split::Split;

/// The file that marks a folder as one of these layouts.
pub(super) const NAME: &str = "dataset.json";

/// Opens a folder with a `dataset.json`.
pub(super) fn open(dir: &Path, opening: &Opening) -> Result<Opened, DataError> {
    let path = dir.join(NAME);
    let about = object(&path)?;
    let Some(Value::Object(labels)) = about.get("labels") else {
        return Err(wrong(
            &path,
            "it has no object `labels`, which says what the numbers in masks stand for".to_owned(),
        ));
    };
    let numbers = named(labels).and_then(Numbers::declared).map_err(|reason| wrong(&path, reason))?;
    let mut layout = match (about.get("file_ending"), about.get("training")) {
        (None, Some(training)) => decathlon::find(dir, &path, training)?,
        (ending, _) => nnunet::find(dir, &path, ending.and_then(Value::as_str), opening)?,
    };
    let splits = Splits::read(dir, opening.fold)?;
    if let Some(splits) = &splits {
        for pair in layout.pairs.iter_mut().filter(|pair| pair.split.is_none()) {
            pair.split = Some(splits.of(&pair.case)?);
        }
        splits
            .check(layout.pairs.iter().filter(|pair| pair.split != Some(Split::Test)).map(|pair| pair.case.as_str()))?;
    }
    let name = about.get("name").and_then(Value::as_str).map_or(String::new(), |name| format!(" ({name})"));
    let fold = splits.as_ref().map_or(String::new(), |splits| format!(", split by {}", splits.told()));
    // The fold is one of the file's, and not one that is drawn.
    let opening = Opening { fold: opening.fold.filter(|_| splits.is_none()), ..opening.clone() };
    let paired = Paired {
        path: dir.to_owned(),
        root: dir.to_owned(),
        about: format!("Images with masks in {}{name}{}{fold}", dir.display(), layout.about),
        pairs: layout.pairs,
        numbers: Some(numbers),
        problems: layout.problems,
        passed_over: layout.passed_over,
    };
    pairs::open(paired, &opening, |_, error| error)
}

/// A file that holds one JSON object.
fn object(path: &Path) -> Result<Map<String, Value>, DataError> {
    let text = files::read(path, MAX_BYTES).map_err(|cause| DataError::Io { path: path.to_owned(), cause })?;
    serde_json::from_slice(&text).map_err(|error| wrong(path, format!("it is not a JSON object: {error}")))
}
