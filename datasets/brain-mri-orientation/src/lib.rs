//! `brain-mri-orientation`: slices of real T1-weighted MR volumes, labelled by anatomical plane.
//!
//! A model is trained on one person (in three pictures) and tested on the average of 152 others. README.md in this folder describes the
//! origin of the volumes, their licences and the splits; `scripts/fetch-brain-mri-orientation.sh` downloads them.

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::path::Path;
use std::sync::Arc;

use kindling_data::{Augment, Dataset, Task, Usual};
use kindling_scans::nifti::Volume;
use kindling_scans::nifti::blocks::{Part, part};

mod files;
mod slices;

pub use files::folder;
pub use kindling_scans::nifti::{CLASSES, FetchedError};

use slices::Slices;

const ABOUT: &str = "Slices of T1-weighted MR volumes of the human head: which plane is it, sagittal, coronal or \
    axial? Trained on one person (the Colin 27 average: ch2, ch2better, ch2bet), validated on held-back blocks of \
    the same person, tested on the MNI ICBM152 average of 152 others. Only slices with at least 10 % foreground. For \
    scale: a linear head on a frozen ImageNet MobileNetV2 reaches 85.4 % on the test slices at 128 pixels, and \
    naming the largest class 38.4 %.";

/// How a run trains: neighbouring slices are alike, so three passes see everything there is to see.
pub const USUAL: Usual = Usual { epochs: Some(3), ..Usual::NOTHING };

/// Opens the data set in Kindling's cache folder (see [`folder`]): reads all volumes into memory, about 60 MB, and
/// checks them. Slices are cut when they are read.
///
/// # Errors
/// If the volumes were not fetched, are damaged, or cannot be read.
pub fn dataset(cache: &Path) -> Result<Dataset, FetchedError> {
    let training = files::TRAINING.iter().map(|stored| files::load(cache, stored)).collect::<Result<Vec<_>, _>>()?;
    let test = files::load(cache, &files::TEST)?;
    Ok(assemble(training, vec![test]))
}

/// The data set of these volumes: the training subject split by position, the test volumes whole.
fn assemble(training: Vec<Volume>, test: Vec<Volume>) -> Dataset {
    let foregrounds = |volumes: &[Volume]| volumes.iter().map(Volume::foreground).collect::<Vec<_>>();
    let (training_foregrounds, test_foregrounds) = (foregrounds(&training), foregrounds(&test));
    let (training, test): (Arc<[Volume]>, Arc<[Volume]>) = (training.into(), test.into());
    let of_part =
        |wanted: Part| Arc::new(Slices::of(&training, &training_foregrounds, |position| part(position) == wanted));
    Dataset {
        name: "brain-mri-orientation".into(),
        about: ABOUT.into(),
        classes: CLASSES.map(String::from).into(),
        task: Task::MultiClass,
        channels: 1,
        train: of_part(Part::Train),
        val: of_part(Part::Val),
        test: Arc::new(Slices::of(&test, &test_foregrounds, |_| true)),
        normalisation: None,
        augment: Augment::Light,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kindling_data::{Source, Split};

    use super::*;
    use kindling_scans::nifti::synthetic::Nifti;

    /// A ball in 96 mm of empty space, seen by a volume of `side` voxels. Its world coordinates run from -40 mm.
    fn ball(side: usize) -> Volume {
        let centre = (side - 1) as f32 / 2.0;
        let inside = move |point: [usize; 3]| {
            let distance = point.map(|p| (p as f32 - centre).powi(2)).iter().sum::<f32>().sqrt();
            if distance < centre * 0.9 { 100 + (distance / centre * 100.0) as u8 } else { 0 }
        };
        Nifti { spacing: [96.0 / side as f32; 3], ..Nifti::of([side; 3], inside) }.read()
    }

    fn names(source: &dyn Source) -> BTreeSet<String> {
        (0..source.len()).map(|index| source.name_of(index)).collect()
    }

    #[test]
    fn the_splits_are_disjoint_and_hold_all_classes() {
        let dataset = assemble(vec![ball(48)], vec![ball(32)]);
        assert_eq!(dataset.classes, CLASSES);
        for split in Split::ALL {
            let counts = dataset.class_counts(split);
            assert!(counts.iter().all(|&count| count > 4 && count == counts[0]), "{split:?} {counts:?}");
            let source = dataset.source(split);
            for index in 0..source.len() {
                let image = source.read(index).unwrap();
                assert_eq!(image.channels, dataset.channels);
                assert!(image.pixels.iter().all(|value| (0.0..=1.0).contains(value)));
            }
        }
        assert!(names(&*dataset.train).is_disjoint(&names(&*dataset.val)));
    }

    #[test]
    fn all_pictures_of_the_training_subject_lose_the_same_anatomy() {
        let dataset = assemble(vec![ball(48), ball(96)], vec![ball(32)]);
        let held_back = names(&*dataset.val);
        // Both grids have a voxel at -40 + 2k mm, and -40 + 2 * 32 = 24 mm is the middle of a block.
        assert!(held_back.len() > 30 && held_back.contains("a/axial/z=24.0mm"), "{held_back:?}");
        for index in 0..dataset.train.len() {
            assert!(!held_back.contains(&dataset.train.name_of(index)));
        }
    }
}
