//! The three parts of a data set.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::DataError;

/// A part of a data set. Written `train`, `val` and `test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// What the model learns from.
    Train,
    /// What chooses the best weights.
    Val,
    /// What is reported.
    Test,
}

impl Split {
    /// All three.
    pub const ALL: [Split; 3] = [Split::Train, Split::Val, Split::Test];

    /// Its name: also the name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Val => "val",
            Split::Test => "test",
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Split {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        Self::ALL.into_iter().find(|split| split.name() == text).ok_or_else(|| DataError::UnknownName {
            kind: "split",
            given: text.to_owned(),
            known: "train, val, test",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for split in Split::ALL {
            assert_eq!(split.to_string().parse::<Split>().unwrap(), split);
            assert_eq!(serde_json::to_string(&split).unwrap(), format!("\"{split}\""));
        }
        assert!("Train".parse::<Split>().is_err());
    }
}
