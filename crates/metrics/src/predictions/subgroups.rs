//! Scores by the values of a column: sex, scanner, hospital.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::answers::Predictions;
use super::bootstrap::Resampling;
use super::columns::Figure;
use super::whole::overall;

/// The images that share a value of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Subgroup {
    /// The value of the column that the group has in common.
    pub value: String,
    /// Number of images in the group.
    pub images: usize,
    /// Number of patients that these images are of.
    pub patients: usize,
    /// Scores as [`Scores::figures`](crate::Scores::figures).
    pub figures: Vec<Figure>,
}

/// Scores by the values of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subgroups {
    /// Name of the column that says which group an image is in.
    pub column: String,
    /// One a value, in the order of their names.
    pub groups: Vec<Subgroup>,
    /// What is not shown and why, as sentences.
    pub left_out: Vec<String>,
}

/// Up to so many values of a column are groups, and a group needs so many images.
const MOST_SUBGROUPS: usize = 20;
const LEAST_IMAGES: usize = 10;

impl Subgroups {
    /// Scores by the values of a column: `values[i]` is that of image `i`. What is left out is said: images without a value, groups
    /// of fewer than 10 images, and all beyond the 20 largest.
    pub fn of(column: &str, values: &[Option<String>], predictions: &Predictions, resampling: Resampling) -> Self {
        Self::scored(column, values, predictions.images(), |images| {
            let of = predictions.only(images).ok()?;
            let (images, patients) = (of.images(), of.patients());
            Some(Subgroup { value: String::new(), images, patients, figures: overall(&of, resampling) })
        })
    }

    /// As [`Subgroups::of`], with the scores that `score` gives to some of so many images.
    pub(crate) fn scored(
        column: &str,
        values: &[Option<String>],
        images: usize,
        score: impl Fn(&[usize]) -> Option<Subgroup>,
    ) -> Self {
        let mut by_value: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut without = 0;
        for (image, value) in values.iter().enumerate().take(images) {
            match value.as_deref().filter(|value| !value.is_empty()) {
                Some(value) => by_value.entry(value).or_default().push(image),
                None => without += 1,
            }
        }
        let mut sizes: Vec<usize> = by_value.values().map(Vec::len).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let smallest = sizes.get(MOST_SUBGROUPS).map_or(LEAST_IMAGES, |next| LEAST_IMAGES.max(next + 1));
        let mut found = Self { column: column.to_owned(), ..Self::default() };
        if without > 0 {
            found.left_out.push(format!("{without} images have no value"));
        }
        for (value, images) in by_value {
            let scored = if images.len() >= smallest { score(&images) } else { None };
            match scored {
                Some(group) => found.groups.push(Subgroup { value: value.to_owned(), ..group }),
                None => {
                    let least =
                        if smallest == LEAST_IMAGES { "fewer than 10 images" } else { "not one of the 20 largest" };
                    found.left_out.push(format!("{value}: {} images, {least}", images.len()));
                }
            }
        }
        found
    }
}
