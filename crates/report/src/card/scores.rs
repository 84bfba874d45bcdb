//! What was scored and how, and the scores, of whatever task a run has.

use kindling_runs::{Record, TaskScores};

use super::{classification, regression, segmentation};

pub(super) fn metrics(record: &Record) -> String {
    match &record.scores {
        Some(TaskScores::Masks(scores)) => segmentation::metrics(scores),
        Some(TaskScores::Values(scores)) => regression::metrics(scores),
        Some(TaskScores::Classes(scores)) => classification::metrics(scores),
        None => {
            let file = match (record.segments(), record.regresses()) {
                (true, _) => "segmentation.json",
                (false, true) => "regression.json",
                (false, false) => "scores.json",
            };
            format!("## Metrics\n\nThe run has no `{file}`: nothing was scored yet.\n\n")
        }
    }
}

pub(super) fn quantitative_analyses(record: &Record) -> String {
    match &record.scores {
        Some(TaskScores::Masks(scores)) => segmentation::quantitative_analyses(scores),
        Some(TaskScores::Values(scores)) => regression::quantitative_analyses(scores),
        Some(TaskScores::Classes(scores)) => classification::quantitative_analyses(scores, record.metrics.as_ref()),
        None => String::new(),
    }
}
