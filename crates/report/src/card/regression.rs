//! What was scored and how, of a model that answers with a number, and the scores.

use kindling_metrics::RegressionScores;

use super::figures::{by_subgroup, rest_on, rows};
use super::markdown::{table, text};
use crate::scored;

pub(super) fn metrics(scores: &RegressionScores) -> String {
    format!(
        "## Metrics\n\nErrors are in the unit of {}. Bias is the mean of prediction less truth, and the limits of agreement lie 1.96 \
         standard deviations of these differences on both sides of it (Bland and Altman 1986). {}\n\n",
        text(&scores.target),
        scored::drawn(("image", "images"), scores.images, scores.patients, scores.resamples)
    )
}

pub(super) fn quantitative_analyses(scores: &RegressionScores) -> String {
    format!(
        "## Quantitative analyses\n\n### Scores of the {} split\n\n{}{}",
        text(&scores.split),
        table(["score", "value", "95 % interval"], &rows(scores.figures.iter())),
        scores.subgroups.as_ref().map(by_subgroup).unwrap_or_default(),
    )
}

/// Limits that the scores show, each as a fact.
pub(super) fn limits(scores: &RegressionScores) -> Vec<String> {
    let mut facts = vec![rest_on(scores.images, scores.patients)];
    let truths = || scores.points.iter().map(|point| point[0]);
    let (low, high) = (truths().fold(f64::INFINITY, f64::min), truths().fold(f64::NEG_INFINITY, f64::max));
    facts.push(format!(
        "In scored images, {} is {} to {}; nothing is known of others.",
        text(&scores.target),
        crate::words::number(low),
        crate::words::number(high)
    ));
    if scores.subgroups.is_none() {
        facts.push("Scores of subgroups were not measured.".to_owned());
    }
    facts
}
