//! The batches of one epoch, and the threads that make them.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::row::Row;
use super::sampling::{EpochOrder, Place};
use super::{HostBatch, Loader, LoaderConfig};
use crate::augment::{Draw, Policy, mix};
use crate::decode::{Image, Mask, Preprocess, work_for};
use crate::error::DataError;

/// The batches of one epoch, in order. After an error it ends. Dropping it stops and joins its threads, which takes at
/// most the time of one sample.
pub struct EpochBatches {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    remaining: usize,
    /// Why the threads could not be started, told at the first `next`.
    refused: Option<DataError>,
}

/// What the threads and the consumer share.
struct Shared {
    loader: Loader,
    epoch: u64,
    order: EpochOrder,
    policy: Policy,
    /// One past the last batch.
    end: usize,
    state: Mutex<State>,
    /// Something is to be done, or nothing will be any more.
    work: Condvar,
    /// A batch is complete, or will never be.
    ready: Condvar,
    /// Whether the consumer waits for a batch.
    awaited: Arc<AtomicBool>,
}

struct State {
    /// The place to be filled next: a batch and a row of it.
    batch: usize,
    row: usize,
    /// Batches handed over, counted from the epoch's first.
    taken: usize,
    /// Begun and not yet handed over, in order.
    making: VecDeque<Making>,
    /// No further batch is begun: one has failed, or the epoch was dropped.
    stop: bool,
    /// A thread has ended that should not have.
    lost: bool,
}

/// A batch of which some samples are still being read.
struct Making {
    index: usize,
    /// The images and masks, in their places.
    pixels: Arc<Mutex<Pixels>>,
    /// The row of the first of them.
    first_row: usize,
    rows: Vec<Option<Result<Row, DataError>>>,
    left: usize,
    done: Option<Result<HostBatch, DataError>>,
}

/// A row of a batch that a worker is to fill.
struct Job {
    batch: usize,
    row: usize,
    place: Place,
    pixels: Arc<Mutex<Pixels>>,
    /// Where in these its image goes.
    at: usize,
}

/// What a batch has of its samples.
#[derive(Default)]
struct Pixels {
    /// `[rows, channels, size, size]`.
    images: Vec<f32>,
    /// `[rows, size, size]`, where there are any.
    masks: Option<Vec<u8>>,
}

impl Pixels {
    /// Places for so many rows.
    fn of(rows: usize, config: &LoaderConfig) -> Self {
        let Preprocess { channels, size, .. } = config.preprocess;
        let masks = config.has_masks().then(|| vec![0; rows * size * size]);
        Self { images: vec![0.0; rows * channels * size * size], masks }
    }

    /// Fills a place.
    fn write(&mut self, at: usize, image: &Image, mask: Option<&Mask>, preprocess: &Preprocess) {
        let size = image.pixels.len();
        preprocess.write_tensor(image, &mut self.images[at * size..(at + 1) * size]);
        if let (Some(masks), Some(mask)) = (&mut self.masks, mask) {
            let size = mask.classes.len();
            masks[at * size..(at + 1) * size].copy_from_slice(&mask.classes);
        }
    }

    /// Those of the rows that are there, of as many as `there` has entries.
    fn only(self, there: &[bool]) -> Self {
        Self { images: rows_of(self.images, there), masks: self.masks.map(|masks| rows_of(masks, there)) }
    }
}

/// The rows that are there, of as many as `there` has entries.
fn rows_of<T: Copy>(values: Vec<T>, there: &[bool]) -> Vec<T> {
    if there.iter().all(|there| *there) {
        return values;
    }
    let rows = values.chunks_exact((values.len() / there.len()).max(1)).zip(there);
    rows.filter(|(_, there)| **there).flat_map(|(row, _)| row.iter().copied()).collect()
}

impl EpochBatches {
    pub(super) fn start(loader: &Loader, epoch: u64, range: Range<usize>) -> Self {
        let (first_batch, end) = (range.start, range.end.min(loader.batches_per_epoch()));
        let remaining = end.saturating_sub(first_batch);
        let places = loader.samples_per_epoch().saturating_sub(first_batch.saturating_mul(loader.config.batch_size));
        let workers = loader.config.workers.max(1).min(places);
        let state =
            State { batch: first_batch, row: 0, taken: first_batch, making: VecDeque::new(), stop: false, lost: false };
        let shared = Arc::new(Shared {
            order: loader.order(epoch),
            policy: loader.config.augment.policy(),
            loader: loader.clone(),
            epoch,
            end,
            state: Mutex::new(state),
            work: Condvar::new(),
            ready: Condvar::new(),
            awaited: Arc::default(),
        });
        let mut batches = Self { shared, threads: Vec::with_capacity(workers), remaining, refused: None };
        for worker in 0..workers {
            let shared = batches.shared.clone();
            let spawned = std::thread::Builder::new().name(format!("loader-{worker}")).spawn(move || shared.work());
            match spawned {
                Ok(thread) => batches.threads.push(thread),
                Err(cause) => {
                    batches.refused = Some(DataError::Thread { cause });
                    break;
                }
            }
        }
        batches
    }

    fn finish(&mut self) {
        self.remaining = 0;
        let mut state = self.shared.lock();
        state.stop = true;
        state.making.clear();
        drop(state);
        self.shared.awaited.store(true, Ordering::SeqCst);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // Panics are caught sample by sample; one beyond that has already been told as a lost batch.
            let _ = thread.join();
        }
    }

    /// Waits for the next batch.
    fn take(&mut self) -> Result<HostBatch, DataError> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        let mut state = self.shared.lock();
        loop {
            if let Some(done) = state.making.front_mut().and_then(|making| making.done.take()) {
                state.making.pop_front();
                state.taken += 1;
                drop(state);
                self.shared.work.notify_all();
                let batch = done?;
                self.shared.loader.count_bad(&batch.bad)?;
                return Ok(batch);
            }
            if state.lost {
                let reason = "a loader thread ended".to_owned();
                return Err(DataError::Panicked { name: "unknown".to_owned(), reason });
            }
            self.shared.awaited.store(true, Ordering::SeqCst);
            state = self.shared.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.shared.awaited.store(false, Ordering::SeqCst);
        }
    }
}

impl Iterator for EpochBatches {
    type Item = Result<HostBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        let result = self.take();
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of a source runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does: fill one place after the other, until there are no more.
    fn work(&self) {
        let _farewell = Farewell(self);
        work_for(self.awaited.clone());
        while let Some(job) = self.wait_for_job() {
            let row = self.loader.make_row(self.epoch, job.place, &self.policy, |image, mask| {
                let mut pixels = job.pixels.lock().unwrap_or_else(PoisonError::into_inner);
                pixels.write(job.at, image, mask, self.preprocess());
            });
            drop(job.pixels);
            self.finish_row(job.batch, job.row, row);
        }
    }

    fn preprocess(&self) -> &Preprocess {
        &self.loader.config.preprocess
    }

    /// The next place, when its batch may be begun; none at the end.
    fn wait_for_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.stop || state.batch >= self.end {
                return None;
            }
            if state.row > 0 || state.batch < state.taken + self.loader.config.ahead() {
                return self.claim(&mut state);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn claim(&self, state: &mut State) -> Option<Job> {
        let config = &self.loader.config;
        let batch = state.batch;
        let first = batch * config.batch_size;
        let rows = config.batch_size.min(self.loader.samples_per_epoch() - first);
        let read = self.loader.rows_read(rows);
        let row = state.row.max(read.start);
        if state.row == 0 {
            let elsewhere = |row| Some(Ok(self.loader.row_elsewhere(self.epoch, self.order.at(first + row)?)));
            state.making.push_back(Making {
                index: batch,
                pixels: Arc::new(Mutex::new(Pixels::of(read.len(), config))),
                first_row: read.start,
                rows: (0..rows).map(|row| if read.contains(&row) { None } else { elsewhere(row) }).collect(),
                left: read.len(),
                done: None,
            });
        }
        let pixels = state.making.back()?.pixels.clone();
        (state.batch, state.row) = if row + 1 < read.end { (batch, row + 1) } else { (batch + 1, 0) };
        Some(Job { batch, row, place: self.order.at(first + row)?, pixels, at: row - read.start })
    }

    /// Notes what became of a place, and puts the batch together after the last.
    fn finish_row(&self, batch: usize, row: usize, outcome: Result<Row, DataError>) {
        let mut state = self.lock();
        // A batch that was begun is finished, so that its first error is the one that is told.
        let Some(making) = state.making.iter_mut().find(|making| making.index == batch) else { return };
        making.rows[row] = Some(outcome);
        making.left -= 1;
        if making.left > 0 {
            return;
        }
        let (pixels, rows) = (std::mem::take(&mut making.pixels), std::mem::take(&mut making.rows));
        let first_row = making.first_row;
        drop(state);
        let pixels = std::mem::take(&mut *pixels.lock().unwrap_or_else(PoisonError::into_inner));
        let collate = || self.collate(batch, first_row, pixels, rows);
        let done = catch_unwind(AssertUnwindSafe(collate)).unwrap_or_else(|_| {
            Err(DataError::Panicked { name: format!("batch {batch}"), reason: "it could not be put together".into() })
        });
        let mut state = self.lock();
        state.stop |= done.is_err();
        if let Some(making) = state.making.iter_mut().find(|making| making.index == batch) {
            making.done = Some(done);
        }
        drop(state);
        self.ready.notify_all();
        self.work.notify_all();
    }

    /// The batch of the rows that are there, mixed where the policy says so.
    fn collate(
        &self,
        index: usize,
        first_row: usize,
        pixels: Pixels,
        rows: Vec<Option<Result<Row, DataError>>>,
    ) -> Result<HostBatch, DataError> {
        let config = &self.loader.config;
        let rows = rows.into_iter().flatten().collect::<Result<Vec<Row>, _>>()?;
        let Preprocess { channels, size, .. } = *self.preprocess();
        let draws: Vec<Draw> = rows.iter().filter_map(|row| row.draw).collect();
        let read = rows.iter().skip(first_row).take(pixels.images.len() / (channels * size * size).max(1));
        let there: Vec<bool> = read.map(|row| row.draw.is_some()).collect();
        let Pixels { mut images, masks } = pixels.only(&there);
        let label = |draw: &Draw| self.loader.source.label(draw.sample as usize);
        let mut labels: Vec<usize> = draws.iter().map(label).collect();
        let mut targets = config.has_targets().then(|| vec![0.0; draws.len() * config.classes]);
        if let Some(targets) = &mut targets {
            for (draw, row) in draws.iter().zip(targets.chunks_exact_mut(config.classes)) {
                self.loader.target(draw.sample, row);
            }
            if self.policy.mixes() {
                mix::mix(&self.policy, &draws, &mut images, targets, (channels, size));
                if config.task.is_single_label() {
                    labels = targets.chunks_exact(config.classes).zip(labels).map(major).collect();
                }
            }
        }
        let mut batch = HostBatch {
            images,
            masks,
            pixels: Vec::new(),
            first_row,
            shape: [draws.len(), channels, size, size],
            labels,
            targets,
            samples: draws.iter().map(|draw| draw.sample).collect(),
            bad: rows.into_iter().filter_map(|row| row.bad).collect(),
            epoch: self.epoch,
            index,
        };
        batch.count_pixels(config.classes);
        Ok(batch)
    }
}

/// The class that a target has most of; its own among equals.
fn major((target, own): (&[f32], usize)) -> usize {
    (0..target.len()).fold(own, |most, class| if target[class] > target[most] { class } else { most })
}

/// Tells the consumer of a thread that panics, which would otherwise wait for ever.
struct Farewell<'a>(&'a Shared);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().lost = true;
            self.0.ready.notify_all();
        }
    }
}
