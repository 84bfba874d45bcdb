//! The table of the runs: a column each.

use std::collections::BTreeMap;

use kindling_metrics::{Figure, SegmentedClassScores};
use kindling_runs::{Metrics, Record, TaskScores, settings_that_differ};
use maud::{Markup, html};

use super::{ComparedRun, sign};
use crate::scored;
use crate::words;

/// Settings that have rows of their own above the others.
const SHOWN_ABOVE: [&str; 2] = ["model.name", "data.source"];

/// A row: its name, and a cell for each run.
struct Row<'a> {
    name: String,
    cells: Vec<Cell<'a>>,
}

enum Cell<'a> {
    Text(String),
    Score(&'a Figure),
}

pub(super) fn section(runs: &[ComparedRun<'_>]) -> Markup {
    let records: Vec<&Record> = runs.iter().map(|run| run.record).collect();
    html! {
        section {
            h2 { "The runs" }
            div.scroll {
                table.numbers.ranges.runs {
                    thead { tr {
                        th scope="col" { "run" }
                        @for (index, run) in runs.iter().enumerate() { th scope="col" { (sign(index)) " " (run.name) } }
                    } }
                    tbody { (rows(&about(&records))) }
                    (part("Set otherwise", runs.len(), &settings(&records)))
                    (part(&scored_on(&records), runs.len(), &scores(&records)))
                    (part("Cost", runs.len(), &cost(&records)))
                }
            }
            p.note { "Scores are of all images of each run, with 95\u{a0}% intervals; differences on the images that runs share stand below." }
        }
    }
}

/// A part of the table under a title of its own; nothing if it has no rows.
fn part(title: &str, runs: usize, of: &[Row<'_>]) -> Markup {
    html! {
        @if !of.is_empty() {
            tbody {
                tr.part { th scope="rowgroup" colspan=(runs + 1) { (title) } }
                (rows(of))
            }
        }
    }
}

fn rows(rows: &[Row<'_>]) -> Markup {
    html! {
        @for row in rows {
            tr {
                th scope="row" { (row.name) }
                @for cell in &row.cells {
                    td {
                        @match cell {
                            Cell::Text(text) => (text),
                            Cell::Score(figure) => {
                                b { (scored::number(figure.value)) } span { (scored::interval(figure)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn row<'a>(name: &str, records: &[&Record], text: impl Fn(&Record) -> String) -> Row<'a> {
    Row { name: name.to_owned(), cells: records.iter().map(|record| Cell::Text(text(record))).collect() }
}

/// The same for a figure that not all runs have; nothing if none has.
fn measured<'a>(name: &str, records: &[&Record], text: impl Fn(&Metrics) -> Option<String>) -> Option<Row<'a>> {
    let of = |record: &Record| record.metrics.as_ref().and_then(&text);
    let is_known = records.iter().any(|record| of(record).is_some());
    is_known.then(|| row(name, records, |record| of(record).unwrap_or_else(|| "–".to_owned())))
}

fn about<'a>(records: &[&Record]) -> Vec<Row<'a>> {
    let mut rows = vec![
        row("model", records, |record| record.model().to_owned()),
        row("data", records, |record| record.data().to_owned()),
    ];
    rows.extend(measured("parameters", records, |metrics| Some(words::count(metrics.parameters))));
    rows
}

fn settings<'a>(records: &[&Record]) -> Vec<Row<'a>> {
    let settings: Vec<&BTreeMap<String, String>> = records.iter().map(|record| &record.settings).collect();
    let differ = settings_that_differ(&settings).into_iter().filter(|(key, _)| !SHOWN_ABOVE.contains(key));
    let cell = |value: Option<&str>| Cell::Text(value.unwrap_or("–").to_owned());
    differ.map(|(key, values)| Row { name: key.to_owned(), cells: values.into_iter().map(cell).collect() }).collect()
}

/// What scores are of: runs may have scored other splits.
fn scored_on(records: &[&Record]) -> String {
    let mut splits: Vec<&str> = records.iter().filter_map(|record| basis(record)).map(|basis| basis.0).collect();
    splits.dedup();
    format!("Scores, {} split", splits.join(" or "))
}

/// The split that was scored, and what of it.
fn basis(record: &Record) -> Option<(&str, String)> {
    let scores = record.scores.as_ref()?;
    Some((scores.split(), scored::counted(scores)))
}

/// All scores of a run, each with its name on the page.
fn figures(record: &Record) -> Vec<(String, &Figure)> {
    let whole = record.scores.iter().flat_map(TaskScores::figures);
    let classes = match &record.scores {
        Some(TaskScores::Masks(scores)) => scores.classes.as_slice(),
        _ => &[],
    };
    let whole = whole.map(|figure| (scored::name(&figure.name).into_owned(), figure));
    let of_class = |class: &SegmentedClassScores| scored::name(&format!("dice: {}", class.name)).into_owned();
    whole.chain(classes.iter().map(|class| (of_class(class), &class.dice))).collect()
}

fn scores<'a>(records: &[&'a Record]) -> Vec<Row<'a>> {
    let all: Vec<Vec<(String, &Figure)>> = records.iter().map(|record| figures(record)).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let cell = |figures: &Vec<(String, &'a Figure)>, name: &str| {
        let found = figures.iter().find(|(known, _)| known == name);
        found.map_or_else(|| Cell::Text("–".to_owned()), |(_, figure)| Cell::Score(figure))
    };
    let row_of = |name: &str| Row { name: name.to_owned(), cells: all.iter().map(|one| cell(one, name)).collect() };
    let mut rows: Vec<Row<'a>> = names.into_iter().map(row_of).collect();
    if !rows.is_empty() {
        let of = |record: &Record| basis(record).map_or_else(|| "–".to_owned(), |(_, of)| of);
        rows.insert(0, row("scored on", records, of));
    }
    rows
}

fn cost<'a>(records: &[&Record]) -> Vec<Row<'a>> {
    let device = |record: &Record| {
        let environment = record.environment.as_ref();
        let device = environment.map(|environment| environment.device.device.clone());
        device.filter(|device| !device.is_empty()).unwrap_or_else(|| "–".to_owned())
    };
    let peak = |metrics: &Metrics| (metrics.peak_memory_bytes > 0).then(|| words::bytes(metrics.peak_memory_bytes));
    let precision = |metrics: &Metrics| Some(metrics.precision.clone()).filter(|format| !format.is_empty());
    let rows = [
        Some(row("device", records, device)),
        measured("precision", records, precision),
        measured("steps", records, |metrics| Some(metrics.steps.to_string())),
        measured("whole epochs", records, |metrics| Some(metrics.epochs.to_string())),
        measured("best epoch", records, |metrics| metrics.best_epoch.map(|epoch| epoch.to_string())),
        measured("images per second", records, |metrics| Some(words::number(metrics.images_per_second))),
        measured("peak memory", records, peak),
        measured("time", records, |metrics| Some(words::duration(metrics.seconds))),
    ];
    rows.into_iter().flatten().collect()
}
