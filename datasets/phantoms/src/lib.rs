//! Synthetic 512x512 scans with a small lesion: the data set that is always there. Nothing is stored or downloaded;
//! any image can be made alone from (seed, index), on any thread.
//!
//! A head in cross-section (scalp, skull, folded cortex, white matter, ventricles, deep nuclei) under a bias field and
//! Rician noise. The class is the lesion: none, round, or spiculated. Vessels, specks and hazes are in every class, so
//! neither brightness nor the presence of thin lines gives it away. How hard it is stands in [`difficulty`].

mod anatomy;
mod canvas;
pub mod difficulty;
mod field;
mod lesion;
mod noise;

use std::sync::Arc;

use kindling_data::{Augment, DataError, Dataset, Image, Normalisation, Source, Task};
use kindling_random::{Purpose, rng_stream};

use crate::canvas::Canvas;

/// The side of an image, in pixels.
pub const SIZE: usize = 512;
/// The classes, by label.
pub const CLASSES: [&str; 3] = ["none", "round", "spiculated"];
/// Training images by default.
pub const TRAIN: usize = 480;
/// Validation images by default.
pub const VAL: usize = 96;
/// Test images by default.
pub const TEST: usize = 150;

/// Each split has its own range of indices, so that more training images never change the others.
const RANGE: u64 = 1 << 32;

/// Mean and standard deviation of all pixels; `the_normalisation_is_that_of_the_images` measures them again.
const MEAN: f32 = 0.21;
const STD: f32 = 0.23;

/// The independent streams of one image. The lesion has its own, so that the anatomy knows nothing of the class.
const ANATOMY: u64 = 0;
const LESION: u64 = 1;
const NOISE: u64 = 2;

/// The class of an image: its index modulo 3, so that any run of indices is balanced.
pub fn label(index: u64) -> usize {
    (index % CLASSES.len() as u64) as usize
}

/// Makes image `index` of `seed`: [`SIZE`] x [`SIZE`], grey, in `[0, 1]`.
pub fn image(seed: u64, index: u64) -> Image {
    let stream = |stream| rng_stream(seed, Purpose::Phantom, 0, index, stream);
    let mut canvas = Canvas::new();
    let head = anatomy::draw(&mut canvas, &mut stream(ANATOMY));
    lesion::draw(&mut canvas, label(index), &head, &mut stream(LESION));
    anatomy::shade(&mut canvas, &head);
    noise::add(&mut canvas, &mut stream(NOISE));
    Image { width: SIZE, height: SIZE, channels: 1, pixels: canvas.pixels }
}

/// The images `first..first + count` of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phantoms {
    /// The seed of every image.
    pub seed: u64,
    /// The index of the first image.
    pub first: u64,
    /// The number of images.
    pub count: usize,
}

impl Source for Phantoms {
    fn len(&self) -> usize {
        self.count
    }

    fn label(&self, index: usize) -> usize {
        assert!(index < self.count, "sample {index} of {}", self.count);
        label(self.first + index as u64)
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        if index >= self.count {
            return Err(DataError::OutOfRange { index, len: self.count });
        }
        Ok(image(self.seed, self.first + index as u64))
    }

    fn name_of(&self, index: usize) -> String {
        let number = self.first + index as u64;
        let split = ["train", "val", "test"].get((number / RANGE) as usize).copied().unwrap_or("phantom");
        format!("{split} {}", number % RANGE)
    }
}

/// The data set of a seed, of [`TRAIN`], [`VAL`] and [`TEST`] images.
pub fn dataset(seed: u64) -> Dataset {
    dataset_with(seed, TRAIN, VAL, TEST)
}

/// The data set of a seed, of the sizes asked for. No image is in two splits.
pub fn dataset_with(seed: u64, train: usize, val: usize, test: usize) -> Dataset {
    let part = |place: u64, count| Arc::new(Phantoms { seed, first: place * RANGE, count }) as Arc<dyn Source>;
    Dataset {
        name: "phantoms".to_owned(),
        about: format!(
            "Synthetic {SIZE}x{SIZE} head scans made from seed {seed}, with no lesion, a round one or a spiculated one; \
             the task is to tell which. Nothing is real, nothing is downloaded."
        ),
        classes: CLASSES.map(str::to_owned).to_vec(),
        task: Task::MultiClass,
        channels: 1,
        train: part(0, train),
        val: part(1, val),
        test: part(2, test),
        normalisation: Some(Normalisation { mean: vec![MEAN], std: vec![STD] }),
        augment: Augment::Light,
    }
}
