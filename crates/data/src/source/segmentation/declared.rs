//! Files that declare which number of a mask is which class.

use std::path::Path;

use kindling_files as files;
use serde_json::{Map, Value};

use super::wrong;
use crate::error::DataError;
use crate::source::mask_numbers::Numbers;

/// The largest file of names that is read, in bytes.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// The files that are looked for beside the folders of a data set, the first one first.
const LABELS: &str = "labels.json";
const CLASSES: &str = "classes.txt";

/// What `labels.json` or else `classes.txt` in a folder declares; `None` where there is neither. The one is an object of names and numbers
/// either way around, `{"background": 0, "tumour": 1}` or `{"0": "background"}`, and the name `ignore` means pixels that count for nothing;
/// the other has a name a line, that of number 0 first.
///
/// # Errors
/// [`DataError::Segmentation`] with what is wrong with it.
pub(super) fn beside(dir: &Path) -> Result<Option<Numbers>, DataError> {
    let read = |path: &Path| {
        files::read_to_string(path, MAX_BYTES).map_err(|cause| DataError::Io { path: path.to_owned(), cause })
    };
    let (labels, classes) = (dir.join(LABELS), dir.join(CLASSES));
    if labels.is_file() {
        let object: Map<String, Value> = serde_json::from_str(&read(&labels)?)
            .map_err(|error| wrong(&labels, format!("it is not an object of names and numbers: {error}")))?;
        return named(&object).and_then(Numbers::declared).map(Some).map_err(|reason| wrong(&labels, reason));
    }
    if classes.is_file() {
        let text = read(&classes)?;
        let named = text.trim_end().lines().map(|line| line.trim().to_owned()).zip(0..).collect();
        return Numbers::declared(named).map(Some).map_err(|reason| wrong(&classes, reason));
    }
    Ok(None)
}

/// The names and numbers of an object, whichever are the keys.
///
/// # Errors
/// What is wrong with an entry.
pub(super) fn named(object: &Map<String, Value>) -> Result<Vec<(String, u64)>, String> {
    let entry = |(key, value): (&String, &Value)| match value {
        Value::Number(number) => number.as_u64().map(|number| (key.clone(), number)),
        Value::String(name) => key.trim().parse().ok().map(|number| (name.clone(), number)),
        _ => None,
    };
    object
        .iter()
        .map(|pair| match (entry(pair), pair.1) {
            (Some(entry), _) => Ok(entry),
            (None, Value::Array(_)) => Err(format!(
                "the label {:?} is a region of several numbers; a pixel has one class here, so give each number a name",
                pair.0
            )),
            (None, value) => Err(format!("{:?}: {value} is no name with a whole number", pair.0)),
        })
        .collect()
}
