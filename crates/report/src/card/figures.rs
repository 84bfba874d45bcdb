//! Figures with their intervals, and what they rest on, as a card tells them.

use kindling_metrics::{Figure, Subgroups};

use super::markdown::{short, table, text};
use crate::scored;
use crate::words;

/// A row for each figure: name, value, interval.
pub(super) fn rows<'a>(figures: impl Iterator<Item = &'a Figure>) -> Vec<[String; 3]> {
    figures.map(|figure| row(&scored::name(&figure.name), figure)).collect()
}

/// A row: `name`, value, interval.
pub(super) fn row(name: &str, figure: &Figure) -> [String; 3] {
    [text(name), scored::number(figure.value), scored::interval(figure)]
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

/// A section with a table for each subgroup.
pub(super) fn by_subgroup(subgroups: &Subgroups) -> String {
    let mut section = format!("### By {}\n\n", text(&subgroups.column));
    for group in &subgroups.groups {
        section += &format!(
            "{}: {} of {}\n\n{}",
            short(&group.value),
            words::plural(group.images as u64, "image", "images"),
            words::plural(group.patients as u64, "patient", "patients"),
            table(["score", "value", "95 % interval"], &rows(group.figures.iter()))
        );
    }
    subgroups.left_out.iter().for_each(|what| section += &format!("Left out: {}.\n\n", text(what)));
    section
}

/// What scores rest on.
pub(super) fn rest_on(images: usize, patients: usize) -> String {
    let counted = words::plural(images as u64, "image", "images");
    match patients < images {
        true => format!("Scores rest on {counted} of {}.", words::plural(patients as u64, "patient", "patients")),
        false => format!(
            "Scores rest on {counted}, each taken for a patient of its own. If patients have several, images of one may be on both \
             sides of the split, and intervals are too narrow."
        ),
    }
}
