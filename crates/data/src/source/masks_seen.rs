//! Which classes occur in masks.

use rayon::prelude::*;

use super::{OnBadSample, Source, guarded};
use crate::error::DataError;

/// The classes in the mask of each sample, sorted: as the source knows them ([`Source::labels`]), and where it does not, after a look into
/// the mask, on all cores. A mask that cannot be read has none where bad samples are skipped. `progress` is called after every sample.
///
/// # Errors
/// Those of masks, unless they are skipped.
pub(crate) fn classes_in_masks(
    source: &dyn Source,
    on_bad: OnBadSample,
    progress: impl Fn() + Sync,
) -> Result<Vec<Vec<usize>>, DataError> {
    let look = |index: usize| {
        let known = source.labels(index);
        let found = match known.is_empty() {
            true => guarded(source, index, || Ok(source.read_mask(index)?.present())),
            false => Ok(known),
        };
        progress();
        match found {
            Err(_) if on_bad == OnBadSample::Skip => Ok(Vec::new()),
            found => found,
        }
    };
    (0..source.len()).into_par_iter().map(look).collect()
}
