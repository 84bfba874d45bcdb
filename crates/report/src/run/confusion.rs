//! Which classes are taken for which.

use kindling_metrics::{MultiLabel, Score};
use maud::{Markup, html};

use crate::words;

/// Up to this many classes the matrix is a table with numbers, beyond it a heat map.
const TABLE_UP_TO: usize = 20;
/// Up to this many classes the columns have room for names that lie.
const LYING_NAMES_UP_TO: usize = 6;
/// Up to this many classes the matrix leaves room for the table beside it.
const BESIDE_UP_TO: usize = 9;
/// Beyond this many filled fields the heat map goes without a text for each.
const TEXTS_UP_TO: usize = 2500;

/// The section on the score of a split, whose classes have these names.
pub(super) fn section(names: &[String], split: &str, score: &Score) -> Markup {
    if score.samples == 0 {
        return html! {};
    }
    if let Some(labels) = &score.multi_label {
        return multi_label(names, split, labels);
    }
    let stacked = (BESIDE_UP_TO + 1..=TABLE_UP_TO).contains(&score.confusion.len());
    html! {
        section {
            h2 { "Classes in the " (split) " split" }
            div.pair.stacked[stacked] {
                @if score.confusion.len() <= TABLE_UP_TO {
                    (table(names, score))
                } @else {
                    (heat_map(names, score))
                }
                div {
                    @if score.confusion.len() > TABLE_UP_TO { (frequent(names, score)) }
                    (classes(names, score))
                }
            }
        }
    }
}

/// Labels that are answered one by one have no matrix.
fn multi_label(names: &[String], split: &str, labels: &MultiLabel) -> Markup {
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
    html! {
        section {
            h2 { "Labels in the " (split) " split" }
            p.note { (words::percent(labels.subset_accuracy)) " of the images have all labels right at a probability of one half." }
            div.scroll {
                table.numbers {
                    thead { tr {
                        th scope="col" { "label" } th scope="col" { "images" }
                        th scope="col" { "AUROC" } th scope="col" { "F1" }
                    } }
                    tbody {
                        @for (index, name) in names.iter().enumerate() {
                            tr {
                                th scope="row" { (name) }
                                td { (labels.positives.get(index).copied().unwrap_or(0)) }
                                td { (number(labels.auroc.get(index).copied().flatten())) }
                                td { (number(labels.f1.get(index).copied())) }
                            }
                        }
                        tr { th scope="row" { "mean" } td {} td { (number(labels.mean_auroc)) } td { (number(Some(labels.macro_f1))) } }
                    }
                }
            }
        }
    }
}

fn table(names: &[String], score: &Score) -> Markup {
    let count = score.confusion.len();
    html! {
        figure {
            figcaption { h3 { "Confusion matrix" } p.note { "Rows are the truth, columns the model's answers." } }
            div.scroll {
                table.confusion.upright[count > LYING_NAMES_UP_TO] {
                    thead { tr {
                        td.corner { "truth ↓ answer →" }
                        @for class in 0..count {
                            th scope="col" title=(words::class(names, class)) { span { (words::class(names, class)) } }
                        }
                    } }
                    tbody {
                        @for (truth, row) in score.confusion.iter().enumerate() {
                            tr {
                                th scope="row" title=(words::class(names, truth)) { span { (words::class(names, truth)) } }
                                @for (answer, &images) in row.iter().enumerate() {
                                    (field(images, score.truths(truth), truth == answer))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Right answers stand in framed fields, so that the diagonal shows without colours.
fn field(images: u64, of: u64, right: bool) -> Markup {
    let share = if of == 0 { 0.0 } else { images as f64 / of as f64 };
    html! {
        td.right[right].wrong[!right && images > 0].dense[share > 0.75] style={ "--share:" (format!("{share:.3}")) } {
            b { (images) }
            @if of > 0 && images > 0 { span { (format!("{:.0}\u{a0}%", share * 100.0)) } }
        }
    }
}

fn heat_map(names: &[String], score: &Score) -> Markup {
    let count = score.confusion.len();
    let filled = |row: &[u64]| row.iter().filter(|&&images| images > 0).count();
    let with_texts = score.confusion.iter().map(|row| filled(row)).sum::<usize>() <= TEXTS_UP_TO;
    let label = format!(
        "Confusion matrix of {count} classes as a heat map; {} on the diagonal, which is right",
        words::percent(score.accuracy)
    );
    html! {
        figure {
            figcaption {
                h3 { "Confusion matrix" }
                p.note {
                    "Rows are the truth, columns the model's answers, both in the order of the table; the darker a "
                    "field, the larger its share of the row. Right answers lie on the diagonal from the upper left."
                }
            }
            svg.heat viewBox={ "0 0 " (count) " " (count) } role="img" aria-label=(label) {
                @for (truth, row) in score.confusion.iter().enumerate() {
                    @for (answer, &images) in row.iter().enumerate().filter(|(_, images)| **images > 0) {
                        rect.right[truth == answer].wrong[truth != answer] x=(answer) y=(truth) width="1" height="1"
                            fill-opacity=(format!("{:.2}", 0.15 + 0.85 * images as f64 / score.truths(truth) as f64)) {
                            @if with_texts {
                                title { (words::class(names, truth)) " → " (words::class(names, answer)) ": " (images) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What a heat map does not say in words.
fn frequent(names: &[String], score: &Score) -> Markup {
    let fields = score
        .confusion
        .iter()
        .enumerate()
        .flat_map(|(truth, row)| row.iter().enumerate().map(move |(answer, &images)| (images, truth, answer)));
    let mut mistakes: Vec<_> = fields.filter(|&(images, truth, answer)| images > 0 && truth != answer).collect();
    mistakes.sort_by_key(|&(images, truth, answer)| (std::cmp::Reverse(images), truth, answer));
    html! {
        @if !mistakes.is_empty() {
            h3 { "Most frequent mistakes" }
            table.numbers {
                thead { tr {
                    th scope="col" { "truth" }
                    th.name scope="col" { "answer" }
                    th scope="col" { "images" }
                } }
                tbody {
                    @for &(images, truth, answer) in mistakes.iter().take(8) {
                        tr {
                            th scope="row" { (words::class(names, truth)) }
                            td.name { (words::class(names, answer)) }
                            td { (images) }
                        }
                    }
                }
            }
        }
    }
}

fn classes(names: &[String], score: &Score) -> Markup {
    let recall = score.per_class_recall();
    let precision = score.per_class_precision();
    html! {
        h3 { "Each class" }
        div.scroll.tall[score.confusion.len() > TABLE_UP_TO] {
            table.numbers {
                thead { tr {
                    th scope="col" { "class" }
                    th scope="col" { "images" }
                    th scope="col" title="Of the images of the class, the share that was recognised" { "recall" }
                    th scope="col" title="Of the answers for the class, the share that was right" { "precision" }
                } }
                tbody {
                    @for (class, (recall, precision)) in recall.into_iter().zip(precision).enumerate() {
                        tr {
                            th scope="row" { (words::class(names, class)) }
                            td { (score.truths(class)) }
                            (share(recall))
                            (share(precision))
                        }
                    }
                }
            }
        }
        p.note {
            "Recall: of the images of the class, the share that was recognised. "
            "Precision: of the answers for the class, the share that was right."
        }
    }
}

fn share(share: Option<f64>) -> Markup {
    html! {
        td.bar style={ "--share:" (format!("{:.3}", share.unwrap_or(0.0))) } { (words::percent_or_dash(share)) }
    }
}
