//! `kindling data check`: what is wrong with a data set, before a night is spent on it.

use anyhow::Result;
use kindling_data::check::{Report, check};
use kindling_data::{PassedOver, Split, Task};
use kindling_runs::Table;
use serde_json::{Value, json};

use crate::Done;
use crate::commands::Format;
use crate::dataset::{self, HowToOpen};
use crate::output::{self, out};
use crate::progress::progress_bar;
use crate::ranges;

/// Lines of a list that the table shows; JSON has all.
const SHOWN: usize = 20;

/// Read every sample and say what is wrong: unreadable files, copies, patients and images on two sides of a split, missing classes
///
/// Counts by class and split, sizes, bit depths, mean and deviation come with it. The exit code is 1 if a file cannot be
/// read, a group or an image is on two sides, a split lacks a class, or one image has two classes.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A name from `data list`, a folder, a manifest or shards
    data: String,
    /// Splits what is not split yet, 0 to 9223372036854775807
    #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    opening: HowToOpen,
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let opened = dataset::inspect(&self.data, self.seed, &self.opening)?;
        let total: usize = Split::ALL.iter().map(|split| opened.dataset.source(*split).len()).sum();
        let bar = progress_bar(total, "samples read");
        let report = check(&opened.dataset, &opened.problems, || bar.inc(1));
        bar.finish_and_clear();
        match self.format {
            Format::Json => {
                let mut value = serde_json::to_value(&report)?;
                if let Value::Object(object) = &mut value {
                    object.insert("sound".into(), json!(report.is_sound()));
                    object.insert("split_by".into(), json!(opened.split_by));
                    object.insert("passed_over".into(), json!(opened.passed_over));
                }
                out!("{value}");
            }
            Format::Table => print(&report, &opened.passed_over),
        }
        Ok(if report.is_sound() { Done::Complete } else { Done::SomeFailed })
    }
}

fn print(report: &Report, passed_over: &PassedOver) {
    out!("{}", report.name);
    output::paragraph(&report.about);
    out!();
    let heading = if report.task == Task::MultiLabel { "<label" } else { "<class" };
    let mut table = Table::new(&[heading, "train", "val", "test"]);
    let mut row = |name: &str, counts: [usize; 3]| {
        table.row([name.to_string()].into_iter().chain(counts.map(|count| count.to_string())));
    };
    for (index, class) in report.classes.iter().enumerate() {
        row(class, Split::ALL.map(|split| report.by_class[split.name()][index]));
    }
    row("samples", Split::ALL.map(|split| report.samples[split.name()]));
    if !report.groups.is_empty() {
        row("groups", Split::ALL.map(|split| report.groups.get(split.name()).copied().unwrap_or(0)));
    }
    output::text_of_product(&table.to_string());
    if !report.values.is_empty() {
        out!();
        let values = Split::ALL.iter().filter_map(|split| Some((split.name(), *report.values.get(split.name())?)));
        super::print_values(&values.collect::<Vec<_>>());
    }
    let mut sizes: Vec<(&String, &usize)> = report.sizes.iter().collect();
    sizes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let of_sizes: Vec<String> = sizes.iter().take(8).map(|(size, count)| format!("{size} ({count})")).collect();
    let others = sizes.len().saturating_sub(8);
    out!(
        "\nsizes   {}{}",
        of_sizes.join(", "),
        if others > 0 { format!(" and {others} others") } else { String::new() }
    );
    let depths: Vec<String> = report.depths.iter().map(|(depth, count)| format!("{depth} ({count})")).collect();
    out!("bits    {}", depths.join(", "));
    let numbers = |values: &[f64]| values.iter().map(|value| format!("{value:.4}")).collect::<Vec<_>>().join(" ");
    out!("mean    {}\nstd     {}", numbers(&report.mean), numbers(&report.std));

    if !passed_over.is_empty() {
        out!("\n{passed_over}");
    }
    list("cannot be read", &report.unreadable);
    list("groups on two sides", &report.leaks);
    list("classes that a split lacks", &report.lacking);
    let lines = |wanted: fn(bool, bool) -> bool| -> Vec<String> {
        let of_kind = report.duplicates.iter().filter(|copies| wanted(copies.across_splits, copies.contradicting));
        of_kind
            .map(|copies| {
                copies.samples.iter().map(|(name, split)| format!("{name:?} ({split})")).collect::<Vec<_>>().join(" = ")
            })
            .collect()
    };
    list("images with two classes", &lines(|_, contradicting| contradicting));
    list("images on two sides", &lines(|across, contradicting| across && !contradicting));
    list("images twice in a split (not counted as wrong)", &lines(|across, contradicting| !across && !contradicting));
    out!("\n{}", if report.is_sound() { "nothing is wrong" } else { "something is wrong: see above" });
}

fn list(title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    out!("\n{title}: {}", lines.len());
    for line in lines.iter().take(SHOWN) {
        out!("  {line}");
    }
    if lines.len() > SHOWN {
        out!("  ... and {} more: --format json has all", lines.len() - SHOWN);
    }
}
