//! One file per subcommand, and what several of them take.

use std::path::Path;

use anyhow::{Result, bail};
use clap::ValueEnum;
use kindling_trainer::Views;

use crate::ranges;

pub(crate) mod bench;
pub(crate) mod card;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod devices;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod find_lr;
pub(crate) mod forward;
pub(crate) mod gan;
pub(crate) mod man;
pub(crate) mod models;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod run_flags;
pub(crate) mod runs;
pub(crate) mod sweep;
pub(crate) mod train;

/// How a result is printed: for people or for programs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

/// Which views of an image are averaged.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestTimeAugmentation {
    /// The image alone
    #[default]
    None,
    /// The image and its mirror image, left and right exchanged: not where sides matter
    Flip,
}

impl From<TestTimeAugmentation> for Views {
    fn from(of: TestTimeAugmentation) -> Self {
        match of {
            TestTimeAugmentation::None => Self::Alone,
            TestTimeAugmentation::Flip => Self::Flip,
        }
    }
}

/// Whether a network for segmentation sees an image whole, or in windows.
#[derive(clap::Args)]
pub(crate) struct SlidingWindow {
    /// Of a network for segmentation: draw masks at the images' own resolution, in overlapping windows of the run's image size, as nnU-Net
    /// does, instead of fitting each image to that size
    #[arg(long)]
    sliding_window: bool,
    /// How much of a window lies in the next one, at least, 0 to 0.9 [default: 0.5]
    #[arg(long, value_name = "SHARE", requires = "sliding_window", value_parser = ranges::overlap)]
    overlap: Option<f64>,
}

/// What nnU-Net has windows share.
const OVERLAP: f64 = 0.5;

impl SlidingWindow {
    /// How much windows share, if there are any.
    pub(crate) fn overlap(&self) -> Option<f64> {
        self.sliding_window.then(|| self.overlap.unwrap_or(OVERLAP))
    }

    /// Fails where windows are asked for and there are no masks.
    pub(crate) fn refuse(&self) -> Result<()> {
        match self.overlap() {
            None => Ok(()),
            Some(_) => bail!("--sliding-window is about masks, and this network answers for images, not for pixels"),
        }
    }
}

/// What is written for other programs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Tensors by name
    Safetensors,
    /// The network with its weights
    Onnx,
}

impl ExportFormat {
    /// The format of a file: what is asked for, or what its name ends with; safetensors where that says nothing.
    ///
    /// # Errors
    /// A sentence, if the two disagree: a file that is not what it is called is found out by whoever opens it.
    pub(crate) fn of(asked: Option<Self>, path: &Path) -> Result<Self> {
        let ends_with = |suffix: &str| path.extension().is_some_and(|have| have.eq_ignore_ascii_case(suffix));
        let named = match (ends_with("onnx"), ends_with("safetensors")) {
            (true, _) => Some(Self::Onnx),
            (_, true) => Some(Self::Safetensors),
            _ => None,
        };
        match (asked, named) {
            (Some(asked), Some(named)) if asked != named => {
                bail!(
                    "{} ends like another format than --format asks for; leave --format out, or give the file another \
                     ending",
                    path.display()
                )
            }
            (asked, named) => Ok(asked.or(named).unwrap_or(Self::Safetensors)),
        }
    }
}
