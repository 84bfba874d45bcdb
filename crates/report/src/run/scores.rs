//! Scores with their intervals, curves with their bands, the reliability diagram, and the flow of patients.

use kindling_metrics::{Bin, ClassScores, Curve, Figure, FlowRow, Scores, Subgroups};
use maud::{Markup, html};

use crate::chart::{Place, Square};
use crate::scored::{basis, interval, name, number};

pub(crate) fn section(scores: &Scores) -> Markup {
    html! {
        section {
            h2 { "Scores with 95\u{a0}% intervals, " (scores.split) " split" }
            p.note { (basis(scores)) }
            div.pair.even {
                div { (whole(scores)) }
                div { (reliability(&scores.reliability, scores)) }
            }
            (classes(scores))
            (curves(scores))
            @if let Some(subgroups) = &scores.subgroups { (by_subgroup(subgroups)) }
            (flow(&scores.flow))
        }
    }
}

fn whole(scores: &Scores) -> Markup {
    let after = |name: &str| {
        let figures = scores.temperature.as_ref().map(|temperature| &temperature.figures);
        figures.and_then(|figures| figures.iter().find(|figure| figure.name == name))
    };
    html! {
        table.numbers {
            thead { tr { th scope="col" { "score" } th scope="col" { "value" } th scope="col" { "95\u{a0}% interval" } } }
            tbody {
                @for figure in &scores.figures { (line(&name(&figure.name), figure)) }
                @if let Some(temperature) = &scores.temperature {
                    tr { th scope="row" { "Temperature, fitted on validation" } td { (number(temperature.temperature)) } td {} }
                    @for key in ["brier", "nll", "ece"] {
                        @if let Some(figure) = after(key) { (line(&format!("{} after it", name(key)), figure)) }
                    }
                }
            }
        }
        p.note { "Kappa counts classes in their order: it means something where that is one of degrees." }
    }
}

fn line(name: &str, figure: &Figure) -> Markup {
    html! { tr { th scope="row" { (name) } td { (number(figure.value)) } td { (interval(figure)) } } }
}

/// One class against the others.
fn classes(scores: &Scores) -> Markup {
    let columns = |class: &ClassScores| class.figures.iter().map(|figure| figure.name.clone()).collect::<Vec<_>>();
    let Some(first) = scores.classes.first().map(columns) else { return html! {} };
    let has_cut_offs = scores.classes.iter().any(|class| class.cut_off.is_some());
    html! {
        h3.later { "Each class against the others" }
        div.scroll {
            table.numbers.ranges {
                thead { tr {
                    th scope="col" { "class" } th scope="col" { "images" }
                    @for key in &first { th scope="col" { (name(key)) } }
                    @if has_cut_offs { th scope="col" { "cut-off" } }
                } }
                tbody {
                    @for class in &scores.classes {
                        tr {
                            th scope="row" { (class.class) } td { (class.images) }
                            @for key in &first {
                                td { @if let Some(figure) = class.figure(key) { b { (number(figure.value)) } span { (interval(figure)) } } }
                            }
                            @if has_cut_offs { td { @if let Some(cut_off) = class.cut_off { (number(cut_off)) } @else { "–" } } }
                        }
                    }
                }
            }
        }
        p.note {
            @if has_cut_offs {
                "Sensitivity, specificity and predictive values are at the cut-off with the largest sum of sensitivity and specificity on the "
                "validation split. PPV and NPV hold for the share of the class in this split. "
            }
            "A calibration slope below 1 says that "
            "probabilities are too extreme, an intercept above 0 that they are too low on the whole."
        }
    }
}

fn curves(scores: &Scores) -> Markup {
    // Of two classes the curves of one are those of the other, seen from the other side.
    let from = if scores.classes.len() == 2 { 1 } else { 0 };
    let shown = || scores.classes.iter().skip(from).filter(|class| !class.roc.is_empty());
    html! {
        @if shown().next().is_some() {
            h3.later { "Curves with 95\u{a0}% bands" }
            div.charts.small {
                @for class in shown() {
                    (Square {
                        title: &format!("ROC: {}", class.class), note: area(class, "auroc"), along: "1 − specificity", up: "sensitivity",
                        places: places(&class.roc), dots: false, level: ((0.0, 0.0), (1.0, 1.0)),
                    }.figure())
                    @let share = class.images as f64 / scores.images.max(1) as f64;
                    (Square {
                        title: &format!("Precision and recall: {}", class.class), note: area(class, "auprc"), along: "recall", up: "precision",
                        places: places(&class.precision_recall), dots: false, level: ((0.0, share), (1.0, share)),
                    }.figure())
                }
            }
            p.note { "Dashed: what guessing at random reaches." }
        }
    }
}

fn area(class: &ClassScores, key: &str) -> String {
    class.figure(key).map_or_else(String::new, |figure| format!("{} {}", number(figure.value), interval(figure)))
}

fn places(curve: &Curve) -> Vec<Place> {
    curve.iter().map(|point| Place { x: point.x, y: point.y, range: point.band }).collect()
}

fn reliability(bins: &[Bin], scores: &Scores) -> Markup {
    let place = |bin: &Bin| Place { x: bin.confidence, y: bin.right.value, range: bin.right.interval };
    let error = scores.figure("ece").map_or_else(String::new, |figure| format!("ECE {}", number(figure.value)));
    html! {
        (Square {
            title: "Reliability", note: error, along: "confidence", up: "share right", places: bins.iter().map(place).collect(), dots: true,
            level: ((0.0, 0.0), (1.0, 1.0)),
        }.figure())
        p.note { "Answers in 15 bins of their probability; on the dashed line a probability is what it says." }
    }
}

pub(super) fn by_subgroup(subgroups: &Subgroups) -> Markup {
    html! {
        h3.later { "By " (subgroups.column) }
        div.scroll {
            table.numbers.ranges {
                thead { tr {
                    th scope="col" { (subgroups.column) } th scope="col" { "images" } th scope="col" { "patients" }
                    @if let Some(first) = subgroups.groups.first() {
                        @for figure in &first.figures { th scope="col" { (name(&figure.name)) } }
                    }
                } }
                tbody {
                    @for group in &subgroups.groups {
                        tr {
                            th scope="row" { (group.value) } td { (group.images) } td { (group.patients) }
                            @for figure in &group.figures { td { b { (number(figure.value)) } span { (interval(figure)) } } }
                        }
                    }
                }
            }
        }
        @for what in &subgroups.left_out { p.note { "Left out: " (what) "." } }
    }
}

pub(super) fn flow(rows: &[FlowRow]) -> Markup {
    html! {
        @if !rows.is_empty() {
            h3.later { "Flow of patients and images" }
            div.scroll {
                table.numbers {
                    thead { tr {
                        th scope="col" { "split" } th scope="col" { "patients" } th scope="col" { "images" }
                        th scope="col" { "could not be read" }
                    } }
                    tbody {
                        @for row in rows {
                            tr { th scope="row" { (row.split) } td { (row.patients) } td { (row.images) } td { (row.left_out) } }
                        }
                    }
                }
            }
            p.note { "An image that belongs to no group counts as a patient." }
        }
    }
}
