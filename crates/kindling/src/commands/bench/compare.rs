//! `kindling bench compare`: two files beside each other.

use std::path::PathBuf;

use anyhow::{Context, Result};
use kindling_report::bench_page;
use kindling_runs::bench::{Comparison, Pair, Rows, comparison_table};
use kindling_runs::write_atomically;
use serde_json::{Value, json};

use crate::Done;
use crate::commands::Format;
use crate::output::{self, out};

/// Compare two files of `kindling bench`, or one of scripts/peers/pytorch_bench.py
///
/// Rows of the same configuration stand beside each other, with the ratio of the second file's speed to the first's. A
/// difference is called one if the quartile ranges of the windows' speeds do not touch. Several rounds of a row count
/// together; of several variants (memory layouts) the fastest counts.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The first file
    a: PathBuf,
    /// The second file
    b: PathBuf,
    /// How the comparison is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write a page with bars, and speed against memory
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Compare unlike configurations too
    #[arg(long)]
    force: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<Done> {
        let (a, b) = (Rows::read(&self.a)?, Rows::read(&self.b)?);
        let comparison = Comparison::of(&a, &b, self.force).map_err(anyhow::Error::msg)?;
        if let Some(path) = &self.html {
            let rows = [a.pooled(), b.pooled()].concat();
            let name = |path: &PathBuf| path.file_stem().map_or(String::new(), |it| it.to_string_lossy().into_owned());
            let title = format!("{} against {}", name(&self.a), name(&self.b));
            let page = bench_page(&title, &rows, Some(&comparison));
            write_atomically(path, page.as_bytes()).with_context(|| format!("writing {}", path.display()))?;
        }
        match self.format {
            Format::Table => output::text_of_product(&comparison_table(&comparison)),
            Format::Json => out!("{}", as_json(&comparison)),
        }
        Ok(Done::Complete)
    }
}

fn as_json(comparison: &Comparison) -> Value {
    let pair = |pair: &Pair| {
        let memory = pair.memory_ratio();
        let speed = |row: &kindling_runs::bench::Row| row.measured().map(|measured| measured.images_per_second);
        json!({
            "configuration": pair.a.configuration, "configuration_hash": pair.a.configuration_hash,
            "a": pair.a.engine_label(), "b": pair.b.engine_label(), "differences": pair.differences,
            "a_images_per_second": speed(&pair.a), "b_images_per_second": speed(&pair.b),
            "speed_ratio": pair.speed_ratio(), "difference": pair.verdict().words(),
            "memory_ratio": memory.map(|memory| memory.0), "memory_of": memory.map(|memory| memory.1),
        })
    };
    let pairs: Vec<Value> = comparison.pairs.iter().map(pair).collect();
    json!({ "test": "quartile ranges of the windows' speeds do not touch", "pairs": pairs,
            "only_a": comparison.only_a, "only_b": comparison.only_b })
}
