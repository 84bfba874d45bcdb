//! Memory that is bounded, whoever is slow.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kindling_data::{Loader, LoaderConfig};
use support::{Numbers, SIDE, batches, config};

/// Bytes of a batch of four.
const BATCH: u64 = (4 * SIDE * SIDE * 4) as u64;

/// How many samples are read while nobody takes a second batch.
fn reads(workers: usize, prefetch_bytes: u64) -> usize {
    let source = Arc::new(Numbers { len: 1000, ..Numbers::default() });
    let loader = Loader::new(source.clone(), LoaderConfig { prefetch_bytes, ..config(4, workers) }).unwrap();
    let mut epoch = loader.epoch(0, 0);
    epoch.next().unwrap().unwrap();
    std::thread::sleep(Duration::from_millis(150));
    source.reads.load(Ordering::SeqCst)
}

#[test]
fn no_more_batches_are_made_ahead_than_fit_into_the_bytes_given() {
    for workers in [1, 2, 16] {
        for ahead in [1, 2] {
            // Those ahead, and the one that was taken.
            assert_eq!(
                reads(workers, ahead * BATCH + BATCH / 2),
                4 * (ahead as usize + 1),
                "{workers} workers, {ahead} ahead"
            );
        }
    }
}

#[test]
fn one_batch_is_always_made_ahead_however_large_it_is() {
    for workers in [1, 2, 16] {
        assert_eq!(reads(workers, 0), 4 * 2);
    }
}

#[test]
fn small_batches_are_not_made_ahead_without_end() {
    assert_eq!(reads(2, u64::MAX), 4 * (4 + 1));
}

#[test]
fn all_workers_share_the_one_batch_that_is_allowed() {
    // Eight samples of 20 ms a batch: eight workers take 20 ms for it, one takes 160.
    struct Slow(Numbers);
    impl kindling_data::Source for Slow {
        fn len(&self) -> usize {
            self.0.len
        }
        fn label(&self, index: usize) -> usize {
            self.0.label(index)
        }
        fn read(&self, index: usize) -> Result<kindling_data::Image, kindling_data::DataError> {
            std::thread::sleep(Duration::from_millis(20));
            self.0.read(index)
        }
        fn name_of(&self, index: usize) -> String {
            self.0.name_of(index)
        }
    }
    let source = Slow(Numbers { len: 32, ..Numbers::default() });
    let loader = Loader::new(Arc::new(source), LoaderConfig { prefetch_bytes: 0, ..config(8, 8) }).unwrap();
    let began = std::time::Instant::now();
    assert_eq!(loader.epoch(0, 0).count(), 4);
    // 80 ms if shared, 640 if not.
    assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
}

#[test]
fn the_bytes_made_ahead_have_no_influence_on_the_batches() {
    let made = |prefetch_bytes, workers| {
        let source = Arc::new(Numbers { len: 50, slow: 1, ..Numbers::default() });
        batches(&Loader::new(source, LoaderConfig { prefetch_bytes, ..config(4, workers) }).unwrap(), 1, 0)
    };
    let expected = made(0, 1);
    for (bytes, workers) in [(BATCH, 2), (3 * BATCH, 16), (u64::MAX, 3)] {
        assert_eq!(made(bytes, workers), expected);
    }
}
