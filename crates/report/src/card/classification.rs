//! What was scored and how, of a model that classifies, and the scores.

use kindling_metrics::{ClassScores, Figure, Scores};
use kindling_runs::Metrics;

use super::figures::{by_subgroup, rest_on, row, rows, with_interval};
use super::markdown::{short, table, text};
use crate::scored;

/// Scores that say how far probabilities can be believed.
const CALIBRATION: [&str; 3] = ["brier", "nll", "ece"];

pub(super) fn metrics(scores: &Scores) -> String {
    let cut_offs = match scores.classes.iter().any(|class| class.cut_off.is_some()) {
        true => {
            "Sensitivity, specificity and predictive values are at the cut-off with the largest sum of sensitivity and specificity on \
             the validation split (Youden). "
        }
        false => "",
    };
    format!("## Metrics\n\n{cut_offs}{}\n\n", scored::basis(scores))
}

/// `metrics` has the baseline that accuracy has to beat.
pub(super) fn quantitative_analyses(scores: &Scores, metrics: Option<&Metrics>) -> String {
    format!(
        "## Quantitative analyses\n\n### Scores of the {} split\n\n{}{}{}{}{}",
        text(&scores.split),
        table(["score", "value", "95 % interval"], &rows(scores.figures.iter().filter(|one| !is_calibration(one)))),
        majority_baseline(metrics),
        by_class(scores),
        calibration(scores),
        scores.subgroups.as_ref().map(by_subgroup).unwrap_or_default(),
    )
}

fn is_calibration(figure: &Figure) -> bool {
    CALIBRATION.contains(&figure.name.as_str())
}

/// What accuracy has to beat.
fn majority_baseline(metrics: Option<&Metrics>) -> String {
    let metrics = metrics.filter(|metrics| metrics.majority_baseline > 0.0);
    metrics.map_or_else(String::new, |metrics| {
        format!(
            "The majority-class baseline, which always gives the most frequent answer, has an accuracy of {}.\n\n",
            scored::number(metrics.majority_baseline)
        )
    })
}

fn by_class(scores: &Scores) -> String {
    let cut_off = |class: &ClassScores| class.cut_off.map_or_else(|| "–".to_owned(), scored::number);
    let row = |class: &ClassScores| {
        let of = |name: &str| with_interval(class.figure(name));
        [
            short(&class.class),
            class.images.to_string(),
            of("auroc"),
            of("auprc"),
            of("sensitivity"),
            of("specificity"),
            of("ppv"),
            of("npv"),
            cut_off(class),
        ]
    };
    let rows: Vec<[String; 9]> = scores.classes.iter().map(row).collect();
    let headings = ["class", "images", "AUROC", "AUPRC", "sensitivity", "specificity", "PPV", "NPV", "cut-off"];
    let shown = table(headings, &rows);
    if shown.is_empty() { shown } else { format!("### Each class against the others\n\n{shown}") }
}

fn calibration(scores: &Scores) -> String {
    let mut rows = rows(scores.figures.iter().filter(|figure| is_calibration(figure)));
    for class in &scores.classes {
        for name in ["calibration_slope", "calibration_intercept"] {
            let called = format!("{}, {}", scored::name(name), class.class);
            rows.extend(class.figure(name).map(|figure| row(&called, figure)));
        }
    }
    let scaled = scores.temperature.as_ref().map(|temperature| {
        rows.extend(temperature.figures.iter().map(|figure| {
            row(&format!("{} after temperature scaling", scored::name(&figure.name)), figure)
        }));
        format!(
            "The temperature that fits the validation split is {}; probabilities that the model gives are without it.\n\n",
            scored::number(temperature.temperature)
        )
    });
    let shown = table(["score", "value", "95 % interval"], &rows);
    if shown.is_empty() { shown } else { format!("### Calibration\n\n{shown}{}", scaled.unwrap_or_default()) }
}

/// Limits that the scores show, each as a fact. Of a class with fewer than `few` images little can be said.
pub(super) fn limits(scores: &Scores, few: usize) -> Vec<String> {
    let mut facts = vec![rest_on(scores.images, scores.patients)];
    let rare: Vec<String> = scores
        .classes
        .iter()
        .filter(|class| class.images < few)
        .map(|class| format!("{} ({})", short(&class.class), class.images))
        .collect();
    if !rare.is_empty() {
        facts.push(format!("Classes with fewer than {few} {} images: {}.", text(&scores.split), rare.join(", ")));
    }
    if scores.classes.iter().any(|class| class.figure("ppv").is_some()) {
        facts.push("Predictive values hold for the share of the classes in the scored split.".to_owned());
    }
    if scores.subgroups.is_none() {
        facts.push("Scores of subgroups were not measured.".to_owned());
    }
    facts
}
