//! Predictions as a table, their scores with intervals, and both on the terminal.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use kindling_data::{BadSample, Dataset, Source, Split, Task};
use kindling_metrics::{ClassScores, Figure, FlowRow, RegressionScores, Resampling, Scores, Subgroups};
use kindling_runs::{Predicted, PredictedValue, PredictionTable, Table, ValueTable, read_column};
use kindling_trainer::{Prediction, ValuePrediction};

use crate::output::{self, out};

/// A table without images.
pub(crate) fn empty_table(classes: &[String], task: Task) -> PredictionTable {
    let (several, ordinal) = (task == Task::MultiLabel, task == Task::Ordinal);
    PredictionTable { classes: classes.to_vec(), several, ordinal, ..PredictionTable::default() }
}

/// What a model said of the numbers of the samples of a source, as lines of a table.
pub(crate) fn predicted_values(
    split: &str,
    source: &dyn Source,
    predictions: &[ValuePrediction],
) -> Vec<PredictedValue> {
    let line = |one: &ValuePrediction| {
        let sample = one.sample as usize;
        PredictedValue {
            sample: source.name_within(sample).unwrap_or_else(|| source.name_of(sample)),
            group: source.group(sample),
            split: split.to_owned(),
            truth: one.truth,
            prediction: one.prediction,
            others: Vec::new(),
        }
    };
    predictions.iter().map(line).collect()
}

/// Scores the numbers of `split`; none where there are no images, or no numbers.
///
/// # Errors
/// A sentence, if they cannot be scored.
pub(crate) fn of_values(
    table: &ValueTable,
    split: &str,
    target: &str,
    resampling: Resampling,
) -> Result<Option<RegressionScores>> {
    let is_number = |image: &PredictedValue| image.truth.is_finite() && image.prediction.is_finite();
    if !table.of_split(split).all(is_number) {
        return Ok(None);
    }
    let values = table.values(split).map_err(|reason| anyhow!("the predictions cannot be scored: {reason}"))?;
    Ok(values.map(|values| RegressionScores::of(split, target, &values, resampling)))
}

/// Prints the scores of numbers for a reader.
pub(crate) fn print_values(scores: &RegressionScores) {
    let intervals = match scores.resamples {
        0 => "no intervals".to_owned(),
        count if scores.patients < scores.images => format!("95 % intervals from {count} resamples of patients"),
        count => format!("95 % intervals from {count} resamples of images, each of a patient of its own"),
    };
    out!("{}: {} images of {} patients; {intervals}\n", scores.target, scores.images, scores.patients);
    let mut table = Table::new(&["<score", "value", "95 % interval"]);
    scores.figures.iter().for_each(|figure| table.row(row(&figure.name, figure)));
    output::text_of_product(&table.to_string());
    scores.subgroups.iter().for_each(print_subgroups);
}

/// Adds what a model said of the samples of a source.
pub(crate) fn add_to(table: &mut PredictionTable, split: &str, source: &dyn Source, predictions: &[Prediction]) {
    for prediction in predictions {
        let sample = prediction.sample as usize;
        let mut truth = if table.several { source.labels(sample) } else { vec![prediction.truth] };
        truth.sort_unstable();
        table.images.push(Predicted {
            sample: source.name_within(sample).unwrap_or_else(|| source.name_of(sample)),
            group: source.group(sample),
            split: split.to_owned(),
            truth,
            probabilities: prediction.probabilities.clone(),
            others: Vec::new(),
        });
    }
}

/// Whether all probabilities are numbers: those of a network that has lost its own are none.
pub(crate) fn are_numbers(predictions: &[Prediction]) -> bool {
    predictions.iter().all(|prediction| prediction.probabilities.iter().all(|p| p.is_finite()))
}

/// Whether there is something to score.
pub(crate) fn can_be_scored(predictions: &[Prediction]) -> bool {
    !predictions.is_empty() && are_numbers(predictions)
}

/// Scores the images of `split`, with cut-offs and a temperature chosen on those of `validation`, where that is another split and has
/// images.
///
/// # Errors
/// A sentence, if there are no such images or their probabilities are none.
pub(crate) fn of_table(
    table: &PredictionTable,
    split: &str,
    validation: Option<&str>,
    resampling: Resampling,
) -> Result<Scores> {
    let sentence = |reason: String| anyhow!("the predictions cannot be scored: {reason}");
    let predictions = table.predictions(split).map_err(sentence)?;
    let predictions = predictions.ok_or_else(|| anyhow!("there are no predictions for the split {split}"))?;
    let validation = match validation.filter(|validation| *validation != split) {
        Some(validation) => table.predictions(validation).map_err(sentence)?,
        None => None,
    };
    let mut scores = Scores::of(split, &table.classes, &predictions, validation.as_ref(), resampling);
    scores.flow = flow_of_table(table)?;
    Ok(scores)
}

/// The value of a manifest's column for each image of a split; its paths are the samples.
///
/// # Errors
/// If it has no such column, or no path that is a sample.
pub(crate) fn values_in(
    manifest: &Path,
    column: &str,
    table: &PredictionTable,
    split: &str,
) -> Result<Vec<Option<String>>> {
    column_of(manifest, column, table.of_split(split).map(|image| image.sample.as_str()), split)
}

/// The same for the images of these names, which are those of a split.
///
/// # Errors
/// As [`values_in`].
pub(crate) fn column_of<'a>(
    manifest: &Path,
    column: &str,
    samples: impl Iterator<Item = &'a str>,
    split: &str,
) -> Result<Vec<Option<String>>> {
    let of = read_column(manifest, "path", column)?;
    let values: Vec<Option<String>> = samples.map(|sample| of.get(sample).cloned()).collect();
    if values.iter().all(Option::is_none) {
        bail!("{} has no path that is a sample of the split {split}", manifest.display());
    }
    Ok(values)
}

/// Fails unless the data of a run has the column whose values are subgroups.
///
/// # Errors
/// A sentence, if it is no manifest in CSV or has no such column.
pub(crate) fn check_column(data: &str, column: &str) -> Result<()> {
    let path = Path::new(data);
    if !path.extension().is_some_and(|have| have.eq_ignore_ascii_case("csv")) {
        bail!("--subgroups names a column of a manifest in CSV, and {data} is none");
    }
    read_column(path, "path", column)?;
    Ok(())
}

/// Images and patients of the splits of a table.
fn flow_of_table(table: &PredictionTable) -> Result<Vec<FlowRow>> {
    let row = |split: &str| {
        let of = table.predictions(split).map_err(|reason| anyhow!("{reason}"))?;
        let (images, patients) = of.map_or((0, 0), |of| (of.images(), of.patients()));
        Ok(FlowRow { split: split.to_owned(), images, patients, left_out: 0 })
    };
    table.splits().into_iter().map(row).collect()
}

/// Images and patients of the splits of a data set; `left_out` are those that could not be read.
pub(crate) fn flow(dataset: &Dataset, left_out: impl Fn(Split) -> usize) -> Vec<FlowRow> {
    let row = |split: Split| {
        let source = dataset.source(split);
        let groups: Vec<Option<String>> = (0..source.len()).map(|index| source.group(index)).collect();
        let alone = groups.iter().filter(|group| group.is_none()).count();
        let together: BTreeSet<&String> = groups.iter().flatten().collect();
        FlowRow {
            split: split.to_string(),
            images: source.len(),
            patients: alone + together.len(),
            left_out: left_out(split),
        }
    };
    Split::ALL.into_iter().map(row).collect()
}

/// How many samples were left out.
pub(crate) fn count(bad: &[BadSample]) -> usize {
    let samples: BTreeSet<u64> = bad.iter().map(|bad| bad.sample).collect();
    samples.len()
}

/// Prints scores for a reader.
pub(crate) fn print(scores: &Scores) {
    let intervals = match scores.resamples {
        0 => "no intervals".to_owned(),
        count => format!("95 % intervals from {count} resamples of {}", drawn(scores)),
    };
    out!("{} images of {} patients; {intervals}\n", scores.images, scores.patients);
    let mut table = Table::new(&["<score", "value", "95 % interval"]);
    scores.figures.iter().for_each(|figure| table.row(row(&figure.name, figure)));
    if let Some(temperature) = &scores.temperature {
        let title = format!("after division of logits by {:.3}", temperature.temperature);
        table.row([title.as_str(), "", ""]);
        temperature.figures.iter().for_each(|figure| table.row(row(&figure.name, figure)));
    }
    for class in &scores.classes {
        table.row(["", "", ""]);
        table.row([title(class).as_str(), "", ""]);
        class.figures.iter().for_each(|figure| table.row(row(&figure.name, figure)));
    }
    output::text_of_product(&table.to_string());
    scores.subgroups.iter().for_each(print_subgroups);
}

/// What is drawn in a resample.
fn drawn(scores: &Scores) -> &'static str {
    if scores.patients < scores.images { "patients" } else { "images, each of a patient of its own" }
}

fn title(class: &ClassScores) -> String {
    match class.cut_off {
        Some(cut_off) => format!("{}: {} images, cut-off {cut_off:.3}", class.class, class.images),
        None => format!("{}: {} images", class.class, class.images),
    }
}

fn print_subgroups(subgroups: &Subgroups) {
    let mut table = Table::new(&["<score", "value", "95 % interval"]);
    for group in &subgroups.groups {
        let title =
            format!("{} {}: {} images of {} patients", subgroups.column, group.value, group.images, group.patients);
        table.row([title.as_str(), "", ""]);
        group.figures.iter().for_each(|figure| table.row(row(&figure.name, figure)));
    }
    out!("");
    output::text_of_product(&table.to_string());
    subgroups.left_out.iter().for_each(|what| out!("left out: {what}"));
}

/// A line of a table: name, value, interval.
pub(crate) fn row(name: &str, figure: &Figure) -> [String; 3] {
    let number = |value: f64| if value.is_finite() { format!("{value:.3}") } else { "-".to_owned() };
    let interval = figure.interval.map_or("-".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}"));
    [name.to_owned(), number(figure.value), interval]
}
