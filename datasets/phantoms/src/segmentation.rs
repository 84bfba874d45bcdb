//! The same images with another task: which pixels are the lesion.

use std::sync::Arc;

use kindling_data::{Augment, DataError, Dataset, Image, Mask, Normalisation, Preprocess, Source, Task, Usual};

use crate::{MEAN, Phantoms, SIZE, STD, TEST, TRAIN, VAL, image_and_lesion, label, parts};

/// The classes of a pixel.
pub const LESION_CLASSES: [&str; 2] = ["background", "lesion"];

/// How a run that finds lesions trains: images of half the side, so that they are learnt within five minutes on two cores.
pub const USUAL_WITH_MASKS: Usual = Usual { image_size: Some(256), epochs: Some(4), ..Usual::NOTHING };

/// Where the lesion of image `index` of `seed` is: class 1 where it covers at least half a pixel, spicules included, and 0 elsewhere. All
/// background where there is no lesion, which is so in every image of label 0: every third.
pub fn mask(seed: u64, index: u64) -> Mask {
    with_mask(seed, index).1
}

/// An image and its mask, drawn once.
fn with_mask(seed: u64, index: u64) -> (Image, Mask) {
    let (image, lesion) = image_and_lesion(seed, index, label(index));
    let mask = match lesion {
        Some(lesion) => Mask { width: SIZE, height: SIZE, classes: lesion.pixels().map(u8::from).collect() },
        None => Mask::filled(SIZE, SIZE, 0),
    };
    (image, mask)
}

/// Images with the masks of their lesions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lesions(
    /// The images.
    pub Phantoms,
);

impl Lesions {
    /// The number of an image among all of its seed.
    fn number(&self, index: usize) -> Result<u64, DataError> {
        let Phantoms { first, count, .. } = self.0;
        if index < count { Ok(first + index as u64) } else { Err(DataError::OutOfRange { index, len: count }) }
    }
}

impl Source for Lesions {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn label(&self, _index: usize) -> usize {
        0
    }

    fn labels(&self, index: usize) -> Vec<usize> {
        if self.0.label(index) == 0 { vec![0] } else { vec![0, 1] }
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        self.0.read(index)
    }

    fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
        Ok(mask(self.0.seed, self.number(index)?))
    }

    fn read_with_mask(&self, index: usize, preprocess: &Preprocess) -> Result<(Image, Mask), DataError> {
        let (image, mask) = with_mask(self.0.seed, self.number(index)?);
        Ok((preprocess.fit(&image), preprocess.fit_mask(&mask)))
    }

    fn name_of(&self, index: usize) -> String {
        self.0.name_of(index)
    }
}

/// The images of [`dataset`](crate::dataset()) with the masks of their lesions, of [`TRAIN`], [`VAL`] and [`TEST`] images.
pub fn segmentation_dataset(seed: u64) -> Dataset {
    segmentation_dataset_with(seed, TRAIN, VAL, TEST)
}

/// As [`segmentation_dataset`], with splits of these sizes. No image is in two splits. A third of each has no lesion, which shows what is
/// found where there is nothing.
pub fn segmentation_dataset_with(seed: u64, train: usize, val: usize, test: usize) -> Dataset {
    let [train, val, test] = parts(seed, [train, val, test]).map(|part| Arc::new(Lesions(part)) as Arc<dyn Source>);
    Dataset {
        name: "phantoms".to_owned(),
        about: format!(
            "Synthetic {SIZE}x{SIZE} head scans made from seed {seed}, a third without a lesion; the task is to find the lesion's pixels. \
             Nothing is real, nothing is downloaded."
        ),
        classes: LESION_CLASSES.map(str::to_owned).to_vec(),
        task: Task::Segmentation,
        channels: 1,
        train,
        val,
        test,
        normalisation: Some(Normalisation { mean: vec![MEAN], std: vec![STD] }),
        augment: Augment::Light,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lesion_changes_the_pixels_of_its_mask_and_no_other_but_a_soft_edge() {
        for (index, label) in (0..6).flat_map(|index| [1, 2].map(|label| (index, label))) {
            let (without, none) = image_and_lesion(7, index, 0);
            let (with, lesion) = image_and_lesion(7, index, label);
            assert!(none.is_none());
            let lesion = lesion.expect("labels 1 and 2 have a lesion");
            let (mut inside, mut changed) = (0, 0);
            for (at, is_lesion) in lesion.pixels().enumerate() {
                let differs = with.pixels[at].to_bits() != without.pixels[at].to_bits();
                assert!(!differs || lesion.cover.pixels[at] > 0.0, "image {index}, pixel {at}");
                inside += usize::from(is_lesion);
                changed += usize::from(is_lesion && differs);
            }
            // Few pixels are as bright without.
            assert!(changed * 100 > inside * 99, "{changed} of {inside}");
        }
    }
}
