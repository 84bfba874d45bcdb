//! Limits of a run that its files show, each as a fact.

use kindling_runs::{Event, Record, TaskScores};

use super::markdown::{short, to_fill_in};
use super::{classification, regression, segmentation};
use crate::words;

/// Of a class with fewer test images little can be said.
const FEW: usize = 20;
/// Warnings beyond these are only counted.
const MOST_WARNINGS: usize = 10;

pub(super) fn section(record: &Record) -> String {
    let facts: String = of(record).into_iter().map(|fact| format!("- {fact}\n")).collect();
    format!(
        "## Caveats and recommendations\n\nKnown limits of this run:\n\n{facts}\n{}",
        to_fill_in("what else limits the model, and what has to be done before it is used.")
    )
}

fn of(record: &Record) -> Vec<String> {
    let mut facts = Vec::new();
    if !record.events.iter().any(|event| matches!(event, Event::Finished { .. })) {
        facts.push("The files do not tell that the run has finished.".to_owned());
    }
    facts.push(
        "It is one run of one split and one seed: how far scores change with another split or seed was not measured. Intervals are \
         of the test images alone."
            .to_owned(),
    );
    facts.push("There is no external test set: all images are of one data set.".to_owned());
    if record.data() == "phantoms" {
        facts.push("The images are synthetic: scores say nothing of real ones.".to_owned());
    }
    match &record.scores {
        Some(TaskScores::Masks(scores)) => facts.extend(segmentation::limits(scores, FEW)),
        Some(TaskScores::Classes(scores)) => facts.extend(classification::limits(scores, FEW)),
        Some(TaskScores::Values(scores)) => facts.extend(regression::limits(scores)),
        None => facts.push("There are no scores.".to_owned()),
    }
    let bad: usize = record.bad_samples.iter().map(|(_, count)| *count).sum();
    if bad > 0 {
        let samples = words::plural(bad as u64, "sample", "samples");
        facts.push(format!(
            "{samples} could not be read and did not count; whether that leaves out a kind of image was not checked."
        ));
    }
    if let Some(precision) = record.metrics.as_ref().map(|metrics| metrics.precision.as_str())
        && ["bf16", "f16"].contains(&precision)
    {
        facts.push(format!("It was trained with feature maps in {precision}; other precisions round otherwise."));
    }
    facts.extend(warnings(&record.events));
    facts
}

/// What the run warned of.
fn warnings(events: &[Event]) -> Vec<String> {
    let told: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            Event::Warned { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let mut shown: Vec<String> =
        told.iter().take(MOST_WARNINGS).map(|warning| format!("The run warned: {}", short(warning))).collect();
    if told.len() > MOST_WARNINGS {
        shown.push(format!("And {} more warnings, in `events.jsonl`.", told.len() - MOST_WARNINGS));
    }
    shown
}
