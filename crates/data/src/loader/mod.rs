//! The streaming loader: global batches in a fixed order, made by background threads.
//!
//! Workers take places of the epoch one after the other, whichever is free, and fill them in; a batch is handed over
//! when all of its places are filled and those before it are gone. So the order cannot depend on timing. No more batches
//! are begun than fit into [`LoaderConfig::prefetch_bytes`].

mod batch;
mod epoch;
mod foreground;
mod row;
mod sampling;
mod scale;
mod stages;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use self::sampling::{Drawing, EpochOrder};
use crate::augment::Augment;
use crate::decode::Preprocess;
use crate::error::DataError;
use crate::source::{BadSample, MaxBad, OnBadSample, Source, Task};

pub use batch::HostBatch;
pub use epoch::EpochBatches;
pub use foreground::FOREGROUND_SHARE;
pub use sampling::Sampling;
pub use scale::Scale;
pub use stages::{Stage, measure_stages};

/// How batches are made.
#[derive(Clone, Debug, PartialEq)]
pub struct LoaderConfig {
    /// Samples in a global batch, at least 1. The last batch of an epoch may be smaller.
    pub batch_size: usize,
    /// Background threads; 0 is taken as 1. Has no influence on the batches.
    pub workers: usize,
    /// The seed of order and augmentation.
    pub seed: u64,
    /// How an image becomes model input.
    pub preprocess: Preprocess,
    /// What is done to the fitted image first.
    pub augment: Augment,
    /// Whether the order is drawn anew each epoch; otherwise it is that of the source.
    pub shuffle: bool,
    /// How the samples of a shuffled epoch are chosen.
    pub sampling: Sampling,
    /// The number of classes: the length of a row of [`HostBatch::targets`](crate::HostBatch::targets).
    pub classes: usize,
    /// Whether samples may be of several classes, and whether they have masks, which are then read too.
    pub task: Task,
    /// What numbers become in targets ([`Task::Regression`]).
    pub scale: Scale,
    /// The most bytes of batches that are made ahead, besides the one that was taken last. One batch is always made
    /// ahead, however large it is, and never more than two a worker, however small. What a worker needs for the one image
    /// in its hands comes on top. Has no influence on the batches.
    pub prefetch_bytes: u64,
    /// What happens to a sample that cannot be read.
    pub on_bad: OnBadSample,
    /// How many samples may be bad before loading ends, where they are skipped.
    pub max_bad: MaxBad,
}

/// What is made ahead if nothing else is said, in bytes.
pub const PREFETCH_BYTES: u64 = 256 << 20;

/// Why images with masks are not mixed.
const MIXED_MASKS: &str = "mixup and CutMix give an image shares of several classes, but each pixel of a mask has one; set both to 0, or \
                           take light or medium";

impl LoaderConfig {
    /// In the source's order, as they are, by one worker: what an evaluation wants.
    pub fn in_order(batch_size: usize, preprocess: Preprocess) -> Self {
        Self {
            batch_size,
            workers: 1,
            seed: 0,
            preprocess,
            augment: Augment::None,
            shuffle: false,
            sampling: Sampling::Even,
            classes: 0,
            task: Task::MultiClass,
            scale: Scale::default(),
            prefetch_bytes: PREFETCH_BYTES,
            on_bad: OnBadSample::Fail,
            max_bad: MaxBad::default(),
        }
    }

    /// Shuffled with a seed and otherwise as they are: what training begins with.
    pub fn shuffled(batch_size: usize, preprocess: Preprocess, seed: u64) -> Self {
        Self { seed, shuffle: true, ..Self::in_order(batch_size, preprocess) }
    }

    /// The bytes of a full batch.
    fn batch_bytes(&self) -> u64 {
        let Preprocess { channels, size, .. } = &self.preprocess;
        let mask = if self.has_masks() { size_of::<u8>() } else { 0 };
        (self.batch_size * size * size * (channels * size_of::<f32>() + mask)) as u64
    }

    /// Whether every pixel has a class.
    fn has_masks(&self) -> bool {
        self.task == Task::Segmentation
    }

    /// How many batches may be there at once, besides the one that was taken last.
    fn ahead(&self) -> usize {
        let fit = self.prefetch_bytes / self.batch_bytes().max(1);
        (fit.min(2 * self.workers.max(1) as u64) as usize).max(1)
    }

    /// Whether a label is not all there is to know of a sample.
    fn has_targets(&self) -> bool {
        matches!(self.task, Task::MultiLabel | Task::Regression) || self.augment.policy().mixes()
    }
}

/// Makes the batches of any epoch of a source.
#[derive(Clone)]
pub struct Loader {
    source: Arc<dyn Source>,
    config: Arc<LoaderConfig>,
    drawing: Drawing,
    /// Every sample that was found bad so far.
    bad: Arc<Mutex<BTreeSet<u64>>>,
    share: Option<Arc<Share>>,
}

/// Which rows of a batch of so many are read here.
type Share = dyn Fn(usize) -> Range<usize> + Send + Sync;

impl Loader {
    /// A loader of all samples of a source. Panics if the batch size is 0, or if there are targets and no classes.
    ///
    /// # Errors
    /// [`DataError::Weight`] or [`DataError::NoSamples`] if samples are drawn by weights that cannot be, [`DataError::Foreground`] if a
    /// share is to be drawn from the foreground and cannot, [`DataError::Policy`] if images with masks are mixed.
    pub fn new(source: Arc<dyn Source>, config: LoaderConfig) -> Result<Self, DataError> {
        Self::with_progress(source, config, || {})
    }

    /// As [`Loader::new`]. Where masks are looked into first ([`Sampling::Foreground`]), `progress` is called after every sample.
    ///
    /// # Errors
    /// As [`Loader::new`].
    pub fn with_progress(
        source: Arc<dyn Source>,
        config: LoaderConfig,
        progress: impl Fn() + Sync,
    ) -> Result<Self, DataError> {
        assert!(config.batch_size > 0, "a batch has at least one sample");
        if config.has_masks() && config.augment.policy().mixes() {
            return Err(DataError::Policy { what: MIXED_MASKS.to_owned() });
        }
        assert!(config.classes > 0 || !config.has_targets(), "targets have a row of classes");
        let drawing = Drawing::of(source.as_ref(), &config, progress)?;
        Ok(Self { source, config: Arc::new(config), drawing, bad: Arc::default(), share: None })
    }

    /// This loader for one of several processes: of a batch of so many rows it reads those that `share` names, and knows the samples and
    /// labels of all. Where images of a batch are mixed with each other it reads all of them.
    pub fn sharing(self, share: impl Fn(usize) -> Range<usize> + Send + Sync + 'static) -> Self {
        Self { share: Some(Arc::new(share)), ..self }
    }

    /// The rows of a batch of `rows` that are read here: at least one.
    fn rows_read(&self, rows: usize) -> Range<usize> {
        match &self.share {
            Some(share) if !self.config.augment.policy().mixes() => {
                let Range { start, end } = share(rows);
                let start = start.min(rows.saturating_sub(1));
                start..end.clamp(start + 1, rows.max(start + 1))
            }
            _ => 0..rows,
        }
    }

    /// Where its samples come from.
    pub fn source(&self) -> &dyn Source {
        self.source.as_ref()
    }

    /// How an image becomes model input.
    pub fn preprocess(&self) -> &Preprocess {
        &self.config.preprocess
    }

    /// What numbers become in targets.
    pub fn scale(&self) -> Scale {
        self.config.scale
    }

    /// What a model is to answer for a sample.
    pub fn task(&self) -> Task {
        self.config.task
    }

    /// The number of batches in an epoch, a smaller last one included.
    pub fn batches_per_epoch(&self) -> usize {
        self.source.len().div_ceil(self.config.batch_size)
    }

    /// The number of samples in an epoch: all of the source's.
    pub fn samples_per_epoch(&self) -> usize {
        self.source.len()
    }

    /// The batches of an epoch from `first_batch` on. Batches before it are neither read nor decoded.
    pub fn epoch(&self, epoch: u64, first_batch: usize) -> EpochBatches {
        self.batches(epoch, first_batch..self.batches_per_epoch())
    }

    /// Some of the batches of an epoch. Others are neither read nor decoded.
    pub fn batches(&self, epoch: u64, range: Range<usize>) -> EpochBatches {
        EpochBatches::start(self, epoch, range)
    }

    /// The samples of a batch, in order, without reading them. Empty beyond the epoch. What cannot be read is among them.
    pub fn samples_of(&self, epoch: u64, batch: usize) -> Vec<u64> {
        let (order, size) = (self.order(epoch), self.config.batch_size);
        (batch * size..(batch + 1) * size).map_while(|place| order.at(place)).map(|place| place.sample).collect()
    }

    /// Counts samples as bad that an earlier sitting of the run found bad.
    pub fn remember_bad(&self, samples: impl IntoIterator<Item = u64>) {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).extend(samples);
    }

    fn order(&self, epoch: u64) -> EpochOrder {
        EpochOrder::of(epoch, self.source.as_ref(), &self.config, &self.drawing)
    }

    /// Takes what another process reports about rows that it has read: their samples, one of which may stand for one that cannot be read.
    pub fn correct(&self, batch: &mut HostBatch, rows: Range<usize>, samples: &[u64]) {
        for (row, &sample) in rows.zip(samples) {
            if batch.samples[row] == sample {
                continue;
            }
            (batch.samples[row], batch.labels[row]) = (sample, self.source.label(sample as usize));
            if let Some(targets) = &mut batch.targets {
                let target = &mut targets[row * self.config.classes..(row + 1) * self.config.classes];
                target.fill(0.0);
                self.target(sample, target);
            }
        }
    }

    /// Counts what a batch found bad, here or in another process.
    ///
    /// # Errors
    /// [`DataError::TooManyBad`] if these are too many.
    pub fn count_bad(&self, found: &[BadSample]) -> Result<(), DataError> {
        let Some(last) = found.last() else { return Ok(()) };
        let mut bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
        bad.extend(found.iter().map(|bad| bad.sample));
        let limit = self.config.max_bad.of(self.source.len());
        if bad.len() as u64 <= limit {
            return Ok(());
        }
        Err(DataError::TooManyBad {
            bad: bad.len(),
            of: self.source.len(),
            limit: self.config.max_bad.to_string(),
            reason: last.reason.clone(),
        })
    }
}
