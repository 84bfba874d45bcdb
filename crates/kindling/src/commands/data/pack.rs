//! `kindling data pack`: a data set as WebDataset shards.

use std::path::PathBuf;

use anyhow::Result;
use kindling_data::{Split, shards};
use serde_json::json;

use crate::Done;
use crate::budget::MemoryBudget;
use crate::dataset::{self, HowToOpen};
use crate::output::{note, out};
use crate::progress::progress_bar;
use crate::ranges;

/// Write a data set as WebDataset shards (tar files) into a new folder
///
/// Files of pictures go in as they are, everything else as PNG of 8 or 16 bits, and with --task segmentation a mask beside each
/// image. The same data set, seed and size give the same bytes. The last line is one JSON object.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A name from `data list`, a folder, a manifest or shards
    data: String,
    /// The new folder: train-000000.tar, val-000000.tar, ...
    #[arg(long, alias = "shards", value_name = "DIR")]
    out: PathBuf,
    /// The most bytes of a shard
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = bytes)]
    shard_bytes: u64,
    /// Splits what is not split yet, and orders the samples in the shards, 0 to 9223372036854775807
    #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    opening: HowToOpen,
}

fn bytes(text: &str) -> Result<u64, String> {
    match text.parse::<MemoryBudget>() {
        Ok(MemoryBudget::Bytes(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err(format!("`{text}` is no size; say 256MiB or 1GiB")),
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let dataset = dataset::open_with(&self.data, self.seed, &self.opening)?.dataset;
        let total: usize = Split::ALL.iter().map(|split| dataset.source(*split).len()).sum();
        let bar = progress_bar(total, "samples packed");
        let packed = shards::pack(&dataset, &self.out, self.shard_bytes, self.seed, || bar.inc(1))?;
        bar.finish_and_clear();
        if packed.rounded > 0 {
            note!("note: {} images have values between 16-bit steps and were rounded", packed.rounded);
        }
        out!(
            "{}",
            json!({ "shards": packed.shards, "samples": packed.samples, "bytes": packed.bytes,
                    "rounded": packed.rounded, "folder": self.out })
        );
        Ok(Done::Complete)
    }
}
