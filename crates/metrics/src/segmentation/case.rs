//! A case with its scores, as it is stored and summarised.

use serde::{Deserialize, Serialize};

use super::scorer::ClassMaskScores;

/// A class that is scored, with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedClass {
    /// Name of the class for tables and pages.
    pub name: String,
    /// Its label in the maps; 0 is background, usually.
    pub label: u32,
}

/// The unit of distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LengthUnit {
    /// Pixels, where nothing says how large they are: cases were scored with a spacing of 1.
    #[default]
    #[serde(rename = "pixels")]
    Pixels,
    /// Millimetres, where cases were scored with the spacing of their voxels.
    #[serde(rename = "mm")]
    Millimetres,
}

impl std::fmt::Display for LengthUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pixels => "pixels",
            Self::Millimetres => "mm",
        })
    }
}

/// An image or a volume, and how well its classes were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SegmentedCase {
    /// Name of the case in its data set.
    pub sample: String,
    /// What it must not be parted from: the patient, usually. A case without one is a patient of its own.
    pub group: Option<String>,
    /// `val`, `test` or what else it was evaluated as.
    pub split: String,
    /// The scores of each class, as [`SegmentationScorer::case`](crate::SegmentationScorer::case) gives them.
    pub scores: Vec<ClassMaskScores>,
}

impl SegmentedCase {
    /// Whether this is the same case, by name, patient and size of each true mask, as that of another model.
    pub fn is_paired_with(&self, other: &Self) -> bool {
        let truths = |case: &Self| -> Vec<(u32, u64)> {
            let of =
                |scores: &ClassMaskScores| scores.voxels.true_positives.saturating_add(scores.voxels.false_negatives);
            case.scores.iter().map(|scores| (scores.class, of(scores))).collect()
        };
        (&self.sample, &self.group) == (&other.sample, &other.group) && truths(self) == truths(other)
    }
}
