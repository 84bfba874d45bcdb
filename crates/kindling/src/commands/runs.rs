//! `kindling runs`: what there is, with what matters of each; and runs for other trackers.

mod export;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use kindling_files::csv::csv_line;
use kindling_runs::{COLUMNS, Listed, Table, columns_of, runs_in};
use serde_json::{Map, Value};

use crate::Done;
use crate::output::{self, note, out};

/// The columns of the table for people: what else there is stands in json and csv.
const SHOWN: [(&str, &str); 7] = [
    ("run", "<run"),
    ("model", "<model"),
    ("accuracy", "accuracy"),
    ("macro_auroc", "AUROC"),
    ("dice", "Dice"),
    ("images_per_second", "images/s"),
    ("seconds", "seconds"),
];

/// List runs with their scores, speed and memory
///
/// Columns are run, model, data, ended, steps, accuracy, balanced_accuracy, macro_auroc, loss (of the test split),
/// images_per_second, peak_memory_bytes and seconds; dice if any run segments; and every key of a configuration, such as train.lr.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Folders of runs, or runs; one that is called export is ./export
    #[arg(value_name = "FOLDER", default_value = "runs")]
    folders: Vec<PathBuf>,
    /// Only runs with this value; given several times, all must hold
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = condition)]
    conditions: Vec<(String, String)>,
    /// Sort by a column, the smallest first; runs without it come last
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// The largest first
    #[arg(long, requires = "sort")]
    reverse: bool,
    /// Also show these columns, separated by commas
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// json: one object a line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Subcommand)]
enum Command {
    Export(export::Args),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
}

fn condition(text: &str) -> Result<(String, String), String> {
    let (column, value) = text.split_once('=').ok_or("it is not COLUMN=VALUE")?;
    Ok((column.trim().to_owned(), value.trim().to_owned()))
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        if let Some(Command::Export(export)) = &self.command {
            return export.run();
        }
        let mut runs = Vec::new();
        let mut done = Done::Complete;
        for folder in &self.folders {
            for run in runs_in(folder)? {
                match Listed::of(&run) {
                    Ok(listed) => runs.push(listed),
                    Err(error) => {
                        note!("error: {error}");
                        done = Done::SomeFailed;
                    }
                }
            }
        }
        self.check_columns(&runs)?;
        runs.retain(|run| self.conditions.iter().all(|(column, value)| run.text(column) == *value));
        if let Some(column) = &self.sort {
            runs.sort_by(|a, b| {
                let (a, b) = if self.reverse && a.value(column).is_some() && b.value(column).is_some() {
                    (b, a)
                } else {
                    (a, b)
                };
                a.compare(b, column)
            });
        }
        match self.format {
            Format::Table => self.print(&runs),
            Format::Json => {
                let columns = self.all_columns(&runs);
                runs.iter().for_each(|run| out!("{}", Value::Object(object(run, &columns))));
            }
            Format::Csv => {
                let columns = self.all_columns(&runs);
                out!("{}", csv_line(&columns));
                runs.iter().for_each(|run| out!("{}", csv_line(columns.iter().map(|column| run.text(column)))));
            }
        }
        Ok(done)
    }

    /// A column that no run has is a typing error, which must not look like an answer.
    fn check_columns(&self, runs: &[Listed]) -> Result<()> {
        let asked = self.conditions.iter().map(|(column, _)| column).chain(&self.sort).chain(&self.columns);
        let unknown: BTreeSet<&String> = asked
            .filter(|column| !COLUMNS.contains(&column.as_str()) && runs.iter().all(|run| run.value(column).is_none()))
            .collect();
        if let (Some(column), false) = (unknown.first(), runs.is_empty()) {
            bail!("no run has the column {column}; there are {}, and every key of a config.toml", COLUMNS.join(", "));
        }
        Ok(())
    }

    fn all_columns(&self, runs: &[Listed]) -> Vec<&str> {
        columns_of(runs).into_iter().chain(self.columns.iter().map(String::as_str)).collect()
    }

    fn print(&self, runs: &[Listed]) {
        let known = columns_of(runs);
        let more = self.columns.iter().map(|column| (column.as_str(), column.as_str()));
        let usual = SHOWN.into_iter().filter(|(column, _)| known.contains(column));
        let shown: Vec<(&str, &str)> = usual.chain(more).collect();
        let mut table = Table::new(&shown.iter().map(|(_, heading)| *heading).collect::<Vec<_>>());
        let text = |run: &Listed, column: &str| match run.value(column).and_then(|value| value.as_f64()) {
            Some(number) if known.contains(&column) => format!("{number:.3}"),
            _ if run.value(column).is_none() => "-".to_owned(),
            _ => run.text(column),
        };
        runs.iter().for_each(|run| table.row(shown.iter().map(|(column, _)| text(run, column))));
        output::text_of_product(&table.to_string());
    }
}

fn object(run: &Listed, columns: &[&str]) -> Map<String, Value> {
    columns.iter().map(|column| ((*column).to_owned(), run.value(column).unwrap_or(Value::Null))).collect()
}
