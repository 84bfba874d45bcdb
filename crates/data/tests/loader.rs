//! The promises of the loader.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kindling_data::{Augment, DataError, HostBatch, Image, Loader, LoaderConfig, Normalisation, Preprocess, Source};

/// Images that know their index; some are slow, broken or explosive.
#[derive(Default)]
struct Numbers {
    len: usize,
    broken: Option<usize>,
    panics: Option<usize>,
    /// The milliseconds a read takes, times `index % 4`.
    slow: u64,
    reads: AtomicUsize,
}

impl Source for Numbers {
    fn len(&self) -> usize {
        self.len
    }
    fn label(&self, index: usize) -> usize {
        index % 3
    }
    fn read(&self, index: usize) -> Result<Image, DataError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(self.slow * (index as u64 % 4)));
        assert!(self.panics != Some(index), "the decoder lost its footing");
        if self.broken == Some(index) {
            return Err(DataError::Unreadable { path: self.name_of(index).into(), reason: "torn".to_owned() });
        }
        Ok(Image { pixels: (0..64).map(|i| (i * index % 60) as f32 / 60.0).collect(), ..Image::filled(8, 8, 1, 0.) })
    }
    fn name_of(&self, index: usize) -> String {
        format!("number-{index}")
    }
}

fn config(batch_size: usize, workers: usize) -> LoaderConfig {
    let normalisation = Normalisation { mean: vec![0.4], std: vec![0.2] };
    let preprocess = Preprocess::padded(8, 1, normalisation);
    LoaderConfig { workers, augment: Augment::Light, ..LoaderConfig::shuffled(batch_size, preprocess, 5) }
}

fn loader(source: Numbers, config: LoaderConfig) -> Loader {
    Loader::new(Arc::new(source), config).unwrap()
}

fn batches(loader: &Loader, epoch: u64, first: usize) -> Vec<HostBatch> {
    loader.epoch(epoch, first).collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_order_is_the_same_for_1_2_and_7_workers() {
    let made =
        |workers, slow| batches(&loader(Numbers { len: 50, slow, ..Default::default() }, config(4, workers)), 2, 0);
    let one = made(1, 0);
    for workers in [0, 2, 7, 40] {
        assert_eq!(made(workers, 0), one, "{workers} workers");
    }
    assert_eq!(made(3, 1), one, "with reads of unequal speed");
}

#[test]
fn every_sample_is_there_once_and_the_last_batch_is_smaller() {
    let loader = loader(Numbers { len: 50, ..Default::default() }, config(8, 2));
    assert_eq!((loader.batches_per_epoch(), loader.samples_per_epoch()), (7, 50));
    let batches = batches(&loader, 0, 0);
    assert_eq!(batches.iter().map(HostBatch::len).collect::<Vec<_>>(), [8, 8, 8, 8, 8, 8, 2]);
    let mut seen: Vec<u64> = Vec::new();
    for (index, batch) in batches.iter().enumerate() {
        assert_eq!((batch.index, batch.epoch, batch.shape), (index, 0, [batch.len(), 1, 8, 8]));
        assert_eq!(batch.images.len(), batch.len() * 64);
        assert_eq!(batch.samples, loader.samples_of(0, index));
        assert!(batch.samples.iter().zip(&batch.labels).all(|(&sample, &label)| sample as usize % 3 == label));
        seen.extend(&batch.samples);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<u64>>());
    assert!(loader.samples_of(0, 7).is_empty());
}

#[test]
fn resuming_at_a_batch_gives_the_batches_that_were_left() {
    for workers in [1, 3] {
        let loader = loader(Numbers { len: 50, ..Default::default() }, config(4, workers));
        let whole = batches(&loader, 1, 0);
        for first in [0, 1, 5, 12, 13, 99] {
            assert_eq!(batches(&loader, 1, first), whole[first.min(whole.len())..], "from {first}");
        }
    }
}

#[test]
fn resuming_reads_none_of_the_samples_before() {
    let source = Arc::new(Numbers { len: 100, ..Default::default() });
    let loader = Loader::new(source.clone(), config(4, 2)).unwrap();
    assert_eq!(batches(&loader, 0, 24).len(), 1);
    assert_eq!(source.reads.load(Ordering::SeqCst), 4);
}

#[test]
fn the_augmentation_of_a_sample_does_not_depend_on_its_batch() {
    let by_sample = |batch_size| {
        let loader = loader(Numbers { len: 20, ..Default::default() }, config(batch_size, 2));
        let mut images = vec![Vec::new(); 20];
        for batch in batches(&loader, 3, 0) {
            for (place, &sample) in batch.samples.iter().enumerate() {
                images[sample as usize] = batch.images_of(place..place + 1).to_vec();
            }
        }
        images
    };
    assert_eq!(by_sample(1), by_sample(7));
}

#[test]
fn without_shuffling_samples_come_in_the_order_of_the_source() {
    let config = LoaderConfig { shuffle: false, augment: Augment::None, ..config(3, 2) };
    let loader = loader(Numbers { len: 7, ..Default::default() }, config);
    for epoch in 0..2 {
        let order: Vec<u64> = batches(&loader, epoch, 0).into_iter().flat_map(|batch| batch.samples).collect();
        assert_eq!(order, (0..7).collect::<Vec<u64>>());
    }
    let first = batches(&loader, 0, 0).swap_remove(0);
    assert_eq!(first.images_of(2..3)[3], (6.0 / 60.0 - 0.4) / 0.2);
}

#[test]
fn a_sample_that_cannot_be_read_is_an_error_and_no_short_epoch() {
    for workers in [1, 3] {
        let source = Numbers { len: 40, broken: Some(17), ..Default::default() };
        let config = LoaderConfig { shuffle: false, ..config(4, workers) };
        let results: Vec<_> = loader(source, config).epoch(0, 0).collect();
        // Batches 0 to 3 are good, 4 holds the sample, and nothing follows.
        assert_eq!(results.len(), 5);
        assert!(results[..4].iter().all(Result::is_ok));
        let error = results[4].as_ref().unwrap_err().to_string();
        assert!(error.contains("number-17") && error.contains("torn"), "{error}");
    }
}

#[test]
fn a_decoder_that_panics_is_an_error_with_the_samples_name() {
    let source = Numbers { len: 40, panics: Some(3), ..Default::default() };
    let config = LoaderConfig { shuffle: false, ..config(4, 2) };
    let error = loader(source, config).epoch(0, 0).next().unwrap().unwrap_err();
    assert!(matches!(&error, DataError::Panicked { name, reason } if name == "number-3" && reason.contains("footing")));
}

#[test]
fn a_slow_consumer_never_grows_the_queue() {
    let source = Arc::new(Numbers { len: 1000, ..Default::default() });
    let loader = Loader::new(source.clone(), config(4, 3)).unwrap();
    let mut epoch = loader.epoch(0, 0);
    epoch.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // For each worker one batch waiting and one in its hands, and the one taken.
    assert!(source.reads.load(Ordering::SeqCst) <= 4 * (2 * 3 + 1));
}

#[test]
fn dropping_the_iterator_stops_and_joins_the_threads() {
    let source = Arc::new(Numbers { len: 10_000, slow: 5, ..Default::default() });
    let loader = Loader::new(source.clone(), config(1000, 4)).unwrap();
    let epoch = loader.epoch(0, 0);
    std::thread::sleep(Duration::from_millis(30));
    let start = Instant::now();
    assert_eq!(epoch.size_hint().1, Some(10));
    drop(epoch);
    assert!(start.elapsed() < Duration::from_secs(1), "a whole batch takes 7 seconds");
    drop(loader);
    assert_eq!(Arc::strong_count(&source), 1, "a thread still holds the source");
}

#[test]
fn an_empty_source_has_no_batches() {
    let loader = loader(Numbers::default(), config(4, 2));
    assert_eq!(loader.batches_per_epoch(), 0);
    assert!(loader.epoch(0, 0).next().is_none());
}
