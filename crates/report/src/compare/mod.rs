//! Several runs beside each other: what was set otherwise, scores, curves, and differences from the first with their intervals.

pub(crate) mod curves;
mod differences;
mod folds;
mod table;
#[cfg(test)]
mod tests;

use kindling_metrics::Paired;
use kindling_runs::{CrossValidation, Record};
use maud::{Markup, PreEscaped, html};

use crate::chart::{Stroke, sample};
use crate::frame::frame;
use crate::run::{POLICY, SCRIPT, STYLE};
use crate::words;

pub(crate) const OWN_STYLE: &str = include_str!("compare.css");

/// Colours of the style sheet, and how many dash patterns it has. Their numbers have no common divisor, so thirty runs have looks of
/// their own, and neighbours differ in both.
const COLOURS: [&str; 6] = ["first", "second", "third", "fourth", "fifth", "sixth"];
const PATTERNS: usize = 5;

/// A run with the name that it has on the page.
#[derive(Debug, Clone)]
pub struct ComparedRun<'a> {
    /// Name of the run, e.g. its folder.
    pub name: &'a str,
    /// What its files say.
    pub record: &'a Record,
    /// Its scores less those of the first run; none of the first itself.
    pub paired: Option<&'a Paired>,
    /// Its folds, where it is a whole cross-validation.
    pub folds: Option<&'a CrossValidation>,
}

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    /// The split on whose images the runs are set against each other.
    pub split: &'a str,
    /// Resamples that intervals of differences come from; 0 where there are none.
    pub resamples: usize,
    /// The runs; others are set against the first.
    pub runs: &'a [ComparedRun<'a>],
}

impl Comparison<'_> {
    /// The page: one file that asks nothing of the network.
    pub fn html(&self) -> String {
        let are_folds = self.runs.iter().any(|run| run.folds.is_some());
        let (one, many) = if are_folds { ("cross-validation", "cross-validations") } else { ("run", "runs") };
        let title = words::plural(self.runs.len() as u64, one, many);
        let body = html! {
            header {
                p.brand { "Kindling compare" }
                h1 { (title) " compared" }
                @if let Some(first) = self.runs.first() { p.about { "Set against the first, " strong { (first.name) } "." } }
            }
            main {
                (table::section(self.runs))
                (curves::section(self.runs))
                (differences::section(self))
                (folds::section(self.runs))
            }
            footer { "Made by Kindling " (env!("CARGO_PKG_VERSION")) ". This page is one file and loads nothing." }
            script { (PreEscaped(SCRIPT)) }
        };
        frame(&format!("{title} compared – Kindling"), &format!("{STYLE}{OWN_STYLE}"), POLICY, &body).into_string()
    }
}

/// The colour of a run.
fn colour(run: usize) -> &'static str {
    COLOURS[run % COLOURS.len()]
}

/// The line of a run.
fn stroke(run: usize) -> Stroke {
    Stroke::Pattern(run % PATTERNS)
}

/// A run's number, with its line.
fn sign(run: usize) -> Markup {
    html! { (sample(colour(run), stroke(run))) (run + 1) }
}
