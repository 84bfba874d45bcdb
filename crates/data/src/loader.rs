//! The streaming loader: global batches in a fixed order, made by background threads.
//!
//! Worker `w` of `n` makes the batches `w`, `w + n`, `w + 2n`, ... into its own channel of one place, and the consumer
//! takes from the channels in turn. So the order cannot depend on timing, and at most two batches a worker exist: one
//! waiting and one being made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use kindling_random::{Purpose, rng};

use crate::source::guarded;
use crate::{Augment, DataError, HostBatch, Preprocess, Source, order};

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
}

/// Makes the batches of any epoch of a source.
#[derive(Clone)]
pub struct Loader {
    source: Arc<dyn Source>,
    config: Arc<LoaderConfig>,
}

impl Loader {
    /// A loader of all samples of a source. Panics if the batch size is 0.
    pub fn new(source: Arc<dyn Source>, config: LoaderConfig) -> Self {
        assert!(config.batch_size > 0, "a batch has at least one sample");
        Self { source, config: Arc::new(config) }
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
        EpochBatches::start(self, epoch, first_batch)
    }

    /// The samples of a batch, in order, without reading them. Empty beyond the epoch.
    pub fn samples_of(&self, epoch: u64, batch: usize) -> Vec<u64> {
        self.slice_of(&self.order(epoch), batch).to_vec()
    }

    fn order(&self, epoch: u64) -> Vec<u64> {
        match self.config.shuffle {
            true => order(self.config.seed, epoch, self.source.len()),
            false => (0..self.source.len() as u64).collect(),
        }
    }

    fn slice_of<'a>(&self, order: &'a [u64], batch: usize) -> &'a [u64] {
        order.chunks(self.config.batch_size).nth(batch).unwrap_or(&[])
    }

    /// Makes one batch; `None` if told to stop.
    fn make(
        &self,
        epoch: u64,
        index: usize,
        samples: &[u64],
        stop: &AtomicBool,
    ) -> Result<Option<HostBatch>, DataError> {
        let LoaderConfig { preprocess, augment, seed, .. } = &*self.config;
        let (channels, size) = (preprocess.channels, preprocess.size);
        let mut images = Vec::with_capacity(samples.len() * channels * size * size);
        let mut labels = Vec::with_capacity(samples.len());
        for &sample in samples {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let at = sample as usize;
            guarded(&*self.source, at, || {
                let fitted = preprocess.fit(&self.source.read(at)?);
                let augmented = augment.apply(fitted, &mut rng(*seed, Purpose::Augment, epoch, sample));
                preprocess.append_tensor(&augmented, &mut images);
                labels.push(self.source.label(at));
                Ok(())
            })?;
        }
        let shape = [samples.len(), channels, size, size];
        Ok(Some(HostBatch { images, shape, labels, samples: samples.to_vec(), epoch, index }))
    }
}

/// The batches of one epoch, in order. After an error it ends. Dropping it stops and joins its threads, which takes at
/// most the time of one sample.
pub struct EpochBatches {
    /// One a worker; `next` decides whose turn it is.
    channels: Vec<Receiver<Result<HostBatch, DataError>>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    taken: usize,
    remaining: usize,
    /// Why the threads could not be started, told at the first `next`.
    refused: Option<DataError>,
}

impl EpochBatches {
    fn start(loader: &Loader, epoch: u64, first_batch: usize) -> Self {
        let remaining = loader.batches_per_epoch().saturating_sub(first_batch);
        let workers = loader.config.workers.max(1).min(remaining);
        let order: Arc<[u64]> = loader.order(epoch).into();
        let mut batches = Self {
            channels: Vec::with_capacity(workers),
            threads: Vec::with_capacity(workers),
            stop: Arc::new(AtomicBool::new(false)),
            taken: 0,
            remaining,
            refused: None,
        };
        for worker in 0..workers {
            let (sender, receiver) = sync_channel(1);
            let (loader, order, stop) = (loader.clone(), order.clone(), batches.stop.clone());
            let own = (first_batch + worker..loader.batches_per_epoch()).step_by(workers);
            let spawned = std::thread::Builder::new()
                .name(format!("loader-{worker}"))
                .spawn(move || work(&loader, epoch, own, &order, &stop, &sender));
            match spawned {
                Ok(thread) => {
                    batches.threads.push(thread);
                    batches.channels.push(receiver);
                }
                Err(source) => {
                    batches.refused = Some(DataError::Thread { cause: source });
                    break;
                }
            }
        }
        batches
    }

    fn finish(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.remaining = 0;
        // Wakes workers that wait for a place in their channel.
        self.channels.clear();
        for thread in self.threads.drain(..) {
            // Panics are caught sample by sample; one beyond that has already been told as a lost batch.
            let _ = thread.join();
        }
    }
}

/// What a worker does: its batches, in order, until it is told to stop or nobody listens.
fn work(
    loader: &Loader,
    epoch: u64,
    own: impl Iterator<Item = usize>,
    order: &[u64],
    stop: &AtomicBool,
    sender: &SyncSender<Result<HostBatch, DataError>>,
) {
    for index in own {
        let made = match loader.make(epoch, index, loader.slice_of(order, index), stop) {
            Ok(Some(batch)) => Ok(batch),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        let last = made.is_err();
        if sender.send(made).is_err() || last {
            return;
        }
    }
}

impl Iterator for EpochBatches {
    type Item = Result<HostBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        let result = match self.refused.take() {
            Some(error) => Err(error),
            None => self.channels[self.taken % self.channels.len()].recv().unwrap_or_else(|_| {
                Err(DataError::Panicked { name: "unknown".to_owned(), reason: "a loader thread ended".to_owned() })
            }),
        };
        self.taken += 1;
        self.remaining -= 1;
        if result.is_err() || self.remaining == 0 {
            self.finish();
        }
        Some(result)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Fewer after an error.
        (0, Some(self.remaining))
    }
}

impl Drop for EpochBatches {
    fn drop(&mut self) {
        self.finish();
    }
}
