//! `brain-parts`: slices of real T1-weighted MR volumes with masks of cerebrum and cerebellum.
//!
//! A model is trained on one person (in two pictures) and tested on the average of 152 others, turned, scaled and shifted. README.md in
//! this folder describes the origin of volumes and atlas, their licences, the splits, and what position alone reaches;
//! `scripts/fetch-brain-parts.sh` downloads them.

#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::path::Path;
use std::sync::Arc;

use kindling_data::{Augment, Dataset, Policy, Task, Usual};
use kindling_scans::nifti::blocks::Part;

mod atlas;
mod files;
mod heads;
mod moved;
mod slices;

pub use atlas::CLASSES;
pub use files::folder;
pub use kindling_scans::nifti::FetchedError;

use heads::Heads;
use slices::Slices;

const ABOUT: &str = "Axial slices of T1-weighted MR volumes of the human head: which pixels are cerebrum, and which cerebellum, as the AAL \
    atlas draws them? Trained on one person (the Colin 27 average: ch2, ch2bet), validated on held-back blocks of the same person, tested \
    on the MNI ICBM152 average of 152 others in 12 poses, turned by up to 20 degrees, scaled by up to 15 % and shifted by up to 8 %. The \
    poses matter: on heads that lie as the atlas does, masks are known without a look at the image.";

/// How a run trains: it ends within five minutes on two cores.
pub const USUAL: Usual = Usual { task: Some(Task::Segmentation), image_size: Some(128), epochs: Some(30) };

/// Opens the data set in Kindling's cache folder (see [`folder`]): reads all volumes into memory, about 40 MB, and checks them. Slices
/// are cut and moved when they are read.
///
/// # Errors
/// If the volumes were not fetched, are damaged, or cannot be read.
pub fn dataset(cache: &Path) -> Result<Dataset, FetchedError> {
    let (training, test) = files::load(cache)?;
    Ok(assemble(&training, &test))
}

/// The data set of these heads: the training subject split by position, those of the test in all poses.
fn assemble(training: &Heads, test: &Heads) -> Dataset {
    Dataset {
        name: "brain-parts".into(),
        about: ABOUT.into(),
        classes: CLASSES.map(String::from).into(),
        task: Task::Segmentation,
        channels: 1,
        train: Arc::new(Slices::at_rest(training, Part::Train)),
        val: Arc::new(Slices::at_rest(training, Part::Val)),
        test: Arc::new(Slices::moved(test)),
        normalisation: None,
        augment: Augment::Custom(Arc::new(augmentation())),
    }
}

/// A little more than the test is moved, and other brightness: the pictures of the two subjects were not made alike.
fn augmentation() -> Policy {
    Policy {
        flip: 0.5,
        translate: 0.1,
        rotate: 25.0,
        scale: 0.2,
        brightness: 0.1,
        contrast: 0.2,
        gamma: 0.3,
        ..Policy::none()
    }
}

#[cfg(test)]
mod tests;
