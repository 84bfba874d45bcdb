//! `kindling data`: data sets.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use kindling_data::{Dataset, Loader, LoaderConfig, OnBadSample, Split, sheet};
use serde_json::json;

use crate::Done;
use crate::commands::train;
use crate::config;
use crate::dataset::{self, HowToOpen, NAMED};
use crate::output::out;
use crate::ranges;

mod check;
mod pack;

/// Images are augmented at the side that training has by default, and then scaled down.
const SHEET_SIZE: usize = 512;

/// List data sets, describe or check one, draw a sheet of its samples, or pack it into shards
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the data sets that have a name
    List,
    /// Classes, splits and sizes of a data set or image folder
    Describe {
        /// A name from `data list`, a folder, a manifest or shards
        data: String,
        /// Splits a folder that is not split yet, 0 to 9223372036854775807
        #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
        seed: u64,
        #[command(flatten)]
        opening: HowToOpen,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    Check(check::Args),
    Pack(pack::Args),
    /// Draw samples of every class into one PNG
    Sheet {
        /// A name from `data list`, a folder, a manifest or shards
        data: String,
        /// Where the PNG goes
        #[arg(long, value_name = "FILE", default_value = "sheet.png")]
        out: PathBuf,
        /// train, val or test
        #[arg(long, default_value = "train")]
        split: Split,
        /// Samples of each class, 1 to 1048576
        #[arg(long, value_name = "N", value_parser = ranges::samples(), default_value_t = 8)]
        per_class: usize,
        /// Side of a sample in pixels, 16 to 1024
        #[arg(long, value_name = "PIXELS", value_parser = ranges::picture_side(), default_value_t = 192)]
        side: usize,
        /// What the model will see in training: one row a sample, one column an epoch, under a policy [default: that of the
        /// data set]
        #[arg(long, value_name = "POLICY", num_args = 0..=1, default_missing_value = "")]
        augmented: Option<String>,
        /// Splits a folder that is not split yet, 0 to 9223372036854775807
        #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
        seed: u64,
        #[command(flatten)]
        opening: HowToOpen,
    },
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        match self.command {
            Command::List => {
                out!("{:<14} {:<38} about", "name", "needs");
                for set in NAMED {
                    out!("{:<14} {:<38} {}", set.name, set.needs, set.about);
                }
                out!(
                    "\nAny folder of images works too: --data DIR, with one sub-folder a class. So do manifests (.csv, .jsonl) and"
                );
                out!("shards (.tar). Images are PNG, JPEG, TIFF, DICOM (with DICOMDIR) and NIfTI.");
            }
            Command::Describe { data, seed, opening, json } => describe(&data, seed, &opening, json)?,
            Command::Check(args) => return args.run(),
            Command::Pack(args) => return args.run(),
            Command::Sheet { data, out, split, per_class, side, augmented, seed, opening } => {
                let dataset = dataset::open_with(&data, seed, &opening)?.dataset;
                let source = dataset.source(split);
                let groups = match augmented {
                    None => sheet::groups_of(source.as_ref(), &dataset.classes, per_class, side)?,
                    Some(policy) => augmented_groups(&dataset, split, &policy, per_class.min(8), side, seed)?,
                };
                sheet::write_png(&sheet::draw(&groups, per_class.min(8)), &out)?;
                out!("{}", out.display());
            }
        }
        Ok(Done::Complete)
    }
}

/// Samples as the loader of a run makes them, in this many epochs.
fn augmented_groups(
    dataset: &Dataset,
    split: Split,
    policy: &str,
    epochs: usize,
    side: usize,
    seed: u64,
) -> Result<Vec<sheet::Group>> {
    let augment = if policy.is_empty() { dataset.augment.clone() } else { train::augment(policy)? };
    let preprocess = config::preprocess(dataset, SHEET_SIZE, OnBadSample::Fail)?;
    let loader = LoaderConfig {
        workers: 2,
        augment,
        classes: dataset.classes.len(),
        task: dataset.task,
        ..LoaderConfig::shuffled(8, preprocess.clone(), seed)
    };
    let loader = Loader::new(dataset.source(split).clone(), loader)?;
    Ok(sheet::augmented_groups(&loader, &preprocess, &dataset.classes, 2, epochs, side)?)
}

fn describe(data: &str, seed: u64, opening: &HowToOpen, as_json: bool) -> Result<()> {
    let dataset = dataset::open_with(data, seed, opening)?.dataset;
    let counts = Split::ALL.map(|split| dataset.class_counts(split));
    if as_json {
        let splits: serde_json::Map<_, _> =
            Split::ALL.iter().zip(&counts).map(|(split, counts)| (split.to_string(), json!(counts))).collect();
        out!(
            "{}",
            json!({ "name": dataset.name, "about": dataset.about, "classes": dataset.classes,
                    "channels": dataset.channels, "augment": dataset.augment, "samples": splits })
        );
        return Ok(());
    }
    out!("{}\n{}\n", dataset.name, dataset.about);
    let width = dataset.classes.iter().map(|class| class.chars().count()).max().unwrap_or(0).max(12);
    out!("{:width$}  {:>7} {:>7} {:>7}", "class", "train", "val", "test");
    for (index, class) in dataset.classes.iter().enumerate() {
        out!("{class:width$}  {:>7} {:>7} {:>7}", counts[0][index], counts[1][index], counts[2][index]);
    }
    let totals = counts.each_ref().map(|counts| counts.iter().sum::<usize>());
    out!("{:width$}  {:>7} {:>7} {:>7}", "all", totals[0], totals[1], totals[2]);
    out!("\nmost frequent answer of test: {:.1} %", dataset.majority_baseline(Split::Test) * 100.0);
    Ok(())
}
