//! The page of a learning-rate range test.

use maud::{Markup, PreEscaped, html};

use crate::chart::{Chart, Point, Series, Stroke, Unit};
use crate::compare::OWN_STYLE;
use crate::frame::frame;
use crate::run::{POLICY, SCRIPT, STYLE};

/// A step of the learning-rate range test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateStep {
    /// Its learning rate, above 0.
    pub rate: f64,
    /// The loss of its batch.
    pub loss: f64,
    /// The running mean of losses up to it.
    pub smoothed: f64,
}

/// Everything the page shows.
#[derive(Debug, Clone, Copy)]
pub struct RatePage<'a> {
    /// The model's name in the zoo.
    pub model: &'a str,
    /// The data set's name or path.
    pub data: &'a str,
    /// The steps, in order.
    pub steps: &'a [RateStep],
    /// Where the loss falls fastest, if it falls.
    pub steepest: Option<f64>,
    /// A tenth of the rate with the lowest loss.
    pub tenth_of_lowest: Option<f64>,
}

impl RatePage<'_> {
    /// The page: one file that asks nothing of the network.
    pub fn html(&self) -> String {
        let body = html! {
            header {
                p.brand { "Kindling find-lr" }
                @match self.steepest {
                    Some(rate) => h1 { "The loss falls fastest at a learning rate of " (short(rate)) },
                    None => h1 { "The loss falls at no learning rate" },
                }
                p.about {
                    strong { (self.model) } " on " strong { (self.data) } ", " (self.steps.len()) " steps at rates that rise from one to the next."
                    @if let Some(rate) = self.tenth_of_lowest { " A tenth of the rate with the lowest loss is " (short(rate)) "." }
                }
            }
            main { section { h2 { "Loss by learning rate" } div.charts { (self.chart().figure()) } (note()) } }
            footer { "Made by Kindling " (env!("CARGO_PKG_VERSION")) ". This page is one file and loads nothing." }
            script { (PreEscaped(SCRIPT)) }
        };
        frame("Learning rates – Kindling", &format!("{STYLE}{OWN_STYLE}"), POLICY, &body).into_string()
    }

    fn chart(&self) -> Chart {
        let points = |of: fn(&RateStep) -> f64| -> Vec<Point> {
            self.steps.iter().map(|step| (step.rate.log10(), of(step))).collect()
        };
        let line = |name: &'static str, stroke, points| Series { name: name.into(), colour: "first", stroke, points };
        let marks = [(self.steepest, "steepest"), (self.tenth_of_lowest, "a tenth of the lowest")];
        let mark = |(rate, name): (Option<f64>, &str)| Some((rate?.log10(), name.to_owned()));
        Chart {
            title: "Loss",
            along: "power of 10 of the learning rate",
            unit: Unit::Plain,
            series: vec![
                line("of the batch", Stroke::Faint, points(|step| step.loss)),
                line("running mean", Stroke::Line, points(|step| step.smoothed)),
            ],
            level: None,
            marks: marks.into_iter().filter_map(mark).collect(),
            small: false,
        }
    }
}

fn note() -> Markup {
    html! {
        p.note {
            "The running mean keeps 98\u{a0}% of itself in a step, so it lags behind. A rate between the two marks is a good peak for a schedule with "
            "warm-up; where they are far apart, the data decides: kindling sweep --over lr=... compares them."
        }
    }
}

/// `1.2e-3`.
fn short(rate: f64) -> String {
    format!("{rate:.1e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_both_rates_and_draws_every_step() {
        let step = |at: i32| RateStep { rate: 10f64.powi(at - 7), loss: 2.0 - 0.1 * f64::from(at), smoothed: 1.5 };
        let steps: Vec<RateStep> = (0..8).map(step).collect();
        let page = RatePage {
            model: "a<b",
            data: "scans",
            steps: &steps,
            steepest: Some(1.26e-3),
            tenth_of_lowest: Some(2e-2),
        };
        let html = page.html();
        for part in ["learning rate of 1.3e-3", "lowest loss is 2.0e-2", "a&lt;b", "8 steps", "steepest"] {
            assert!(html.contains(part), "{part:?} is missing");
        }
        assert!(!html.contains("NaN") && html.contains("default-src 'none'"));
        let none = RatePage { steps: &[], steepest: None, tenth_of_lowest: None, ..page };
        assert!(none.html().contains("falls at no learning rate"));
    }
}
