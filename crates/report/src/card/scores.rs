//! What was scored and how, and the scores, of whatever task a run has.

use kindling_runs::Record;

use super::{classification, regression, segmentation};

pub(super) fn metrics(record: &Record) -> String {
    if let Some(scores) = &record.segmentation {
        return segmentation::metrics(scores);
    }
    if let Some(scores) = &record.regression {
        return regression::metrics(scores);
    }
    let Some(scores) = &record.scores else {
        let file = match (record.segments(), record.regresses()) {
            (true, _) => "segmentation.json",
            (false, true) => "regression.json",
            (false, false) => "scores.json",
        };
        return format!("## Metrics\n\nThe run has no `{file}`: nothing was scored yet.\n\n");
    };
    classification::metrics(scores)
}

pub(super) fn quantitative_analyses(record: &Record) -> String {
    if let Some(scores) = &record.segmentation {
        return segmentation::quantitative_analyses(scores);
    }
    if let Some(scores) = &record.regression {
        return regression::quantitative_analyses(scores);
    }
    let Some(scores) = &record.scores else { return String::new() };
    classification::quantitative_analyses(scores, record.metrics.as_ref())
}
