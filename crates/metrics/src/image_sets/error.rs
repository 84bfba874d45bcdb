//! What cannot be measured.

/// Why two sets of features have no distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// A set is too small.
    #[error("{found} images are too few to compare; it takes at least {needed}")]
    TooFew {
        /// Images there are.
        found: usize,
        /// Images it takes.
        needed: usize,
    },
    /// The sets are of different features.
    #[error("features of {0} numbers cannot be compared with features of {1}")]
    Widths(usize, usize),
    /// A feature is not a number.
    #[error("a feature is not a finite number")]
    NotFinite,
    /// The numbers are no whole rows.
    #[error("{numbers} numbers are no rows of {width}")]
    NoRows {
        /// Numbers given.
        numbers: usize,
        /// Numbers of a row.
        width: usize,
    },
}
