//! Cross-validations fold by fold.

use kindling_metrics::Figure;
use kindling_runs::CrossValidation;
use maud::{Markup, html};

use super::{ComparedRun, sign};
use crate::scored::{name, number};

/// Scores that are shown for each fold, where they are there.
const SHOWN: [&str; 7] = ["accuracy", "balanced_accuracy", "macro_auroc", "quadratic_kappa", "mae", "r2", "mean_dice"];

/// A table for each score: a row a fold, a column a cross-validation.
pub(super) fn section(runs: &[ComparedRun<'_>]) -> Markup {
    let all: Vec<(usize, &CrossValidation)> =
        runs.iter().enumerate().filter_map(|(index, run)| Some((index, run.folds?))).collect();
    let most = all.iter().map(|(_, found)| found.folds.len()).max().unwrap_or(0);
    let numbers: Vec<usize> = all.iter().map(|(_, found)| found.folds.len()).collect();
    let is_known = |key: &str| all.iter().any(|(_, found)| figure(found, 0, key).is_some());
    html! {
        @if !all.is_empty() {
            section {
                h2 { "Fold by fold" }
                p.note {
                    "Each fold's test samples are scored by the model that was not trained on them. Folds share training samples, so their "
                    "spread is no interval."
                    @if numbers.windows(2).any(|pair| pair[0] != pair[1]) {
                        " Here the cross-validations have different numbers of folds: a fold of one is not the fold of another."
                    }
                }
                @for key in SHOWN.into_iter().filter(|key| is_known(key)) {
                    h3.later { (name(key)) }
                    div.scroll {
                        table.numbers {
                            thead { tr {
                                th scope="col" { "fold" }
                                @for (index, _) in &all { th scope="col" { (sign(*index)) } }
                            } }
                            tbody {
                                @for fold in 0..most { (row(&all, fold, key)) }
                                (means(&all, key))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure<'a>(found: &'a CrossValidation, fold: usize, key: &str) -> Option<&'a Figure> {
    found.folds.get(fold)?.figures.iter().find(|figure| figure.name == key)
}

fn row(all: &[(usize, &CrossValidation)], fold: usize, key: &str) -> Markup {
    html! {
        tr {
            th scope="row" { (fold + 1) }
            @for (_, found) in all { td { (figure(found, fold, key).map_or_else(|| "–".to_owned(), |figure| number(figure.value))) } }
        }
    }
}

/// Mean and range over the folds.
fn means(all: &[(usize, &CrossValidation)], key: &str) -> Markup {
    let of = |found: &CrossValidation| {
        let spread = found.spread.iter().find(|of| of.name == key).map(|of| of.spread);
        spread.map_or_else(
            || "–".to_owned(),
            |of| format!("{} ({} to {})", number(of.mean), number(of.least), number(of.most)),
        )
    };
    html! { tr { th scope="row" { "mean (range)" } @for (_, found) in all { td { (of(found)) } } } }
}
