//! The charts of a run: its events as curves, and what stands beside them.

use kindling_runs::Event;
use maud::{Markup, html};

use crate::chart::{Chart, Point, Series, Stroke, Unit, smooth, thin};
use crate::words;

/// Below this many steps a smoothed line would say nothing that the plain one does not.
pub(crate) const SMOOTH_FROM: usize = 30;

/// What a run is to raise, drawn beside its loss.
pub(super) struct Goal {
    /// As a title.
    pub(super) title: &'static str,
    /// Within a sentence.
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    /// Its value in an evaluation; none where it was not measured.
    pub(super) of: fn(&Evaluation) -> Option<f64>,
    /// The value that it must beat, and the name of that.
    pub(super) level: Option<(f64, String)>,
    /// The epoch whose weights were kept.
    pub(super) best_epoch: Option<u64>,
}

/// The two large charts: the loss, and what is to rise.
pub(super) fn learning(events: &[Event], steps: &Steps, goal: &Goal) -> Markup {
    let validation = evaluations(events, "validation");
    let loss = loss(events, steps, &validation);
    let rising = rising(events, &validation, goal);
    html! {
        @if !loss.series.is_empty() || !rising.series.is_empty() {
            section {
                h2 { "Learning" }
                div.charts {
                    @if !loss.series.is_empty() { (loss.figure()) }
                    @if !rising.series.is_empty() { (rising.figure()) }
                }
                (epochs(steps, &validation, goal))
            }
        }
    }
}

fn loss(events: &[Event], steps: &Steps, validation: &[Evaluation]) -> Chart {
    let mut series = Vec::new();
    if steps.loss.len() >= SMOOTH_FROM {
        let each =
            Series { name: "training".into(), colour: "first", stroke: Stroke::Faint, points: thin(&steps.loss) };
        let smooth = thin(&smooth(&steps.loss));
        series.push(each);
        series.push(Series { name: "smoothed".into(), colour: "first", stroke: Stroke::Line, points: smooth });
    } else if !steps.loss.is_empty() {
        series.push(Series {
            name: "training".into(),
            colour: "first",
            stroke: Stroke::Line,
            points: steps.loss.clone(),
        });
    }
    if !validation.is_empty() {
        let points = validation.iter().map(|at| (at.step as f64, at.loss)).collect::<Vec<_>>();
        series.push(Series {
            name: "validation".into(),
            colour: "second",
            stroke: Stroke::Dots,
            points: thin(&points),
        });
    }
    let resumed = events.iter().filter_map(|event| match event {
        Event::Resumed { step } => Some((*step as f64, "resumed".to_owned())),
        _ => None,
    });
    // More than a few names would overlap; the list of what happened has them all.
    let marks = resumed.take(3).collect();
    Chart { title: "Loss", along: "step", unit: Unit::Plain, series, level: None, marks, small: false }
}

fn rising(events: &[Event], validation: &[Evaluation], goal: &Goal) -> Chart {
    let train = evaluations(events, "train");
    let test = evaluations(events, "test");
    let all = || [&train[..], validation, &test[..]].into_iter();
    // An evaluation in the middle of an epoch would stand on the same place as the one at its end.
    let by_epoch = all().all(|split| split.windows(2).all(|pair| pair[0].epoch < pair[1].epoch));
    let along = if by_epoch { "epoch" } else { "step" };
    let points = |evaluations: &[Evaluation]| {
        let x = |at: &Evaluation| if by_epoch { at.epoch } else { at.step } as f64;
        thin(&evaluations.iter().filter_map(|at| Some((x(at), (goal.of)(at)?))).collect::<Vec<_>>())
    };
    let kinds = [
        ("training", "first", Stroke::Line, &train[..]),
        ("validation", "second", Stroke::Dots, validation),
        ("test", "third", Stroke::Marks, &test[..]),
    ];
    let series = kinds
        .into_iter()
        .map(|(name, colour, stroke, evaluations)| Series {
            name: name.into(),
            colour,
            stroke,
            points: points(evaluations),
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let best = goal.best_epoch.filter(|_| by_epoch && validation.len() > 1);
    Chart {
        title: goal.title,
        along,
        unit: goal.unit,
        series,
        level: goal.level.clone(),
        marks: best.map(|epoch| (epoch as f64, "best".to_owned())).into_iter().collect(),
        small: false,
    }
}

/// The curves as a table, for reading exact values and for those who do not see the charts.
fn epochs(steps: &Steps, validation: &[Evaluation], goal: &Goal) -> Markup {
    // The last evaluation of an epoch stands for it.
    let of = |epoch: u64| validation.iter().rev().find(|at| at.epoch == epoch);
    let value = |epoch: u64| of(epoch).and_then(goal.of).map_or_else(|| "–".into(), |value| goal.unit.text(value));
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
                            th scope="col" { "validation " (goal.name) }
                        } }
                        tbody {
                            @for (epoch, loss) in steps.epochs.iter().step_by(every) {
                                tr {
                                    th scope="row" { (epoch) }
                                    td { (words::number(*loss)) }
                                    td { (of(*epoch).map_or_else(|| "–".into(), |at| words::number(at.loss))) }
                                    td { (value(*epoch)) }
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
        ("Waiting for other processes", Unit::Of("s"), &steps.together),
    ];
    // A curve of nothing but zeros is one that could not be measured.
    let measured = kinds.into_iter().filter(|(.., points)| points.iter().any(|point| point.1 != 0.0));
    let charts: Vec<Chart> = measured
        .map(|(title, unit, points)| Chart {
            title,
            along: "step",
            unit,
            series: vec![Series { name: title.into(), colour: "first", stroke: Stroke::Line, points: thin(points) }],
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

/// What was noted of each step, by step.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) loss: Vec<Point>,
    pub(super) rate: Vec<Point>,
    pub(super) speed: Vec<Point>,
    pub(super) memory: Vec<Point>,
    pub(super) gradient: Vec<Point>,
    /// Seconds that the first of several processes waited for the others.
    pub(super) together: Vec<Point>,
    /// Steps at which the micro-batch changed: step, before, after.
    pub(super) micro_batches: Vec<(u64, usize, usize)>,
    /// Mean training loss of each epoch.
    pub(super) epochs: Vec<(u64, f64)>,
}

impl Steps {
    pub(crate) fn of(events: &[Event]) -> Self {
        // A log that was not rewound holds some steps twice; what was done later counts.
        let mut rows: Vec<&Event> = Vec::new();
        for event in events.iter().filter(|event| matches!(event, Event::Step { .. })) {
            while rows.last().is_some_and(|last| last.step() >= event.step()) {
                rows.pop();
            }
            rows.push(event);
        }
        let mut steps = Self::default();
        let mut micro_batch_before = None;
        let mut sums: Vec<(u64, f64, f64)> = Vec::new();
        for row in rows {
            let Event::Step {
                step,
                epoch,
                loss,
                lr,
                images_per_second,
                micro_batch,
                peak_memory_bytes,
                gradient_norm,
                together,
                ..
            } = row
            else {
                continue;
            };
            let x = *step as f64;
            steps.together.extend(together.as_ref().map(|of| (x, of.waited_seconds)));
            steps.loss.push((x, *loss));
            steps.rate.push((x, *lr));
            steps.speed.push((x, *images_per_second));
            steps.memory.push((x, *peak_memory_bytes as f64));
            steps.gradient.push((x, *gradient_norm));
            match micro_batch_before.replace(*micro_batch) {
                Some(before) if before != *micro_batch => {
                    steps.micro_batches.push((*step, before, *micro_batch));
                }
                _ => {}
            }
            match sums.last_mut() {
                Some((last, sum, count)) if last == epoch => {
                    *sum += loss;
                    *count += 1.0;
                }
                _ => sums.push((*epoch, *loss, 1.0)),
            }
        }
        steps.epochs = sums.into_iter().map(|(epoch, sum, count)| (epoch, sum / count)).collect();
        steps
    }
}

/// The scores of one split after a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evaluation {
    pub(crate) step: u64,
    pub(crate) epoch: u64,
    pub(crate) loss: f64,
    pub(crate) accuracy: Option<f64>,
    /// Mean foreground Dice, of a model that segments.
    pub(crate) dice: Option<f64>,
    /// Mean absolute error, of a model that answers with a number.
    pub(crate) mae: Option<f64>,
}

/// The evaluations of one split, by step; of two at the same step the later one.
pub(crate) fn evaluations(events: &[Event], split: &str) -> Vec<Evaluation> {
    let mut found: Vec<Evaluation> = Vec::new();
    for event in events {
        let &Event::Evaluated { step, epoch, split: ref of, loss, accuracy, dice, mae, .. } = event else { continue };
        if of == split {
            while found.last().is_some_and(|last| last.step >= step) {
                found.pop();
            }
            found.push(Evaluation { step, epoch, loss, accuracy, dice, mae });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, loss: f64, micro_batch: usize) -> Event {
        Event::Step {
            step,
            epoch: 1,
            loss,
            lr: 0.1,
            images_per_second: 1.0,
            micro_batch,
            peak_memory_bytes: 0,
            gradient_norm: 1.0,
            waiting_seconds: 0.0,
            seconds: 1.0,
            together: None,
        }
    }

    #[test]
    fn a_step_that_was_done_again_counts_once() {
        let events = [step(1, 1.0, 4), step(2, 2.0, 4), step(3, 3.0, 4), step(2, 5.0, 2)];
        let steps = Steps::of(&events);
        assert_eq!(steps.loss, [(1.0, 1.0), (2.0, 5.0)]);
        assert_eq!(steps.micro_batches, [(2, 4, 2)]);
        assert_eq!(steps.epochs, [(1, 3.0)]);
    }
}
