//! The mask of an image: where it lies, and what its numbers stand for.

use std::sync::Arc;

use super::mask_numbers::Numbers;
use super::{Format, Part};
use crate::decode::Mask;
use crate::error::DataError;

/// The mask of an image that is listed.
pub(crate) struct EntryMask {
    pub(crate) part: Part,
    pub(crate) format: Arc<dyn Format>,
    pub(crate) numbers: Arc<Numbers>,
}

impl EntryMask {
    /// Reads it.
    ///
    /// # Errors
    /// Any [`DataError`] of files and masks, with the path.
    pub(crate) fn read(&self) -> Result<Mask, DataError> {
        self.numbers.mask_of(&self.part.path, self.format.read_mask_values(&self.part)?)
    }
}
