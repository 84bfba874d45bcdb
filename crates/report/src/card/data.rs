//! The data: what it was, how it was split, and what of it could not be read.

use kindling_runs::{Record, TaskScores};

use super::markdown::{short, table, text, to_fill_in};
use super::model::training_settings;
use crate::scored;

/// Data sets of more classes have no table of them.
const MOST_CLASSES: usize = 50;

pub(super) fn evaluation(record: &Record) -> String {
    let scored = record
        .scores
        .as_ref()
        .map(|scores| format!("Scores are of the {} split: {}.\n\n", text(scores.split()), scored::counted(scores)));
    format!(
        "## Evaluation data\n\nData set: {}.\n\n{}{}{}{}",
        text(record.data()),
        scored.unwrap_or_default(),
        splits(record),
        how_split(record),
        bad_samples(record),
    )
}

pub(super) fn training(record: &Record) -> String {
    format!(
        "## Training data\n\nThe training split of the same data set; the validation split chose the weights that were kept.\n\n{}{}{}",
        classes(record),
        to_fill_in("where the data is from, its licence, who set the labels, and how it was prepared before this run."),
        training_settings(record),
    )
}

/// Images and patients of each split.
fn splits(record: &Record) -> String {
    let of_scores = record.scores.as_ref().map(TaskScores::flow).unwrap_or_default();
    let rows: Vec<[String; 4]> = match (of_scores, &record.samples) {
        ([], Some(samples)) => samples
            .splits
            .iter()
            .map(|split| {
                let bad =
                    record.bad_samples.iter().find(|(name, _)| *name == split.split).map_or(0, |(_, count)| *count);
                [text(&split.split), split.samples.to_string(), split.groups.to_string(), bad.to_string()]
            })
            .collect(),
        (flow, _) => flow
            .iter()
            .map(|row| [text(&row.split), row.images.to_string(), row.patients.to_string(), row.left_out.to_string()])
            .collect(),
    };
    let shown = table(["split", "images", "patients", "could not be read"], &rows);
    if shown.is_empty() { shown } else { shown + "An image that belongs to no group counts as a patient.\n\n" }
}

fn how_split(record: &Record) -> String {
    let mut sentences = Vec::new();
    let kept_together = match record.setting("data.opening.split_by") {
        Some("none") => "images were drawn one by one".to_owned(),
        Some("auto") | None => "images of a group stay together where the data names groups".to_owned(),
        Some("group") => "all images of a group (the patient, usually) stay together".to_owned(),
        Some(other) => format!("all images of a {} stay together", text(other)),
    };
    if let Some(fold) = record.setting("data.opening.fold").filter(|fold| *fold != "none") {
        sentences.push(format!(
            "The model is that of fold {} of a cross-validation: its test images are a part of all, and other models test the others.",
            text(fold)
        ));
    }
    // The rule is written down where the split was made by Kindling.
    match record.setting("data.opening.split_rule") {
        Some(rule) => {
            let seed = record.setting("train.seed").map(|seed| format!(" and the seed {}", text(seed))).unwrap_or_default();
            sentences.push(format!("The split was drawn by the rule “{}”{seed}: {kept_together}.", text(rule)));
        }
        None => sentences.push(
            "The configuration names no rule of splitting: the data set brought its own splits, or an earlier version drew them."
                .to_owned(),
        ),
    }
    if let Some(samples) = &record.samples {
        sentences.push(match samples.groups_in_several_splits {
            0 => "No group has images in more than one split.".to_owned(),
            1 => "**One group has images in more than one split.**".to_owned(),
            count => format!("**{count} groups have images in more than one split.**"),
        });
    }
    sentences.join(" ") + "\n\n"
}

fn bad_samples(record: &Record) -> String {
    if record.bad_samples.is_empty() {
        return String::new();
    }
    let of = |(split, count): &(String, usize)| format!("{count} of {}", text(split));
    let counts: Vec<String> = record.bad_samples.iter().map(of).collect();
    format!(
        "Samples that could not be read: {}; `bad-samples.jsonl` names them with the reason.\n\n",
        counts.join(", ")
    )
}

/// Images of each class by split, where they are listed.
fn classes(record: &Record) -> String {
    let Some(samples) = &record.samples else { return String::new() };
    let classes = record.classes();
    if record.regresses() || classes.is_empty() || classes.len() > MOST_CLASSES {
        return String::new();
    }
    let count = |split: &str, class: &String| {
        let counts = samples.split(split).map(|split| &split.classes);
        counts.map_or_else(|| "–".to_owned(), |counts| counts.get(class).copied().unwrap_or(0).to_string())
    };
    let row = |class: &String| [short(class), count("train", class), count("val", class), count("test", class)];
    let rows: Vec<[String; 4]> = classes.iter().map(row).collect();
    table(["class", "train", "val", "test"], &rows)
}
