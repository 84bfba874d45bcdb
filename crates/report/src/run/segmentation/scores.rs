//! The scores of each class: a table, what is not defined in words, and every case as a dot.

use kindling_metrics::{
    ClassMaskScores, LengthUnit, NamedClass, SegmentationScores, SegmentedCase, SegmentedClassScores, Spread,
};
use maud::{Markup, html};

use super::super::scores::flow;
use super::pictures::swatch;
use crate::chart::{Distribution, DistributionRow, Unit};
use crate::colours::class_colour;
use crate::scored::{drawn, interval, number};
use crate::words;

pub(crate) fn section(scores: &SegmentationScores, classes: &[NamedClass], cases: &[SegmentedCase]) -> Markup {
    html! {
        section {
            h2 { "Classes in the " (scores.split) " split" }
            (table(scores))
            (not_defined(scores))
            (charts(scores.unit, classes, cases))
            (flow(&scores.flow))
        }
    }
}

/// What the scores and their intervals are of.
pub(super) fn basis(scores: &SegmentationScores) -> String {
    drawn(("case", "cases"), scores.cases, scores.patients, scores.resamples)
}

fn table(scores: &SegmentationScores) -> Markup {
    let unit = scores.unit;
    html! {
        div.scroll {
            table.numbers.ranges {
                thead { tr {
                    th scope="col" { "class" } th scope="col" { "cases" } th scope="col" { "mean Dice" }
                    th scope="col" { "Dice" } th scope="col" { "IoU" } th scope="col" { "HD95 in " (unit) }
                    th scope="col" { "surface Dice at " (words::number(scores.tolerance)) "\u{a0}" (unit) }
                } }
                tbody {
                    @for class in &scores.classes { (row(class)) }
                    @if scores.classes.len() > 1 {
                        tr {
                            th scope="row" { "all classes" } td { (scores.cases) }
                            td { b { (number(scores.dice.value)) } span { (interval(&scores.dice)) } }
                            td {} td {} (distance(&scores.hausdorff_95)) td {}
                        }
                    }
                }
            }
        }
        p.note {
            "Below a mean stands its 95\u{a0}% interval, below a median the range of the middle half of the cases. HD95 is the 95th percentile of the "
            "Hausdorff distance; surface Dice is the share of both surfaces that lies within " (words::number(scores.tolerance)) " " (unit)
            " of the other. Dice and IoU count as in nnU-Net, distances as in MONAI."
        }
    }
}

fn row(class: &SegmentedClassScores) -> Markup {
    let summary = &class.summary;
    html! {
        tr {
            th scope="row" { (swatch(class_colour(summary.class))) (class.name) }
            td { (summary.dice.defined) }
            td { b { (number(class.dice.value)) } span { (interval(&class.dice)) } }
            (share(&summary.dice)) (share(&summary.iou)) (distance(&summary.hausdorff_95)) (share(&summary.surface_dice))
        }
    }
}

fn share(spread: &Spread) -> Markup {
    median(spread, number)
}

fn distance(spread: &Spread) -> Markup {
    median(spread, words::tenths)
}

fn median(spread: &Spread, text: impl Fn(f64) -> String) -> Markup {
    html! {
        td {
            @match spread.quartiles {
                Some(found) => { b { (text(found.median)) } span { (text(found.q1)) "\u{a0}to\u{a0}" (text(found.q3)) } },
                None => "–",
            }
        }
    }
}

/// In which cases a score says nothing, and why.
fn not_defined(scores: &SegmentationScores) -> Markup {
    let told: Vec<String> = scores.classes.iter().filter_map(|class| gaps(class, scores.cases)).collect();
    html! {
        @if told.is_empty() {
            p.note { "Every score is defined in every case." }
        } @else {
            @for text in &told { p.note { (text) } }
        }
    }
}

/// Both masks empty: no Dice. One of them empty: a Dice of 0 and no distance.
fn gaps(class: &SegmentedClassScores, cases: usize) -> Option<String> {
    let neither = class.summary.dice.undefined;
    let one = class.summary.hausdorff_95.undefined.saturating_sub(neither);
    let count = |count: usize, is: &str, are: &str| format!("{count} {}", if count == 1 { is } else { are });
    let has_none = count(
        neither,
        "has it neither in the truth nor in the answer and does not count",
        "have it neither in the truth nor in the answer and do not count",
    );
    let has_one = count(
        one,
        "has it in only one of them, which is a Dice of 0 and no distance",
        "have it in only one of them, which is a Dice of 0 and no distance",
    );
    let said = match (neither, one) {
        (0, 0) => return None,
        (_, 0) => has_none,
        (0, _) => has_one.replace("only one of them", "only one of truth and answer"),
        _ => format!("{has_none}; {has_one}"),
    };
    Some(format!("{}: of {}, {said}.", class.name, words::plural(cases as u64, "case", "cases")))
}

/// Dice and distances of all cases.
fn charts(unit: LengthUnit, classes: &[NamedClass], cases: &[SegmentedCase]) -> Markup {
    let rows = |score: fn(&ClassMaskScores) -> f64| -> Vec<DistributionRow<'_>> {
        let values = |label: u32| {
            let of = move |case: &SegmentedCase| case.scores.iter().find(|scores| scores.class == label).map(score);
            cases.iter().filter_map(|case| Some((case.sample.as_str(), of(case)?))).collect()
        };
        classes.iter().map(|class| DistributionRow { name: &class.name, values: values(class.label) }).collect()
    };
    let length = match unit {
        LengthUnit::Pixels => "pixels",
        LengthUnit::Millimetres => "mm",
    };
    let shown = [
        Distribution {
            title: "Dice of every case",
            note: "more is better",
            unit: Unit::Share,
            rows: rows(|scores| scores.dice),
        },
        Distribution {
            title: "HD95 of every case",
            note: "less is better",
            unit: Unit::Of(length),
            rows: rows(|scores| scores.hausdorff_95),
        },
    ];
    html! {
        @if !cases.is_empty() && !classes.is_empty() {
            div.charts.later { @for chart in &shown { (chart.figure()) } }
        }
    }
}
