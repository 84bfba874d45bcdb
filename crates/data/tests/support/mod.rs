//! A source of numbered images, some of them slow, broken or explosive.
#![allow(clippy::unwrap_used)]
#![allow(dead_code)] // each test program uses its share

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kindling_data::{DataError, HostBatch, Image, Loader, LoaderConfig, Normalisation, Preprocess, Source};

pub(crate) const CLASSES: usize = 3;
pub(crate) const SIDE: usize = 8;

/// Images that know their index.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) len: usize,
    pub(crate) broken: BTreeSet<usize>,
    pub(crate) panics: BTreeSet<usize>,
    /// The milliseconds a read takes, times `index % 4`.
    pub(crate) slow: u64,
    /// Every sample has this class as well as its own.
    pub(crate) also: Option<usize>,
    pub(crate) reads: AtomicUsize,
}

impl Source for Numbers {
    fn len(&self) -> usize {
        self.len
    }
    fn label(&self, index: usize) -> usize {
        index % CLASSES
    }
    fn labels(&self, index: usize) -> Vec<usize> {
        BTreeSet::from_iter(self.also.into_iter().chain([self.label(index)])).into_iter().collect()
    }
    fn read(&self, index: usize) -> Result<Image, DataError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(self.slow * (index as u64 % 4)));
        assert!(!self.panics.contains(&index), "the decoder lost its footing");
        if self.broken.contains(&index) {
            return Err(DataError::Unreadable { path: self.name_of(index).into(), reason: "torn".to_owned() });
        }
        let pixels = (0..SIDE * SIDE).map(|i| (i * (index + 1) % 60) as f32 / 60.0).collect();
        Ok(Image { pixels, ..Image::filled(SIDE, SIDE, 1, 0.0) })
    }
    fn name_of(&self, index: usize) -> String {
        format!("number-{index}")
    }
}

pub(crate) fn config(batch_size: usize, workers: usize) -> LoaderConfig {
    let preprocess = Preprocess::padded(SIDE, 1, Normalisation::identity(1));
    LoaderConfig { workers, classes: CLASSES, ..LoaderConfig::shuffled(batch_size, preprocess, 5) }
}

pub(crate) fn loader(source: Numbers, config: LoaderConfig) -> Loader {
    Loader::new(Arc::new(source), config).unwrap()
}

pub(crate) fn batches(loader: &Loader, epoch: u64, first: usize) -> Vec<HostBatch> {
    loader.epoch(epoch, first).collect::<Result<_, _>>().unwrap()
}
