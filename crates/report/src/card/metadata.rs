//! What stands above a card for programs: the Hugging Face Hub's metadata.

use kindling_metrics::Figure;

use super::Card;
use super::markdown::quoted;

/// Scores that the Hub shows, under its names where it has some.
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
    let classified = record.scores.as_ref().map(|scores| {
        let shown = SHOWN.iter().filter_map(|(key, name)| Some((*name, scores.figure(key)?)));
        (scores.split.as_str(), shown.collect::<Vec<_>>())
    });
    let segmented = || {
        let scores = record.segmentation.as_ref()?;
        Some((scores.split.as_str(), vec![("dice", &scores.dice), ("mean_iou", &scores.iou)]))
    };
    let regressed = || {
        let scores = record.regression.as_ref()?;
        let shown = ["mae", "rmse", "r2"].into_iter().filter_map(|key| Some((key, scores.figure(key)?)));
        Some((scores.split.as_str(), shown.collect::<Vec<_>>()))
    };
    let Some((split, shown)) = classified.or_else(segmented).or_else(regressed) else { return text + "---\n\n" };
    let finite = shown.into_iter().filter(|(_, figure)| figure.value.is_finite());
    let metrics: String = finite.map(|(name, figure)| metric(name, figure)).collect();
    if metrics.is_empty() {
        return text + "---\n\n";
    }
    format!(
        "{text}model-index:\n- name: {}\n  results:\n  - task:\n      type: {task}\n    dataset:\n      name: {data}\n      \
         type: {data}\n      split: {}\n    metrics:\n{metrics}---\n\n",
        quoted(card.title),
        quoted(split),
        data = quoted(record.data()),
    )
}
