//! Differences from the first run on the images that both have answered: forest plots, and McNemar's test of runs that classify.

use kindling_metrics::{McNemar, Paired};
use maud::{Markup, html};

use super::{Comparison, colour, sign};
use crate::chart::{Forest, ForestRow};
use crate::scored;
use crate::words;

/// A run that is set against the first: its place among all runs, its name, and what came out.
type Against<'a> = (usize, &'a str, &'a Paired);

pub(super) fn section(comparison: &Comparison<'_>) -> Markup {
    let others: Vec<Against<'_>> =
        comparison.runs.iter().enumerate().filter_map(|(index, run)| Some((index, run.name, run.paired?))).collect();
    html! {
        @if !others.is_empty() {
            section {
                h2 { "Differences from the first run, " (comparison.split) " split" }
                p.note { (meaning(comparison.resamples)) }
                div.forests { @for forest in forests(&others) { (forest.figure()) } }
                (mcnemar(&others))
                (cases(&others))
                p.note { "Nothing here knows how many runs were tried before these, or how many scores are looked at." }
            }
        }
    }
}

fn meaning(resamples: usize) -> String {
    let what = "Each run less the first, on the images that both have answered.";
    match resamples {
        0 => format!("{what} There are no intervals: no resamples were drawn."),
        count => format!(
            "{what} Lines are 95\u{a0}% intervals of the paired bootstrap by patient ({count} resamples). An interval without 0, in \
             bold, is a difference that chance does not explain."
        ),
    }
}

/// A plot for each score, with a row for each run.
fn forests<'a>(others: &[Against<'a>]) -> Vec<Forest<'a>> {
    let mut names: Vec<&'a str> = Vec::new();
    for figure in others.iter().flat_map(|(.., paired)| &paired.differences) {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    let rows = |name: &str| {
        let of = |(index, _, paired): &Against<'a>| {
            let figure = paired.differences.iter().find(|figure| figure.name == name)?;
            let label = (index + 1).to_string();
            Some(ForestRow { label, colour: colour(*index), value: figure.value, interval: figure.interval })
        };
        others.iter().filter_map(of).collect()
    };
    let note = |name: &str| if scored::less_is_better(name) { "less is better" } else { "more is better" };
    names.into_iter().map(|name| Forest { title: scored::name(name), note: note(name), rows: rows(name) }).collect()
}

/// Of runs that classify.
fn mcnemar(others: &[Against<'_>]) -> Markup {
    let tested: Vec<(usize, &str, &Paired, &McNemar)> = others
        .iter()
        .filter_map(|&(index, name, paired)| Some((index, name, paired, paired.mcnemar.as_ref()?)))
        .collect();
    html! {
        @if !tested.is_empty() {
            h3.later { "Right alone: McNemar's exact test" }
            div.scroll {
                table.numbers {
                    thead { tr {
                        th scope="col" { "run" } th scope="col" { "common images" } th scope="col" { "patients" }
                        th scope="col" { "right alone: this" } th scope="col" { "right alone: the first" } th scope="col" { "p" }
                    } }
                    tbody {
                        @for (index, name, paired, test) in tested {
                            tr {
                                th scope="row" { (sign(index)) " " (name) }
                                td { (paired.images) } td { (paired.patients) }
                                td { (test.first_alone) } td { (test.second_alone) } td { (probability(test.p)) }
                            }
                        }
                    }
                }
            }
            p.note { "McNemar's exact test takes images for independent, so where patients have several the intervals are what counts." }
        }
    }
}

/// Of runs whose answers are neither right nor wrong, what their differences are of.
fn cases(others: &[Against<'_>]) -> Markup {
    html! {
        @for (index, name, paired) in others.iter().filter(|(.., paired)| paired.mcnemar.is_none()) {
            p.note {
                (sign(*index)) " " (name) ": " (common(paired)) " of "
                (words::plural(paired.patients as u64, "patient", "patients")) "."
            }
        }
    }
}

/// How many cases, or images, both have answered.
fn common(paired: &Paired) -> String {
    let segments = paired.differences.iter().any(|figure| figure.name == "mean_dice");
    let (one, many) = if segments { ("common case", "common cases") } else { ("common image", "common images") };
    words::plural(paired.images as u64, one, many)
}

/// `0.031`, with three decimals; `< 0.001` for what is smaller.
fn probability(p: f64) -> String {
    if p < 0.001 { "<\u{a0}0.001".to_owned() } else { words::number((p * 1000.0).round() / 1000.0) }
}
