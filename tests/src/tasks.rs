//! What networks learn, as a table: a test that holds for each task is written once.

use std::path::{Path, PathBuf};

use crate::{Optional, Suite, Test, mask_folder, picture_folder};

/// A task, with the lightest network for it and images to train that on.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// What tests call it.
    pub name: &'static str,
    /// The network.
    pub model: &'static str,
    /// Another network for it.
    pub other_model: &'static str,
    /// The smallest side of images that leaves the network maps of some pixels.
    pub image_size: usize,
    images: &'static str,
    make: fn(&Path, usize),
}

/// Each image is of a class.
pub const CLASSIFICATION: Task = Task {
    name: "classification",
    model: "mobilenet_v3_small",
    other_model: "mobilenet_v2",
    image_size: 32,
    images: "dark",
    make: picture_folder,
};

/// Each pixel is of a class.
pub const SEGMENTATION: Task = Task {
    name: "segmentation",
    model: "unet-timm-mobilenetv3_small_100",
    other_model: "unet-mobilenet_v2",
    image_size: 64,
    images: "images",
    make: |folder, each| mask_folder(folder, 3 * each),
};

impl Task {
    /// Makes a folder of three times `each` images.
    ///
    /// # Panics
    /// If a file cannot be written.
    pub fn folder(&self, folder: &Path, each: usize) {
        (self.make)(folder, each);
    }

    /// Where an image lies in such a folder.
    pub fn image(&self, index: usize) -> PathBuf {
        Path::new(self.images).join(format!("{index:02}.png"))
    }
}

/// When a test of [`SEGMENTATION`] runs; those of classification always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In every run of the tests.
    Always,
    /// Where `KINDLING_NIGHTLY` is 1.
    ByNight,
}

/// A test of each task: its name, when it runs for segmentation, and what it does.
pub type OfEachTask = (&'static str, When, fn(Task));

impl Suite {
    /// Adds tests for each task; `so_long` says how long those take that run by night.
    pub fn add_of_each_task(&mut self, tests: &[OfEachTask], so_long: &str) {
        let of = |task: Task, is_chosen: &dyn Fn(When) -> bool| -> Vec<Test> {
            let chosen = tests.iter().filter(|(_, when, _)| is_chosen(*when));
            chosen.map(|&(name, _, run)| Test::new(format!("{name}_in_{}", task.name), move || run(task))).collect()
        };
        let nothing = Optional::nothing();
        self.add(&nothing, of(CLASSIFICATION, &|_| true));
        self.add(&nothing, of(SEGMENTATION, &|when| when == When::Always));
        self.add_nightly(&nothing, of(SEGMENTATION, &|when| when == When::ByNight), so_long);
    }
}
