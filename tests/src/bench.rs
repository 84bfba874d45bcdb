//! A place for a test: images to train on, and room for runs on them.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Flags, Outcome, kindling, mask_folder, picture_folder};

/// A folder that goes away with the test, with images in it.
#[derive(Debug)]
pub struct Bench {
    folder: TempDir,
    data: PathBuf,
    subcommand: &'static [&'static str],
    segments: bool,
}

impl Bench {
    /// For runs of `kindling train` on `each` pictures of every class, see [`picture_folder`].
    ///
    /// # Panics
    /// If they cannot be written.
    pub fn new(each: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        picture_folder(&data, each);
        Self { folder, data, subcommand: &["train"], segments: false }
    }

    /// For runs of `kindling train` of a network: on images with masks ([`mask_folder`]) if its name is one of a network for segmentation,
    /// and otherwise as [`Bench::new`].
    ///
    /// # Panics
    /// As [`Bench::new`].
    pub fn for_model(model: &str, each: usize) -> Self {
        if !["unet-", "deeplabv3", "fcn_", "lraspp_"].iter().any(|decoder| model.starts_with(decoder)) {
            return Self::new(each);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        mask_folder(&data, 3 * each);
        Self { folder, data, subcommand: &["train"], segments: true }
    }

    /// For runs of `kindling gan train`.
    ///
    /// # Panics
    /// As [`Bench::new`].
    pub fn of_two_networks(each: usize) -> Self {
        Self { subcommand: &["gan", "train"], ..Self::new(each) }
    }

    /// The images.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Where the run `name` goes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A quiet run `name` on the CPU with these failures (`KINDLING_FAULT`), whose panics need not be shown.
    pub fn command(&self, name: &str, flags: &str, faults: &str) -> Command {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").env("KINDLING_FAULT", faults).args(self.subcommand);
        command.args(["--device", "cpu", "--quiet", "--data"]).arg(&self.data).arg("--out").arg(self.path(name));
        // What is about classifiers alone is refused where each pixel has a class.
        let flags = if self.segments { Flags::of(flags).without("drop-rate").to_string() } else { flags.to_string() };
        command.args(flags.split_whitespace());
        command
    }

    /// The folder of such a run, which ended well.
    ///
    /// # Panics
    /// If it did not.
    pub fn run(&self, name: &str, flags: &str, faults: &str) -> PathBuf {
        Outcome::of(&mut self.command(name, flags, faults)).succeeded();
        self.path(name)
    }
}
