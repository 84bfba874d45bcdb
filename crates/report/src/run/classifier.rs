//! The page about a classifier.

use kindling_metrics::{Score, Scores};
use kindling_runs::{Environment, Event, Metrics, Sitting};
use maud::{Markup, html};

use super::curves::Goal;
use super::trained::{Tile, Trained, gauge, round};
use super::{confusion, embedded, scores};
use crate::chart::Unit;
use crate::words;

/// Which of the groups on the page an image is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// One of the wrong answers with the highest probabilities.
    Mistake,
    /// One of the answers with the lowest probabilities, right or wrong.
    Uncertain,
    /// One of the right answers with the highest probabilities.
    Certain,
    /// One of those taken at even distances from the whole split.
    Spaced,
}

/// One image of the test split with the model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplePicture {
    /// The image as PNG. About 192 pixels wide is enough; it is embedded as it is.
    pub png: Vec<u8>,
    /// Where the image speaks for the answer (Grad-CAM), as PNG that is stretched over the image; `None` where that is not known.
    pub map: Option<Vec<u8>>,
    /// The group that it is shown in.
    pub shown: Shown,
    /// Its name in the data set, usually a path from its folder.
    pub name: String,
    /// Indices of the true classes, ascending: one, or any number where samples have several labels.
    pub truth: Vec<usize>,
    /// Indices of the answered classes.
    pub prediction: Vec<usize>,
    /// The model's probability for its answer, 0 to 1; of several labels for the one it is least sure of.
    pub probability: f64,
}

/// Everything the page shows.
#[derive(Debug, Clone)]
pub struct Report<'a> {
    /// Title of the page, e.g. the name of the run's folder.
    pub title: &'a str,
    /// The model's name in the zoo.
    pub model: &'a str,
    /// The data set's name or path.
    pub data: &'a str,
    /// Names of the classes, in the order of their indices.
    pub classes: &'a [String],
    /// `config.toml` as it was resolved.
    pub config_toml: &'a str,
    /// The events, in order.
    pub events: &'a [Event],
    /// What `metrics.json` says.
    pub metrics: &'a Metrics,
    /// Scores with intervals, where there are any.
    pub scores: Option<&'a Scores>,
    /// The machine and the versions that the run began on.
    pub environment: &'a Environment,
    /// Every time it was started or continued.
    pub history: &'a [Sitting],
    /// Images of the test split, shown in this order.
    pub pictures: &'a [SamplePicture],
    /// Accuracy of always answering the largest class of the test split, 0 to 1.
    pub majority_baseline: f64,
}

impl Report<'_> {
    /// The page: one file that asks nothing of the network.
    pub fn html(&self) -> String {
        page(self).into_string()
    }

    /// The score the page is about, with the split's name: the test's, or before there is one the validation's.
    fn score(&self) -> Option<(&'static str, &Score)> {
        let test = self.metrics.test.as_ref().map(|score| ("test", score));
        test.or_else(|| self.metrics.validation.as_ref().map(|score| ("validation", score)))
    }
}

fn page(report: &Report<'_>) -> Markup {
    let trained = Trained {
        title: report.title,
        model: report.model,
        data: report.data,
        classes: report.classes.len(),
        config_toml: report.config_toml,
        events: report.events,
        metrics: report.metrics,
        environment: report.environment,
        history: report.history,
    };
    let verdict = match report.score() {
        Some((split, score)) => verdict(split, score, baseline(report, split, score)),
        None => html! { h1 { "Not evaluated yet" } },
    };
    let goal = Goal {
        title: "Accuracy",
        name: "accuracy",
        unit: Unit::Percent,
        of: |at| at.accuracy,
        level: Some((report.majority_baseline, "majority-class baseline".into())),
        best_epoch: report.metrics.best_epoch,
    };
    let results = html! {
        @if let Some((split, score)) = report.score() { (confusion::section(report.classes, split, score)) }
        @if let Some(scores) = report.scores { (scores::section(scores)) }
        (pictures(report))
    };
    trained.page(&verdict, tiles(report), &goal, &results)
}

/// What a score must beat: that of the test split was handed in, another split has its own.
fn baseline(report: &Report<'_>, split: &str, score: &Score) -> f64 {
    let given = report.majority_baseline;
    if split == "test" && given.is_finite() && given > 0.0 { given } else { score.majority_baseline() }
}

/// Whether an accuracy lies more than two standard errors above the baseline.
fn beats(score: &Score, baseline: f64) -> bool {
    let error = (baseline * (1.0 - baseline) / score.samples.max(1) as f64).sqrt();
    score.accuracy > baseline + 2.0 * error
}

fn verdict(split: &str, score: &Score, baseline: f64) -> Markup {
    let right = (score.accuracy * score.samples as f64).round() as u64;
    let above = beats(score, baseline);
    let said =
        format!("Accuracy {}, majority-class baseline {}", words::percent(score.accuracy), words::percent(baseline));
    html! {
        h1 {
            (words::percent(score.accuracy)) " accuracy on the " (split) " split, "
            @if above { "against " (words::percent(baseline)) " for the majority-class baseline" }
            @else if score.accuracy > baseline { "not clearly better than the majority-class baseline (" (words::percent(baseline)) ")" }
            @else { "no better than the majority-class baseline (" (words::percent(baseline)) ")" }
        }
        (gauge(score.accuracy, Some((baseline, "baseline")), &said))
        p.note {
            (right) " of " (words::plural(score.samples as u64, "image", "images"))
            @if score.multi_label.is_some() { " with all labels right" } @else { " right" }
            ". The majority-class baseline always gives the most frequent answer."
        }
    }
}

/// How good the answers are.
fn tiles(report: &Report<'_>) -> Vec<Tile> {
    let metrics = report.metrics;
    let mut tiles: Vec<Tile> = Vec::new();
    if let Some((split, score)) = report.score() {
        let note = format!("{split} split, mean recall of the classes");
        tiles.push(("Balanced accuracy", words::percent(score.balanced_accuracy), note));
        tiles.push(("Loss", words::number(score.loss), format!("{split} split")));
    }
    if let (Some(validation), true) = (&metrics.validation, metrics.test.is_some()) {
        let best = metrics.best_epoch.map(|epoch| format!(", best epoch {epoch}")).unwrap_or_default();
        let images = words::plural(validation.samples as u64, "image", "images");
        tiles.push(("Validation accuracy", words::percent(validation.accuracy), format!("{images}{best}")));
    }
    if let Some((split, score)) = report.score()
        && let Some(labels) = &score.multi_label
    {
        let area = labels.mean_auroc.map_or_else(|| "–".into(), |area| words::number(round(area)));
        tiles.push(("Mean AUROC", area, format!("{split} split, over the labels")));
    }
    tiles
}

/// The groups of images, in the order of the page, with their titles.
const GROUPS: [(Shown, &str); 4] = [
    (Shown::Mistake, "Mistakes it is surest of"),
    (Shown::Uncertain, "What it is least sure of"),
    (Shown::Certain, "What it is surest of, and right"),
    (Shown::Spaced, "Others, evenly spaced"),
];

/// Test images with the model's answers, and where they speak for them.
fn pictures(report: &Report<'_>) -> Markup {
    let of = |shown: Shown| report.pictures.iter().filter(move |picture| picture.shown == shown);
    let has_maps = report.pictures.iter().any(|picture| picture.map.is_some());
    html! {
        @if !report.pictures.is_empty() {
            section.images {
                h2 { "Images of the test split" }
                p.note {
                    (words::plural(report.pictures.len() as u64, "image", "images"))
                    ", each with the model's answer and its probability. Wrong answers have a dashed frame and the truth below."
                }
                @if has_maps {
                    label.switch {
                        input type="checkbox" checked;
                        " Show where an image speaks for the answer (Grad-CAM; red is most)"
                    }
                }
                @for (shown, title) in GROUPS {
                    @if of(shown).next().is_some() {
                        h3.later { (title) }
                        div.pictures { @for picture in of(shown) { (figure(report, picture)) } }
                    }
                }
                @if has_maps {
                    p.note {
                        "A map says where the network's last features speak for a class, in places of its stride, often 32 pixels. It is no proof that "
                        "what lies there is the reason."
                    }
                }
            }
        }
    }
}

fn figure(report: &Report<'_>, picture: &SamplePicture) -> Markup {
    let right = picture.truth == picture.prediction;
    let (answer, truth) = (names(report, &picture.prediction), names(report, &picture.truth));
    html! {
        figure.picture.wrong[!right] {
            div.frame {
                img src=(embedded(&picture.png)) loading="lazy"
                    alt={ (picture.name) ": answered " (answer) ", truth " (truth) };
                @if let Some(map) = &picture.map {
                    img.map src=(embedded(map)) alt="";
                }
            }
            figcaption {
                span.answer {
                    span.sign aria-hidden="true" { @if right { "✓" } @else { "✗" } }
                    b { (answer) }
                    span.probability { (format!("{:.0}\u{a0}%", picture.probability * 100.0)) }
                }
                @if !right { span.truth { "truth: " b { (truth) } } }
                span.name title=(picture.name) { (picture.name) }
            }
        }
    }
}

fn names(report: &Report<'_>, classes: &[usize]) -> String {
    match classes {
        [] => "none".to_string(),
        some => some.iter().map(|class| words::class(report.classes, *class)).collect::<Vec<_>>().join(" + "),
    }
}
