//! The folds beside each other: a row a score, a column a fold.

use kindling_metrics::Figure;
use kindling_runs::{CrossValidation, FoldScores, NamedSpread, TaskScores};
use maud::{Markup, html};

use crate::scored::{called, interval, name, number};
use crate::words;

/// The scores of a class that are shown. The others are in `cross-validation.json`.
const OF_A_CLASS: [&str; 8] = ["auroc", "auprc", "sensitivity", "specificity", "ppv", "npv", "dice", "iou"];

pub(super) fn section(found: &CrossValidation) -> Markup {
    html! {
        section {
            h2 { "Folds beside each other" }
            div.scroll {
                table.numbers.ranges.runs {
                    thead { tr {
                        th scope="col" { "score" }
                        th scope="col" { "mean ± deviation" }
                        @for fold in &found.folds { th scope="col" { "fold " (fold.fold) } }
                    } }
                    tbody {
                        tr { th scope="row" { "tested" } td {} @for fold in &found.folds { td { (tested(fold, called(&found.pooled))) } } }
                        @for of in &found.spread {
                            tr {
                                th scope="row" { (name(&of.name)) }
                                td { b { (spread(of)) } }
                                @for fold in &found.folds { td { (cell(&fold.figures, &of.name)) } }
                            }
                        }
                    }
                }
            }
            p.note {
                "The deviation is that of one fold, with Bessel's correction. Folds share training samples, so it says how far models are apart "
                "and is no interval; those above are of all samples together."
                @if let TaskScores::Classes(_) = found.pooled {
                    " Areas under curves of all samples together are of answers of several models in one order: where folds differ in how sure "
                    "they are, they lie below the mean of the folds."
                }
            }
            (classes(found))
        }
    }
}

fn tested(fold: &FoldScores, (one, many): (&str, &str)) -> String {
    let images = words::plural(fold.images as u64, one, many);
    match fold.patients < fold.images {
        true => format!("{images} of {}", words::plural(fold.patients as u64, "patient", "patients")),
        false => images,
    }
}

fn cell(figures: &[Figure], key: &str) -> Markup {
    html! {
        @if let Some(figure) = figures.iter().find(|figure| figure.name == key) {
            b { (number(figure.value)) } span { (interval(figure)) }
        } @else { "–" }
    }
}

/// `0.912 ± 0.021`.
fn spread(of: &NamedSpread) -> String {
    match of.spread.deviation {
        Some(deviation) => format!("{} ± {}", number(of.spread.mean), number(deviation)),
        None => number(of.spread.mean),
    }
}

fn classes(found: &CrossValidation) -> Markup {
    let has = |key: &str| found.classes.iter().any(|class| class.scores.iter().any(|score| score.name == key));
    let shown: Vec<&str> = OF_A_CLASS.into_iter().filter(|key| has(key)).collect();
    let has_cut_offs = matches!(found.pooled, TaskScores::Classes(_));
    html! {
        @if !shown.is_empty() {
            h3.later {
                @if has_cut_offs { "Each class against the others" } @else { "Each class" }
                ", mean ± deviation of the folds"
            }
            div.scroll {
                table.numbers.ranges {
                    thead { tr { th scope="col" { "class" } @for key in &shown { th scope="col" { (name(key)) } } } }
                    tbody {
                        @for class in &found.classes {
                            tr {
                                th scope="row" { (class.class) }
                                @for key in &shown {
                                    td { @match class.scores.iter().find(|score| score.name == *key) {
                                        Some(of) => (spread(of)),
                                        None => "–",
                                    } }
                                }
                            }
                        }
                    }
                }
            }
            @if has_cut_offs {
                p.note { "Sensitivity, specificity and predictive values are at the cut-off that each fold has chosen on its validation samples." }
            }
        }
    }
}
