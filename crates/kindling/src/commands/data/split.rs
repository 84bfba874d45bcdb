//! `kindling data split`: a data set's split, written down as a manifest.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kindling_data::{Split, SplitBy, manifest_of};
use kindling_runs::write_atomically;
use serde_json::json;

use crate::Done;
use crate::dataset::{self, HowToOpen};
use crate::output::{note, out};
use crate::ranges;

/// Write which sample is in train, val and test as a manifest, which `--data` reads with the same sides
///
/// From then on files that come or go change no side: the manifest says them. The last line is one JSON object.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder or a manifest
    data: String,
    /// The new manifest: CSV, or JSON Lines if it ends in .jsonl
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Splits what is not split yet, 0 to 9223372036854775807
    #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    opening: HowToOpen,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let is = |ending: &str| self.out.extension().is_some_and(|have| have.eq_ignore_ascii_case(ending));
        if !is("csv") && !is("jsonl") && !is("ndjson") {
            bail!("{:?} would not be read as a manifest; give a name that ends in .csv or .jsonl", self.out);
        }
        if self.out.exists() {
            bail!("{:?} is there already; give another name, or remove it", self.out);
        }
        let opened = dataset::open_with(&self.data, self.seed, &self.opening)?;
        let data = Path::new(&self.data);
        let root = if data.is_dir() { data } else { data.parent().unwrap_or(Path::new("")) };
        let folder = self.out.parent().unwrap_or(Path::new(""));
        let with_groups = opened.split_by != Some(SplitBy::None);
        let text = manifest_of(&opened.dataset, root, folder, with_groups, !is("csv"))?;
        write_atomically(&self.out, text.as_bytes())?;
        opened.dataset.lacking().iter().for_each(|lacking| note!("warning: {lacking}"));
        let sizes = Split::ALL.map(|split| opened.dataset.source(split).len());
        out!("{}", json!({ "manifest": self.out, "train": sizes[0], "val": sizes[1], "test": sizes[2] }));
        Ok(Done::Complete)
    }
}
