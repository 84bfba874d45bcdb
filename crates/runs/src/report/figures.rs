//! Which charts the page has, and what stands on them.

use maud::{Markup, html};

use super::Report;
use super::chart::{Chart, Unit};
use super::curves::{Evaluation, Steps, evaluations, smooth, thin};
use super::strokes::{Series, Stroke};
use super::words;
use crate::Event;

/// Below this many steps a smoothed line would say nothing that the plain one does not.
const SMOOTH_FROM: usize = 30;

/// The two large charts: loss and accuracy.
pub(super) fn curves(report: &Report<'_>, steps: &Steps) -> Markup {
    let validation = evaluations(report.events, "validation");
    let loss = loss(report, steps, &validation);
    let accuracy = accuracy(report, &validation);
    html! {
        @if !loss.series.is_empty() || !accuracy.series.is_empty() {
            section {
                h2 { "Learning" }
                div.charts {
                    @if !loss.series.is_empty() { (loss.figure()) }
                    @if !accuracy.series.is_empty() { (accuracy.figure()) }
                }
                (epochs(steps, &validation))
            }
        }
    }
}

fn loss(report: &Report<'_>, steps: &Steps, validation: &[Evaluation]) -> Chart {
    let mut series = Vec::new();
    if steps.loss.len() >= SMOOTH_FROM {
        let each = Series { name: "training", colour: "first", stroke: Stroke::Faint, points: thin(&steps.loss) };
        let smooth = thin(&smooth(&steps.loss));
        series.push(each);
        series.push(Series { name: "smoothed", colour: "first", stroke: Stroke::Line, points: smooth });
    } else if !steps.loss.is_empty() {
        series.push(Series { name: "training", colour: "first", stroke: Stroke::Line, points: steps.loss.clone() });
    }
    if !validation.is_empty() {
        let points = validation.iter().map(|at| (at.step as f64, at.loss)).collect::<Vec<_>>();
        series.push(Series { name: "validation", colour: "second", stroke: Stroke::Dots, points: thin(&points) });
    }
    let resumed = report.events.iter().filter_map(|event| match event {
        Event::Resumed { step } => Some((*step as f64, "resumed".to_owned())),
        _ => None,
    });
    // More than a few names would overlap; the list of what happened has them all.
    let marks = resumed.take(3).collect();
    Chart { title: "Loss", along: "step", unit: Unit::Plain, series, level: None, marks, small: false }
}

fn accuracy(report: &Report<'_>, validation: &[Evaluation]) -> Chart {
    let train = evaluations(report.events, "train");
    let test = evaluations(report.events, "test");
    let all = || [&train[..], validation, &test[..]].into_iter();
    // An evaluation in the middle of an epoch would stand on the same place as the one at its end.
    let by_epoch = all().all(|split| split.windows(2).all(|pair| pair[0].epoch < pair[1].epoch));
    let along = if by_epoch { "epoch" } else { "step" };
    let points = |evaluations: &[Evaluation]| {
        let x = |at: &Evaluation| if by_epoch { at.epoch } else { at.step } as f64;
        thin(&evaluations.iter().map(|at| (x(at), at.accuracy)).collect::<Vec<_>>())
    };
    let kinds = [
        ("training", "first", Stroke::Line, &train[..]),
        ("validation", "second", Stroke::Dots, validation),
        ("test", "third", Stroke::Marks, &test[..]),
    ];
    let series = kinds
        .into_iter()
        .filter(|(.., evaluations)| !evaluations.is_empty())
        .map(|(name, colour, stroke, evaluations)| Series { name, colour, stroke, points: points(evaluations) })
        .collect();
    let best = report.metrics.best_epoch.filter(|_| by_epoch && validation.len() > 1);
    Chart {
        title: "Accuracy",
        along,
        unit: Unit::Percent,
        series,
        level: Some((report.chance, "chance".into())),
        marks: best.map(|epoch| (epoch as f64, "best".to_owned())).into_iter().collect(),
        small: false,
    }
}

/// The curves as a table, for reading exact values and for those who do not see the charts.
fn epochs(steps: &Steps, validation: &[Evaluation]) -> Markup {
    // The last evaluation of an epoch stands for it.
    let of = |epoch: u64| validation.iter().rev().find(|at| at.epoch == epoch);
    let every = steps.epochs.len().div_ceil(200).max(1);
    html! {
        @if !steps.epochs.is_empty() {
            details {
                summary { "Values of each epoch" }
                div.scroll {
                    table.numbers {
                        thead { tr {
                            th scope="col" { "epoch" }
                            th scope="col" { "training loss" }
                            th scope="col" { "validation loss" }
                            th scope="col" { "validation accuracy" }
                        } }
                        tbody {
                            @for (epoch, loss) in steps.epochs.iter().step_by(every) {
                                tr {
                                    th scope="row" { (epoch) }
                                    td { (words::number(*loss)) }
                                    td { (of(*epoch).map_or_else(|| "–".into(), |at| words::number(at.loss))) }
                                    td { (words::percent_or_dash(of(*epoch).map(|at| at.accuracy))) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The small charts: what the training cost and how it was driven.
pub(super) fn cost(steps: &Steps) -> Markup {
    let largest = steps.memory.iter().map(|point| point.1).fold(0.0, f64::max);
    let (scale, unit) = words::bytes_unit(largest as u64);
    let memory: Vec<_> = steps.memory.iter().map(|&(x, y)| (x, y / scale)).collect();
    let kinds = [
        ("Images per second", Unit::Plain, &steps.speed),
        ("Peak memory", Unit::Of(unit), &memory),
        ("Learning rate", Unit::Plain, &steps.rate),
        ("Gradient norm", Unit::Plain, &steps.gradient),
    ];
    // A curve of nothing but zeros is one that could not be measured.
    let measured = kinds.into_iter().filter(|(.., points)| points.iter().any(|point| point.1 != 0.0));
    let charts: Vec<Chart> = measured
        .map(|(title, unit, points)| Chart {
            title,
            along: "step",
            unit,
            series: vec![Series { name: title, colour: "first", stroke: Stroke::Line, points: thin(points) }],
            level: None,
            marks: Vec::new(),
            small: true,
        })
        .collect();
    html! {
        @if !charts.is_empty() {
            section {
                h2 { "Cost and course" }
                div.charts.small { @for chart in &charts { (chart.figure()) } }
            }
        }
    }
}
