//! `kindling data`: data sets.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use kindling_data::{Dataset, Loader, LoaderConfig, OnBadSample, Split, Task, ValueSummary, sheet};
use kindling_runs::Table;
use serde_json::json;

use crate::Done;
use crate::commands::{Format, train};
use crate::config;
use crate::dataset::{self, HowToOpen, NAMED};
use crate::output::{self, out};
use crate::ranges;

mod check;
mod pack;
mod split;

/// Images are augmented at the side that training has by default, and then scaled down.
const SHEET_SIZE: usize = 512;

/// List data sets, describe, check or split one, draw a sheet of its samples, or pack it into shards
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the data sets that have a name
    List {
        /// How the list is printed
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Classes, splits and sizes of a data set or image folder
    Describe {
        /// A name from `data list`, a folder, a manifest or shards
        data: String,
        /// Splits a folder that is not split yet, 0 to 9223372036854775807
        #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
        seed: u64,
        #[command(flatten)]
        opening: HowToOpen,
        /// How it is printed
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
        /// What `--format json` was called
        #[arg(long, hide = true, conflicts_with = "format")]
        json: bool,
    },
    Check(check::Args),
    Split(split::Args),
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
            Command::List { format } => list(format),
            Command::Describe { data, seed, opening, format, json } => {
                describe(&data, seed, &opening, json || format == Format::Json)?;
            }
            Command::Check(args) => return args.run(),
            Command::Split(args) => return args.run(),
            Command::Pack(args) => return args.run(),
            Command::Sheet { data, out, split, per_class, side, augmented, seed, opening } => {
                let dataset = dataset::open_with(&data, seed, &opening)?.dataset;
                let source = dataset.source(split);
                let groups = match augmented {
                    None if dataset.task == Task::Segmentation => {
                        sheet::masked_groups_of(source.as_ref(), &dataset.classes, per_class, side)?
                    }
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

fn list(format: Format) {
    if format == Format::Json {
        for set in NAMED {
            out!("{}", json!({ "name": set.name, "needs": set.needs, "about": set.about }));
        }
        return;
    }
    let mut table = Table::new(&["<name", "<about"]);
    for set in NAMED {
        table.row([set.name, set.about]);
    }
    output::text_of_product(&table.to_string());
    out!();
    // Of these, names of scripts are copied: they stay in one piece.
    for set in NAMED {
        out!("{} needs {}", set.name, set.needs);
    }
    out!("\nAny folder of images works too: --data DIR, with one sub-folder a class. So do");
    out!("manifests (.csv, .jsonl) and shards (.tar). Images are PNG, JPEG, TIFF, GIF,");
    out!("BMP, WebP, DICOM (with DICOMDIR) and NIfTI.");
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

/// The numbers of the splits that have some, as a table.
fn print_values(values: &[(&str, ValueSummary)]) {
    let mut table = Table::new(&["<split", "samples", "mean", "deviation", "least", "most"]);
    let text = |number: f64| format!("{number:.4}").trim_end_matches('0').trim_end_matches('.').to_owned();
    for (split, of) in values {
        let numbers = [of.mean, of.std, of.min, of.max].map(text);
        table.row([(*split).to_owned(), of.samples.to_string()].into_iter().chain(numbers));
    }
    output::text_of_product(&table.to_string());
}

fn describe(data: &str, seed: u64, opening: &HowToOpen, as_json: bool) -> Result<()> {
    let dataset = dataset::open_with(data, seed, opening)?.dataset;
    let counts = Split::ALL.map(|split| dataset.class_counts(split));
    // A sample may have several labels, or none.
    let totals = Split::ALL.map(|split| dataset.source(split).len());
    let values: Vec<(&str, ValueSummary)> =
        Split::ALL.into_iter().filter_map(|split| Some((split.name(), dataset.value_summary(split)?))).collect();
    if as_json {
        let numbers: serde_json::Map<_, _> =
            values.iter().map(|(split, of)| ((*split).to_owned(), json!(of))).collect();
        let splits: serde_json::Map<_, _> =
            Split::ALL.iter().zip(&counts).map(|(split, counts)| (split.to_string(), json!(counts))).collect();
        let images: serde_json::Map<_, _> =
            Split::ALL.iter().zip(totals).map(|(split, total)| (split.to_string(), json!(total))).collect();
        out!(
            "{}",
            json!({ "name": dataset.name, "about": dataset.about, "classes": dataset.classes,
                    "channels": dataset.channels, "augment": dataset.augment, "samples": splits,
                    "images": images, "numbers": numbers })
        );
        return Ok(());
    }
    out!("{}", dataset.name);
    output::paragraph(&dataset.about);
    out!();
    if !values.is_empty() {
        out!("{}", dataset.classes.join(", "));
        print_values(&values);
        return Ok(());
    }
    let heading = if dataset.task == Task::MultiLabel { "<label" } else { "<class" };
    let mut table = Table::new(&[heading, "train", "val", "test"]);
    for (index, class) in dataset.classes.iter().enumerate() {
        let counts = counts.each_ref().map(|counts| counts[index].to_string());
        table.row([class.clone()].into_iter().chain(counts));
    }
    table.row(["samples".to_string()].into_iter().chain(totals.map(|total| total.to_string())));
    output::text_of_product(&table.to_string());
    for lacking in dataset.lacking() {
        out!("warning: {lacking}");
    }
    out!("\nmost frequent answer of test: {:.1} %", dataset.majority_baseline(Split::Test) * 100.0);
    Ok(())
}
