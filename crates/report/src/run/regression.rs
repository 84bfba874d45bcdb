//! The page about a model that answers with a number.

use kindling_metrics::{Figure, RegressionScores};
use kindling_runs::{Environment, Event, Metrics, Sitting};
use maud::{Markup, html};

use super::curves::Goal;
use super::embedded;
use super::scores::{by_subgroup, flow};
use super::trained::{Tile, Trained};
use crate::chart::{Guide, Plane, Unit};
use crate::scored::{drawn, interval, name, number};
use crate::words;

/// A test image with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct ValuePicture {
    /// The image as PNG. About 200 pixels wide is enough; it is embedded as it is.
    pub png: Vec<u8>,
    /// Its name in the data set, usually a path from its folder.
    pub name: String,
    /// True number, in the unit of the target.
    pub truth: f64,
    /// Predicted number, in the same unit.
    pub prediction: f64,
    /// Whether it is shown because it is one of those that are furthest off.
    pub worst: bool,
}

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct RegressionReport<'a> {
    /// Title of the page, e.g. the name of the run's folder.
    pub title: &'a str,
    /// The model's name in the zoo.
    pub model: &'a str,
    /// The data set's name or path.
    pub data: &'a str,
    /// What the number is: the name of its column.
    pub target: &'a str,
    /// `config.toml` as it was resolved.
    pub config_toml: &'a str,
    /// The events, in order.
    pub events: &'a [Event],
    /// What `metrics.json` says.
    pub metrics: &'a Metrics,
    /// Scores with intervals, where there are any.
    pub scores: Option<&'a RegressionScores>,
    /// The machine and the versions that the run began on.
    pub environment: &'a Environment,
    /// Every time it was started or continued.
    pub history: &'a [Sitting],
    /// Images of the test split, in the order in which they are shown.
    pub pictures: &'a [ValuePicture],
}

impl RegressionReport<'_> {
    /// The page: one file that asks nothing of the network.
    pub fn html(&self) -> String {
        let trained = Trained {
            title: self.title,
            model: self.model,
            data: self.data,
            classes: 0,
            config_toml: self.config_toml,
            events: self.events,
            metrics: self.metrics,
            environment: self.environment,
            history: self.history,
        };
        let goal = Goal {
            title: "Mean absolute error",
            name: "mean absolute error",
            unit: Unit::Plain,
            of: |at| at.mae,
            level: None,
            best_epoch: self.metrics.best_epoch,
        };
        let results = html! {
            @if let Some(scores) = self.scores { (section(scores)) }
            (pictures(self.pictures))
        };
        trained.page(&self.verdict(), self.tiles(), &goal, &results).into_string()
    }

    fn verdict(&self) -> Markup {
        let Some(scores) = self.scores else { return html! { h1 { "Not evaluated yet" } } };
        let mae = scores.figure("mae");
        html! {
            h1 {
                (self.target) " is off by " (mae.map_or_else(|| "–".to_owned(), |mae| words::number(short(mae.value))))
                " on average on the " (scores.split) " split"
            }
            p.note {
                (drawn(("image", "images"), scores.images, scores.patients, scores.resamples)) " "
                @if let Some(mae) = mae.filter(|mae| mae.interval.is_some()) { "95\u{a0}% interval of the mean absolute error " (interval(mae)) "." }
            }
        }
    }

    /// How good the answers are.
    fn tiles(&self) -> Vec<Tile> {
        let mut tiles: Vec<Tile> = Vec::new();
        if let Some(scores) = self.scores {
            for (key, called) in [("mae", "MAE"), ("rmse", "RMSE"), ("r2", "R²")] {
                if let Some(figure) = scores.figure(key) {
                    let range = if figure.interval.is_some() { interval(figure) } else { String::new() };
                    tiles.push((called, number(figure.value), range));
                }
            }
        }
        if let Some(validation) = self.metrics.regression.as_ref().and_then(|reached| reached.validation) {
            let best = self.metrics.best_epoch.map(|epoch| format!("best epoch {epoch}"));
            tiles.push(("Validation MAE", number(validation.mae), best.unwrap_or_default()));
        }
        tiles
    }
}

/// Three digits say all that an error can.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// The scores as a table and as two plots.
pub(crate) fn section(scores: &RegressionScores) -> Markup {
    html! {
        section {
            h2 { (scores.target) " in the " (scores.split) " split" }
            div.scroll {
                table.numbers.ranges {
                    thead { tr { th scope="col" { "score" } th scope="col" { "value" } th scope="col" { "95\u{a0}% interval" } } }
                    tbody { @for figure in &scores.figures { (row(figure)) } }
                }
            }
            p.note {
                "Bias is the mean of prediction less truth. Between the limits of agreement (Bland and Altman 1986: bias ± 1.96 standard "
                "deviations) lie 95\u{a0}% of the differences, if they are normal."
            }
            div.charts.later { (against_truth(scores).figure()) (bland_altman(scores).figure()) }
            @if scores.points.len() < scores.images {
                p.note { (scores.points.len()) " of " (scores.images) " images are drawn, evenly chosen." }
            }
            @if let Some(subgroups) = &scores.subgroups { (by_subgroup(subgroups)) }
            (flow(&scores.flow))
        }
    }
}

fn row(figure: &Figure) -> Markup {
    html! { tr { th scope="row" { (name(&figure.name)) } td { (number(figure.value)) } td { (interval(figure)) } } }
}

fn against_truth(scores: &RegressionScores) -> Plane<'_> {
    Plane {
        title: "Prediction against truth",
        note: "On the dashed line both are equal.".to_owned(),
        along: "truth",
        up: "prediction",
        points: scores.points.iter().map(|[truth, said]| (*truth, *said)).collect(),
        guides: vec![Guide::Identity],
    }
}

fn bland_altman(scores: &RegressionScores) -> Plane<'_> {
    let guide = |key: &str, called: &str| {
        let figure = scores.figure(key).filter(|figure| figure.value.is_finite())?;
        Some(Guide::Height(figure.value, format!("{called} {}", number(figure.value)), figure.interval))
    };
    let guides = [("limit_high", "limit"), ("bias", "bias"), ("limit_low", "limit")];
    Plane {
        title: "Bland-Altman plot",
        note: "Bias and limits of agreement, with their 95\u{a0}% intervals.".to_owned(),
        along: "mean of truth and prediction",
        up: "prediction less truth",
        points: scores.points.iter().map(|[truth, said]| ((truth + said) / 2.0, said - truth)).collect(),
        guides: guides.into_iter().filter_map(|(key, called)| guide(key, called)).collect(),
    }
}

/// Test images with their numbers.
fn pictures(pictures: &[ValuePicture]) -> Markup {
    let of = |worst: bool| pictures.iter().filter(move |picture| picture.worst == worst);
    html! {
        @if !pictures.is_empty() {
            section.images {
                h2 { "Images of the test split" }
                p.note { "Each with the model's answer, and the truth below." }
                @for (worst, title) in [(true, "Furthest off"), (false, "Others, evenly chosen")] {
                    @if of(worst).next().is_some() {
                        h3.later { (title) }
                        div.pictures { @for picture in of(worst) { (figure(picture)) } }
                    }
                }
            }
        }
    }
}

fn figure(picture: &ValuePicture) -> Markup {
    let [said, truth] = [picture.prediction, picture.truth].map(|value| words::number(short(value)));
    html! {
        figure.picture {
            div.frame {
                img src=(embedded(&picture.png)) loading="lazy" alt={ (picture.name) ": answered " (said) ", truth " (truth) };
            }
            figcaption {
                span.answer { b { (said) } }
                span { "truth: " b { (truth) } }
                span.name title=(picture.name) { (picture.name) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kindling_metrics::{RegressionScore, Resampling, Values};
    use kindling_runs::RegressionSummary;

    use super::*;

    fn page() -> String {
        let truth: Vec<f64> = (0..60).map(|at| f64::from(at) * 3.5).collect();
        let said: Vec<f64> = truth.iter().zip(0..).map(|(truth, at)| truth * 0.9 + f64::from(at * 37 % 41)).collect();
        let pairs = truth.iter().copied().zip(said.iter().copied());
        let score = RegressionScore::of(pairs);
        let groups = (0..60).map(|at| Some(format!("p{}", at / 2))).collect();
        let values = Values::new(truth, said, groups).unwrap();
        let scores = RegressionScores::of("test", "bone age in months", &values, Resampling::default());
        let summary = RegressionSummary { target: "age".into(), validation: Some(score), test: Some(score) };
        let metrics = Metrics { regression: Some(summary), best_epoch: Some(2), ..Metrics::default() };
        let evaluated = |epoch: u64, mae: f64| Event::Evaluated {
            step: 10 * epoch,
            epoch,
            split: "validation".into(),
            loss: 1.0 / epoch as f64,
            accuracy: None,
            samples: 60,
            dice: None,
            mae: Some(mae),
            r2: Some(0.5),
        };
        let picture =
            |worst| ValuePicture { png: Vec::new(), name: "a.png".into(), truth: 12.0, prediction: 61.25, worst };
        let report = RegressionReport {
            title: "run",
            model: "mobilenet_v3_small",
            data: "hands",
            target: "bone age in months",
            config_toml: "[train]",
            events: &[evaluated(1, 40.0), evaluated(2, 21.0), evaluated(3, 23.0)],
            metrics: &metrics,
            scores: Some(&scores),
            environment: &Environment::default(),
            history: &[],
            pictures: &[picture(true), picture(false)],
        };
        report.html()
    }

    #[test]
    fn the_page_says_how_far_numbers_are_off_and_shows_both_plots() {
        let html = page();
        for words in [
            "bone age in months is off by 1",
            "Mean absolute error",
            "Prediction against truth",
            "Bland-Altman plot",
            "Limit of agreement, lower",
            "resamples of the patients",
            "Validation MAE",
            "Furthest off",
            "best epoch 2",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert_eq!(html.matches("<circle class=\"point\"").count(), 120);
        assert_eq!(html.matches("class=\"tick named\"").count(), 3, "bias and both limits");
        assert!(!html.contains("accuracy") && !html.contains("0 classes"), "it is about no classes");
    }
}
