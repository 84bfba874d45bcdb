//! One row of a batch: a sample read, fitted, augmented and written to its place.

use kindling_random::{Purpose, rng};
use rand::RngExt;

use super::Loader;
use super::sampling::Place;
use crate::augment::{Draw, Policy};
use crate::decode::{IGNORED, Image, Mask};
use crate::error::DataError;
use crate::source::{BadSample, OnBadSample, Task, check_sizes, guarded};

/// How many samples are tried in the place of a bad one before giving up.
const REPLACEMENTS: usize = 16;
/// How many are looked at for one of the same class.
const LOOKS: usize = 64;
/// The showing of a replacement is this and the sample it replaces: never that of a sample in its own place.
const REPLACING: u64 = 1 << 59;

/// A row that a worker has filled, or could not fill.
pub(super) struct Row {
    /// Whose image it is; none if the sample was left out.
    pub(super) draw: Option<Draw>,
    /// The sample that could not be read, where there is one.
    pub(super) bad: Option<BadSample>,
}

impl Loader {
    /// Makes one row. `write` gets the image, as the model is to see it but for the normalisation, and its mask if there are any.
    ///
    /// # Errors
    /// That of the sample, if bad samples are not skipped or nothing can take its place.
    pub(super) fn make_row(
        &self,
        epoch: u64,
        place: Place,
        policy: &Policy,
        mut write: impl FnMut(&Image, Option<&Mask>),
    ) -> Result<Row, DataError> {
        let seed = self.config.seed;
        let own = Draw { seed, epoch, sample: place.sample, showing: place.showing };
        let error = match self.show(&own, policy, &mut write) {
            Ok(()) => return Ok(Row { draw: Some(own), bad: None }),
            Err(error) => error,
        };
        if !self.is_skipped(&error) {
            return Err(error);
        }
        let bad = self.bad(place.sample, &error);
        if !self.config.shuffle {
            return Ok(Row { draw: None, bad: Some(bad) });
        }
        for sample in self.replacements(epoch, place.sample) {
            let draw = Draw { seed, epoch, sample, showing: REPLACING | place.sample };
            if self.show(&draw, policy, &mut write).is_ok() {
                return Ok(Row { draw: Some(draw), bad: Some(BadSample { replacement: Some(sample), ..bad }) });
            }
        }
        Err(error)
    }

    /// Reads an image and its mask at their own size, as they are. What cannot be read is bad where bad samples are skipped.
    ///
    /// # Errors
    /// That of the sample, if bad samples are not skipped.
    pub fn read_at_own_size(&self, sample: u64) -> Result<Result<(Image, Mask), BadSample>, DataError> {
        let index = sample as usize;
        let read = || {
            let (image, mask) = (self.source.read(index)?, self.source.read_mask(index)?);
            check_sizes(|| self.source.name_of(index), (image.width, image.height), (mask.width, mask.height))?;
            self.check_classes(index, &mask)?;
            Ok((image, mask))
        };
        match guarded(self.source.as_ref(), index, read) {
            Ok(found) => Ok(Ok(found)),
            Err(error) if self.is_skipped(&error) => Ok(Err(self.bad(sample, &error))),
            Err(error) => Err(error),
        }
    }

    /// Whether a sample is left out for an error. Whether there is memory for a sample says nothing about the sample.
    fn is_skipped(&self, error: &DataError) -> bool {
        self.config.on_bad != OnBadSample::Fail && !matches!(error, DataError::ReservationRefused { .. })
    }

    /// A sample that could not be read, and that nothing stands for.
    fn bad(&self, sample: u64, error: &DataError) -> BadSample {
        let index = sample as usize;
        let name = guarded(self.source.as_ref(), index, || Ok(self.source.name_of(index)));
        let name = name.unwrap_or_else(|_| format!("sample {index}"));
        BadSample { sample, name, reason: error.to_string(), replacement: None }
    }

    /// A row that another process reads.
    pub(super) fn row_elsewhere(&self, epoch: u64, place: Place) -> Row {
        let draw = Draw { seed: self.config.seed, epoch, sample: place.sample, showing: place.showing };
        Row { draw: Some(draw), bad: None }
    }

    fn show(
        &self,
        draw: &Draw,
        policy: &Policy,
        write: &mut impl FnMut(&Image, Option<&Mask>),
    ) -> Result<(), DataError> {
        let index = draw.sample as usize;
        guarded(self.source.as_ref(), index, || {
            if self.config.has_masks() {
                let (image, mask) = self.source.read_with_mask(index, &self.config.preprocess)?;
                self.check_classes(index, &mask)?;
                let (image, mask) = policy.apply_with_mask(image, mask, draw);
                write(&image, Some(&mask));
            } else {
                let fitted = self.source.read_fitted(index, &self.config.preprocess)?;
                write(&policy.apply(fitted, draw), None);
            }
            Ok(())
        })
    }

    /// Fails at a class that a row of as many as there are has no place for.
    fn check_classes(&self, index: usize, mask: &Mask) -> Result<(), DataError> {
        let classes = self.config.classes;
        let largest = mask.classes.iter().copied().filter(|class| *class != IGNORED).max();
        match largest.filter(|class| classes > 0 && usize::from(*class) >= classes) {
            Some(class) => Err(DataError::MaskClass { name: self.source.name_of(index), class, classes }),
            None => Ok(()),
        }
    }

    /// What may stand in for a sample: others of its class as far as they can be found by looking at a few.
    fn replacements(&self, epoch: u64, sample: u64) -> impl Iterator<Item = u64> {
        let mut rng = rng(self.config.seed, Purpose::Replacement, epoch, sample);
        let len = self.source.len() as u128;
        let mut draw = move || ((u128::from(rng.random::<u64>()) * len) >> 64) as u64;
        let label = self.source.label(sample as usize);
        (0..REPLACEMENTS).map(move |_| {
            let mut candidate = draw();
            for _ in 1..LOOKS {
                if candidate != sample && self.source.label(candidate as usize) == label {
                    break;
                }
                candidate = draw();
            }
            candidate
        })
    }

    /// The target of a sample: a row of [`HostBatch::targets`](crate::HostBatch::targets).
    pub(super) fn target(&self, sample: u64, row: &mut [f32]) {
        match self.config.task {
            Task::MultiClass | Task::Ordinal => row[self.source.label(sample as usize)] = 1.0,
            Task::MultiLabel => self.source.labels(sample as usize).into_iter().for_each(|class| row[class] = 1.0),
            // Masks say all there is to know.
            Task::Segmentation => {}
            Task::Regression => row[0] = self.config.scale.of(self.source.value(sample as usize).unwrap_or(f64::NAN)),
        }
    }
}
