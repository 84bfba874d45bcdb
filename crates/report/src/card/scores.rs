//! What was scored and how, and the scores.

use kindling_metrics::{ClassScores, Figure, Scores, Subgroups};
use kindling_runs::Record;

use super::markdown::{short, table, text};
use super::{regression, segmentation};
use crate::scored;
use crate::words;

/// Scores that say how far probabilities can be believed.
const CALIBRATION: [&str; 3] = ["brier", "nll", "ece"];

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
    let cut_offs = match scores.classes.iter().any(|class| class.cut_off.is_some()) {
        true => {
            "Sensitivity, specificity and predictive values are at the cut-off with the largest sum of sensitivity and specificity on \
             the validation split (Youden). "
        }
        false => "",
    };
    format!("## Metrics\n\n{cut_offs}{}\n\n", scored::basis(scores))
}

pub(super) fn quantitative_analyses(record: &Record) -> String {
    if let Some(scores) = &record.segmentation {
        return segmentation::quantitative_analyses(scores);
    }
    if let Some(scores) = &record.regression {
        return regression::quantitative_analyses(scores);
    }
    let Some(scores) = &record.scores else { return String::new() };
    format!(
        "## Quantitative analyses\n\n### Scores of the {} split\n\n{}{}{}{}{}",
        text(&scores.split),
        table(["score", "value", "95 % interval"], &of(scores.figures.iter().filter(|one| !is_calibration(one)))),
        chance(record),
        by_class(scores),
        calibration(scores),
        scores.subgroups.as_ref().map(by_subgroup).unwrap_or_default(),
    )
}

fn is_calibration(figure: &Figure) -> bool {
    CALIBRATION.contains(&figure.name.as_str())
}

pub(super) fn of<'a>(figures: impl Iterator<Item = &'a Figure>) -> Vec<[String; 3]> {
    figures.map(|figure| line(&scored::name(&figure.name), figure)).collect()
}

pub(super) fn line(name: &str, figure: &Figure) -> [String; 3] {
    [text(name), scored::number(figure.value), scored::interval(figure)]
}

/// What accuracy has to beat.
fn chance(record: &Record) -> String {
    let metrics = record.metrics.as_ref().filter(|metrics| metrics.majority_baseline > 0.0);
    metrics.map_or_else(String::new, |metrics| {
        format!(
            "Always giving the most frequent answer reaches an accuracy of {}.\n\n",
            scored::number(metrics.majority_baseline)
        )
    })
}

/// `0.912 (0.870 to 0.951)`.
pub(super) fn with_interval(figure: Option<&Figure>) -> String {
    figure.map_or_else(
        || "–".to_owned(),
        |figure| match figure.interval {
            Some(_) => format!("{} ({})", scored::number(figure.value), scored::interval(figure)),
            None => scored::number(figure.value),
        },
    )
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
    let mut rows = of(scores.figures.iter().filter(|figure| is_calibration(figure)));
    for class in &scores.classes {
        for name in ["calibration_slope", "calibration_intercept"] {
            let called = format!("{}, {}", scored::name(name), class.class);
            rows.extend(class.figure(name).map(|figure| line(&called, figure)));
        }
    }
    let scaled = scores.temperature.as_ref().map(|temperature| {
        rows.extend(temperature.figures.iter().map(|figure| {
            line(&format!("{} after temperature scaling", scored::name(&figure.name)), figure)
        }));
        format!(
            "The temperature that fits the validation split is {}; probabilities that the model gives are without it.\n\n",
            scored::number(temperature.temperature)
        )
    });
    let shown = table(["score", "value", "95 % interval"], &rows);
    if shown.is_empty() { shown } else { format!("### Calibration\n\n{shown}{}", scaled.unwrap_or_default()) }
}

pub(super) fn by_subgroup(subgroups: &Subgroups) -> String {
    let mut section = format!("### By {}\n\n", text(&subgroups.column));
    for group in &subgroups.groups {
        section += &format!(
            "{}: {} of {}\n\n{}",
            short(&group.value),
            words::plural(group.images as u64, "image", "images"),
            words::plural(group.patients as u64, "patient", "patients"),
            table(["score", "value", "95 % interval"], &of(group.figures.iter()))
        );
    }
    subgroups.left_out.iter().for_each(|what| section += &format!("Left out: {}.\n\n", text(what)));
    section
}
