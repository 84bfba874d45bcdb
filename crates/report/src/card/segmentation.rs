//! What was scored and how, of a model that segments, and the scores.

use kindling_metrics::{SegmentationScores, SegmentedClassScores, Spread};

use super::figures::{self, with_interval};
use super::markdown::{short, table, text};
use crate::scored;
use crate::words;

pub(super) fn metrics(scores: &SegmentationScores) -> String {
    let (tolerance, unit) = (words::number(scores.tolerance), scores.unit);
    format!(
        "## Metrics\n\nDice and IoU are averaged over the cases in which they are defined, and these means over the classes, as in nnU-Net. \
         HD95 is the 95th percentile of the Hausdorff distance in {unit}, and surface Dice the share of both surfaces that lies within \
         {tolerance} {unit} of the other, as in MONAI. {}\n\n",
        scored::drawn(("case", "cases"), scores.cases, scores.patients, scores.resamples)
    )
}

pub(super) fn quantitative_analyses(scores: &SegmentationScores) -> String {
    let means = [&scores.dice, &scores.iou].map(|figure| figures::row(&scored::name(&figure.name), figure));
    let rows: Vec<[String; 7]> = scores.classes.iter().map(row).collect();
    let headings = ["class", "cases", "mean Dice", "Dice", "IoU", &format!("HD95 in {}", scores.unit), "surface Dice"];
    format!(
        "## Quantitative analyses\n\n### Scores of the {} split\n\n{}### Each class\n\nMedians with the range of the middle half of the \
         cases; cases are those in which Dice is defined.\n\n{}",
        text(&scores.split),
        table(["score", "value", "95 % interval"], &means),
        table(headings, &rows)
    )
}

fn row(class: &SegmentedClassScores) -> [String; 7] {
    let summary = &class.summary;
    [
        short(&class.name),
        summary.dice.defined.to_string(),
        with_interval(Some(&class.dice)),
        median(&summary.dice, scored::number),
        median(&summary.iou, scored::number),
        median(&summary.hausdorff_95, words::tenths),
        median(&summary.surface_dice, scored::number),
    ]
}

fn median(spread: &Spread, number: fn(f64) -> String) -> String {
    spread.quartiles.map_or_else(
        || "–".to_owned(),
        |found| format!("{} ({} to {})", number(found.median), number(found.q1), number(found.q3)),
    )
}

/// Limits that the scores show, each as a fact. Of a class in fewer than `few` cases little can be said.
pub(super) fn limits(scores: &SegmentationScores, few: usize) -> Vec<String> {
    let mut facts = vec![format!(
        "Scores rest on {} of {}.",
        words::plural(scores.cases as u64, "case", "cases"),
        words::plural(scores.patients as u64, "patient", "patients")
    )];
    let rare: Vec<String> = scores
        .classes
        .iter()
        .filter(|class| class.summary.dice.defined < few)
        .map(|class| format!("{} ({})", short(&class.name), class.summary.dice.defined))
        .collect();
    if !rare.is_empty() {
        facts.push(format!("Classes in fewer than {few} {} cases: {}.", text(&scores.split), rare.join(", ")));
    }
    let unfound = |class: &SegmentedClassScores| {
        let summary = &class.summary;
        let count = summary.hausdorff_95.undefined.saturating_sub(summary.dice.undefined);
        (count > 0).then(|| format!("{} ({count})", short(&class.name)))
    };
    let one_sided: Vec<String> = scores.classes.iter().filter_map(unfound).collect();
    if !one_sided.is_empty() {
        facts.push(format!(
            "In some cases only the truth or only the answer has a class; they have no distance, so distances leave out the worst: {}.",
            one_sided.join(", ")
        ));
    }
    facts.push("Scores of subgroups were not measured.".to_owned());
    facts
}
