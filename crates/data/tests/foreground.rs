//! A share of each batch shows a foreground class, in an order that depends on (seed, epoch) alone.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kindling_data::{
    Augment, DataError, FOREGROUND_SHARE, HostBatch, Image, Loader, LoaderConfig, Mask, Normalisation, OnBadSample,
    Preprocess, Sampling, Source, Task,
};

const SIDE: usize = 6;

/// Images of which every fifth has class 1, the eighth alone class 2, and the others nothing.
#[derive(Default)]
struct Masks {
    len: usize,
    /// Whether the classes of masks are known before they are read.
    known: bool,
    /// A mask that cannot be read.
    torn: Option<usize>,
    /// Whether there is nothing in any mask.
    empty: bool,
    looks: AtomicUsize,
}

impl Masks {
    fn shows(&self, index: usize) -> u8 {
        match index {
            _ if self.empty => 0,
            8 => 2,
            index => u8::from(index.is_multiple_of(5)),
        }
    }
}

impl Source for Masks {
    fn len(&self) -> usize {
        self.len
    }
    fn label(&self, _: usize) -> usize {
        0
    }
    fn labels(&self, index: usize) -> Vec<usize> {
        let shown = usize::from(self.shows(index));
        if !self.known {
            vec![]
        } else if shown == 0 {
            vec![0]
        } else {
            vec![0, shown]
        }
    }
    fn read(&self, index: usize) -> Result<Image, DataError> {
        Ok(Image::filled(SIDE, SIDE, 1, index as f32 / 100.0))
    }
    fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        if self.torn == Some(index) {
            return Err(DataError::NoMask { name: self.name_of(index) });
        }
        let mut mask = Mask::filled(SIDE, SIDE, 0);
        mask.classes[index % (SIDE * SIDE)] = self.shows(index);
        Ok(mask)
    }
    fn name_of(&self, index: usize) -> String {
        format!("image-{index}")
    }
}

fn config(batch_size: usize, workers: usize) -> LoaderConfig {
    let preprocess = Preprocess::padded(SIDE, 1, Normalisation::identity(1));
    let shuffled = LoaderConfig::shuffled(batch_size, preprocess, 5);
    LoaderConfig { workers, classes: 3, task: Task::Segmentation, sampling: Sampling::Foreground, ..shuffled }
}

fn masks() -> Masks {
    Masks { len: 50, ..Masks::default() }
}

fn loader(config: LoaderConfig) -> Loader {
    Loader::new(Arc::new(masks()), config).unwrap()
}

fn batches(loader: &Loader, epoch: u64, first: usize) -> Vec<HostBatch> {
    loader.epoch(epoch, first).collect::<Result<_, _>>().unwrap()
}

fn refusal(source: Masks, config: LoaderConfig) -> String {
    let error = Loader::new(Arc::new(source), config).err().unwrap().to_string();
    assert!(!error.contains('\n') && error.contains("--sampling foreground"), "{error}");
    error
}

#[test]
fn the_last_third_of_every_batch_shows_something_and_the_rest_is_the_even_order() {
    assert!((FOREGROUND_SHARE - 0.33).abs() < 1e-12);
    let (foreground, even) = (loader(config(6, 1)), loader(LoaderConfig { sampling: Sampling::Even, ..config(6, 1) }));
    let mut rare = 0;
    for epoch in 0..20 {
        let (found, listed) = (batches(&foreground, epoch, 0), batches(&even, epoch, 0));
        assert_eq!(found.iter().map(HostBatch::len).collect::<Vec<_>>(), [6, 6, 6, 6, 6, 6, 6, 6, 2]);
        for (found, listed) in found.iter().zip(listed) {
            // Of six two, and of the two at the end one.
            let first = if found.len() == 6 { 4 } else { 1 };
            assert_eq!(found.samples[..first], listed.samples[..first]);
            for (sample, pixels) in found.samples.iter().zip(&found.pixels).skip(first) {
                assert_eq!(pixels[1] + pixels[2], 1, "image {sample} of epoch {epoch} shows nothing");
                rare += usize::from(*sample == 8);
            }
        }
    }
    // Half of the 340 places drawn are of the class that one image of fifty has; the standard deviation is 9.
    assert!((130..210).contains(&rare), "{rare}");
}

#[test]
fn drawing_from_the_foreground_is_the_same_for_any_workers_and_shares_and_resumes_anywhere() {
    let with = |workers| loader(LoaderConfig { augment: Augment::Light, ..config(6, workers) });
    let one = batches(&with(1), 3, 0);
    for workers in [2, 16] {
        assert_eq!(batches(&with(workers), 3, 0), one);
    }
    assert_eq!(batches(&with(2), 3, 4), one[4..]);
    assert_eq!(with(1).samples_of(3, 2), one[2].samples);
    assert_ne!(with(1).samples_of(4, 2), one[2].samples);
    let half = batches(&with(2).sharing(|rows| rows / 2..rows), 3, 0);
    for (whole, half) in one.iter().zip(half) {
        assert_eq!(half.samples, whole.samples);
        assert_eq!(half.images, whole.images_of(half.rows()));
        assert_eq!(half.masks.as_deref(), whole.masks_of(half.rows()));
    }
}

#[test]
fn masks_are_looked_into_once_and_not_at_all_where_their_classes_are_known() {
    for known in [false, true] {
        let source = Arc::new(Masks { known, ..masks() });
        let told = AtomicUsize::new(0);
        let tell = || {
            told.fetch_add(1, Ordering::SeqCst);
        };
        let loader = Loader::with_progress(source.clone(), config(6, 1), tell).unwrap();
        let looks = || source.looks.load(Ordering::SeqCst);
        assert_eq!((looks(), told.load(Ordering::SeqCst)), (if known { 0 } else { 50 }, 50));
        let samples: Vec<Vec<u64>> = (0..9).map(|batch| loader.samples_of(1, batch)).collect();
        assert_eq!(looks(), if known { 0 } else { 50 }, "an order is made without a look");
        let other: Vec<Vec<u64>> = (0..9).map(|batch| self::loader(config(6, 1)).samples_of(1, batch)).collect();
        assert_eq!(samples, other, "what is known is what is found");
    }
    let in_order = Arc::new(masks());
    Loader::new(in_order.clone(), LoaderConfig { shuffle: false, ..config(6, 1) }).unwrap();
    assert_eq!(in_order.looks.load(Ordering::SeqCst), 0, "an evaluation draws nothing");
}

#[test]
fn a_sample_drawn_again_is_not_augmented_alike() {
    let drawn = LoaderConfig { augment: Augment::Medium, ..config(50, 2) };
    let batch = batches(&loader(drawn), 0, 0).remove(0);
    let images: Vec<&[f32]> =
        (0..50).filter(|row| batch.samples[*row] == 8).map(|row| batch.images_of(row..row + 1)).collect();
    assert!(images.len() > 3, "the only image of a class is drawn often");
    assert!(images.windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn where_nothing_can_be_drawn_from_the_foreground_it_is_one_sentence() {
    let classifier = LoaderConfig { task: Task::MultiClass, ..config(6, 1) };
    assert!(refusal(masks(), classifier).contains("--sampling balanced"));
    assert!(refusal(masks(), config(1, 1)).contains("--batch-size"));
    assert!(refusal(Masks { empty: true, ..masks() }, config(6, 1)).contains("nothing but background"));
    let torn = || Masks { torn: Some(8), ..masks() };
    let error = Loader::new(Arc::new(torn()), config(6, 1)).err().unwrap().to_string();
    assert!(error.contains("image-8"), "{error}");
    let skipping = LoaderConfig { on_bad: OnBadSample::Skip, ..config(6, 1) };
    let skipped = Loader::new(Arc::new(torn()), skipping).unwrap();
    // What cannot be read stands where it is listed, and is never drawn.
    let times = |epoch| (0..9).flat_map(|batch| skipped.samples_of(epoch, batch)).filter(|sample| *sample == 8).count();
    assert!((0..20).all(|epoch| times(epoch) <= 1));
    assert!(Loader::new(Arc::new(Masks::default()), config(6, 1)).unwrap().samples_of(0, 0).is_empty());
}
