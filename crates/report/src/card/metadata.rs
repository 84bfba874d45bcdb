//! What stands above a card for programs: the Hugging Face Hub's metadata.

use kindling_metrics::Figure;
use kindling_runs::TaskScores;

use super::Card;
use super::markdown::quoted;

/// Scores of a classifier that the Hub shows, under its names where it has some.
const SHOWN: [(&str, &str); 6] = [
    ("accuracy", "accuracy"),
    ("balanced_accuracy", "balanced_accuracy"),
    ("macro_f1", "f1"),
    ("macro_auroc", "roc_auc"),
    ("mcc", "matthews_correlation"),
    ("brier", "brier_score"),
];

pub(super) fn of(card: &Card<'_>) -> String {
    let record = card.record;
    // The Hub has no task for images with numbers, and under another one they would be found by the wrong people.
    let task = match (record.segments(), record.regresses()) {
        (true, _) => "image-segmentation",
        (false, true) => "image-regression",
        (false, false) => "image-classification",
    };
    let text = format!(
        "---\nlibrary_name: kindling\npipeline_tag: {task}\ntags:\n- {task}\n- kindling\n\
         # To be filled in by a person: the license.\n# license:\n"
    );
    let metric = |name: &str, figure: &Figure| format!("    - type: {name}\n      value: {:.4}\n", figure.value);
    let Some(scores) = &record.scores else { return text + "---\n\n" };
    let shown: &[(&str, &str)] = match scores {
        TaskScores::Classes(_) => &SHOWN,
        TaskScores::Masks(_) => &[("mean_dice", "dice"), ("mean_iou", "mean_iou")],
        TaskScores::Values(_) => &[("mae", "mae"), ("rmse", "rmse"), ("r2", "r2")],
    };
    let shown = shown.iter().filter_map(|(key, name)| Some((*name, scores.figure(key)?)));
    let finite = shown.filter(|(_, figure)| figure.value.is_finite());
    let metrics: String = finite.map(|(name, figure)| metric(name, figure)).collect();
    if metrics.is_empty() {
        return text + "---\n\n";
    }
    format!(
        "{text}model-index:\n- name: {}\n  results:\n  - task:\n      type: {task}\n    dataset:\n      name: {data}\n      \
         type: {data}\n      split: {}\n    metrics:\n{metrics}---\n\n",
        quoted(card.title),
        quoted(scores.split()),
        data = quoted(record.data()),
    )
}
