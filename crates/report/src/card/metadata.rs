//! What stands above a card for programs: the Hugging Face Hub's metadata.

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
    let mut text =
        "---\nlibrary_name: kindling\npipeline_tag: image-classification\ntags:\n- image-classification\n- kindling\n\
                    # To be filled in by a person: the license.\n# license:\n"
            .to_owned();
    let Some(scores) = &record.scores else { return text + "---\n\n" };
    let metric = |(key, name): &(&str, &str)| {
        let figure = scores.figure(key).filter(|figure| figure.value.is_finite())?;
        Some(format!("    - type: {name}\n      value: {:.4}\n", figure.value))
    };
    let metrics: String = SHOWN.iter().filter_map(metric).collect();
    if !metrics.is_empty() {
        text += &format!(
            "model-index:\n- name: {}\n  results:\n  - task:\n      type: image-classification\n    dataset:\n      name: {data}\n      \
             type: {data}\n      split: {}\n    metrics:\n{metrics}",
            quoted(card.title),
            quoted(&scores.split),
            data = quoted(record.data()),
        );
    }
    text + "---\n\n"
}
