//! The shortest possible training on the stand-in for CUDA, for tests that disturb it.

use std::path::PathBuf;
use std::process::Command;

use tempfile::{TempDir, tempdir};

use crate::{Started, picture_folder, train_on_cuda};

/// Steps of [`ShortRuns::train`].
pub const SHORT_STEPS: u64 = 3;

/// Runs of a tiny network, in a folder that goes with them.
#[derive(Debug)]
pub struct ShortRuns {
    folder: TempDir,
}

impl ShortRuns {
    /// Makes pictures for three batches of four, so that no checkpoint of an epoch comes before the last step, and as many to
    /// validate and to test as fit into one: kernels are compiled anew for each size, and that takes the time.
    ///
    /// # Panics
    /// If a file cannot be written.
    #[expect(clippy::new_without_default, reason = "it writes files")]
    pub fn new() -> Self {
        let folder = tempdir().expect("a temporary folder");
        for (split, each) in [("train", 4), ("val", 1), ("test", 1)] {
            picture_folder(&folder.path().join("data").join(split), each);
        }
        Self { folder }
    }

    /// A file or a run of this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command that trains into the folder `name`.
    pub fn train(&self, name: &str) -> Command {
        self.train_model(name, "mobilenet_v3_small", 32)
    }

    /// The same of another network on images of another side.
    pub fn train_model(&self, name: &str, model: &str, side: u32) -> Command {
        let flags = format!("--model {model} --image-size {side} --batch-size 4 --max-steps {SHORT_STEPS} --workers 1");
        let mut command = train_on_cuda(&self.path("data"), &self.path(name), &flags);
        command.env_remove("RUST_BACKTRACE");
        command
    }

    /// Starts a run that nothing disturbs; end it with [`ShortRuns::finished`]. It goes on beside others.
    pub fn undisturbed(&self) -> Started {
        Started::new(self.train("undisturbed"), &self.path("undisturbed"))
    }

    /// The folder of a run that ends well.
    ///
    /// # Panics
    /// If it does not.
    pub fn finished(started: Started) -> PathBuf {
        let run = started.run().to_path_buf();
        started.end().succeeded();
        run
    }
}
