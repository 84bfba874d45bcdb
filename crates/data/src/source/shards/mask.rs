//! The mask of a sample in a shard: where it lies, and what is said of its numbers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What the ending of a mask begins with: a sample `KEY` has the mask `KEY.mask.png`.
const MASK: &str = "mask.";
/// What a sample's `.json` has of its mask.
pub(super) const NUMBERS: &str = "labels";
pub(super) const PRESENT: &str = "present";

/// The mask of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SampleMask {
    /// Of the mask, in the shard.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Names and numbers of the classes, as a `labels.json` beside folders of masks has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) numbers: Option<Map<String, Value>>,
    /// Names of the classes that occur in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) present: Option<Vec<String>>,
}

/// Whether a picture with this ending is a mask.
pub(super) fn is_one(extension: &str) -> bool {
    extension.starts_with(MASK)
}

impl SampleMask {
    /// A mask that lies there, with what a `.json` says of it.
    ///
    /// # Errors
    /// What is wrong with that.
    pub(super) fn of(offset: u64, length: u64, json: Option<&Value>) -> Result<Self, String> {
        let numbers = match json.and_then(|json| json.get(NUMBERS)) {
            None => None,
            Some(Value::Object(numbers)) => Some(numbers.clone()),
            Some(_) => return Err(format!("`{NUMBERS}` of its .json is no object of names and numbers")),
        };
        let names = |value: &Value| serde_json::from_value::<Vec<String>>(value.clone()).ok();
        let present = match json.and_then(|json| json.get(PRESENT)).map(names) {
            None => None,
            Some(Some(names)) => Some(names),
            Some(None) => return Err(format!("`{PRESENT}` of its .json is no list of names")),
        };
        Ok(Self { offset, length, numbers, present })
    }
}
