//! What a layout of folders comes to: pairs of files, whichever tool laid them out.

use super::pairs::Pair;
use crate::error::DataError;
use crate::source::PassedOver;

/// The pairs that are found in the folders of a layout.
pub(super) struct Layout {
    /// Without a split where it is still to be drawn.
    pub(super) pairs: Vec<Pair>,
    /// Added to the description of the data set; may be empty.
    pub(super) about: String,
    pub(super) problems: Vec<DataError>,
    pub(super) passed_over: PassedOver,
}
