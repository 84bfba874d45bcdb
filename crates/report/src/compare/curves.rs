//! The curves of all runs over each other, one chart a quantity.

use maud::{Markup, html};

use super::{ComparedRun, colour, stroke};
use crate::chart::{Chart, Point, Series, Unit, smooth, thin};
use crate::run::curves::{Evaluation, SMOOTH_FROM, Steps, evaluations};

pub(crate) fn section(runs: &[ComparedRun<'_>]) -> Markup {
    let validations: Vec<Vec<Evaluation>> =
        runs.iter().map(|run| evaluations(&run.record.events, "validation")).collect();
    // An evaluation in the middle of an epoch would stand on the same place as the one at its end.
    let by_epoch = validations.iter().all(|one| one.windows(2).all(|pair| pair[0].epoch < pair[1].epoch));
    let along = if by_epoch { "epoch" } else { "step" };
    let validated = |value: fn(&Evaluation) -> Option<f64>| -> Vec<Vec<Point>> {
        let x = |at: &Evaluation| if by_epoch { at.epoch } else { at.step } as f64;
        validations.iter().map(|one| one.iter().filter_map(|at| Some((x(at), value(at)?))).collect()).collect()
    };
    let training: Vec<Vec<Point>> = runs.iter().map(|run| training(&run.record.events)).collect();
    let charts = [
        chart("Training loss", "step", Unit::Plain, runs, &training),
        chart("Validation loss", along, Unit::Plain, runs, &validated(|at| Some(at.loss))),
        // Most pixels are background: where there is Dice, the share of right ones says little.
        chart(
            "Validation accuracy",
            along,
            Unit::Percent,
            runs,
            &validated(|at| at.accuracy.filter(|_| at.dice.is_none())),
        ),
        chart("Validation Dice", along, Unit::Share, runs, &validated(|at| at.dice)),
        chart("Validation mean absolute error", along, Unit::Plain, runs, &validated(|at| at.mae)),
    ];
    let shown: Vec<&Chart> = charts.iter().filter(|chart| !chart.series.is_empty()).collect();
    html! {
        @if !shown.is_empty() {
            section {
                h2 { "Curves" }
                div.charts.small { @for chart in shown { (chart.figure()) } }
                @if training.iter().any(|points| points.len() >= SMOOTH_FROM) {
                    p.note { "The training loss is a running mean over about a fortieth of the steps." }
                }
                @if has_several_batches(runs) {
                    p.note { "Batch sizes differ: as many steps are not as many images." }
                }
            }
        }
    }
}

fn training(events: &[kindling_runs::Event]) -> Vec<Point> {
    let steps = Steps::of(events);
    if steps.loss.len() >= SMOOTH_FROM { smooth(&steps.loss) } else { steps.loss }
}

fn has_several_batches(runs: &[ComparedRun<'_>]) -> bool {
    let batch = |run: &ComparedRun<'_>| run.record.setting("train.batch_size").map(str::to_owned);
    runs.windows(2).any(|pair| batch(&pair[0]) != batch(&pair[1]))
}

/// A chart with a line for each run that has points.
fn chart(
    title: &'static str,
    along: &'static str,
    unit: Unit,
    runs: &[ComparedRun<'_>],
    points: &[Vec<Point>],
) -> Chart {
    let series = runs.iter().zip(points).enumerate().filter(|(_, (_, points))| !points.is_empty());
    let series = series.map(|(index, (run, points))| Series {
        name: format!("{} {}", index + 1, run.name).into(),
        colour: colour(index),
        stroke: stroke(index),
        points: thin(points),
    });
    Chart { title, along, unit, series: series.collect(), level: None, marks: Vec::new(), small: true }
}
