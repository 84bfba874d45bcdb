//! Errors of comparing sets of images.

/// Why two sets of features have no distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// A set is too small.
    #[error("{found} images are too few to compare; at least {needed} are needed")]
    TooFew {
        /// Images in the set.
        found: usize,
        /// Images that are needed.
        needed: usize,
    },
    /// The features of the sets have different lengths.
    #[error("features of {0} numbers cannot be compared with features of {1}")]
    Widths(usize, usize),
    /// A feature is not a number.
    #[error("a feature is not a finite number")]
    NotFinite,
    /// The numbers do not form whole rows.
    #[error("{numbers} numbers do not form rows of {width}")]
    NoRows {
        /// Numbers given.
        numbers: usize,
        /// Numbers of a row.
        width: usize,
    },
}
