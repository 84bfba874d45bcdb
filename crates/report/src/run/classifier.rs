//! The page about a classifier.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kindling_metrics::{Score, Scores};
use kindling_runs::{Environment, Event, Metrics, Sitting};
use maud::{Markup, html};

use super::curves::Steps;
use super::{confusion, curves, happened, of_run, scores};
use crate::words;

/// Why an image is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// One of the mistakes that the model is surest of.
    Mistake,
    /// One of the images that it is least sure of.
    Uncertain,
    /// One of those that it is surest of, and rightly.
    Certain,
    /// One of many, evenly spaced.
    Spaced,
}

/// One image of the test split with the model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplePicture {
    /// The image as PNG. About 192 pixels wide is enough; it is embedded as it is.
    pub png: Vec<u8>,
    /// Where it speaks for the answer, as PNG that lies over the image, stretched to its size; none where that is not known.
    pub map: Option<Vec<u8>>,
    /// Why it is shown.
    pub shown: Shown,
    /// Its name in the data set.
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
    /// The resolved configuration.
    pub config_toml: &'a str,
    /// The events, in order.
    pub events: &'a [Event],
    /// The results.
    pub metrics: &'a Metrics,
    /// Scores with intervals, where there are any.
    pub scores: Option<&'a Scores>,
    /// What it began on.
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
    pub(super) fn score(&self) -> Option<(&'static str, &Score)> {
        let test = self.metrics.test.as_ref().map(|score| ("test", score));
        test.or_else(|| self.metrics.validation.as_ref().map(|score| ("validation", score)))
    }

    pub(super) fn class(&self, index: usize) -> String {
        self.classes.get(index).cloned().unwrap_or_else(|| format!("class {index}"))
    }
}

fn page(report: &Report<'_>) -> Markup {
    let steps = Steps::of(report.events);
    let resized = |(step, before, after): &(u64, usize, usize)| {
        (*step, format!("micro-batch {before} → {after}, same global batch"))
    };
    let resized = steps.micro_batches.iter().map(resized).collect();
    let content = html! {
        (tiles(report))
        (curves::learning(report, &steps))
        (confusion::section(report))
        @if let Some(scores) = report.scores { (scores::section(scores)) }
        (pictures(report))
        (curves::cost(&steps))
        (happened(report.events, resized))
    };
    of_run(report.title, &header(report), &content, (report.environment, report.history), report.config_toml)
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

fn header(report: &Report<'_>) -> Markup {
    html! {
        header {
            p.brand { "Kindling" span { (report.title) } }
            @match report.score() {
                Some((split, score)) => (verdict(split, score, baseline(report, split, score))),
                None => h1 { "Not evaluated yet" },
            }
            p.about { (about(report)) }
            @if let Some(state) = unfinished(report) { p.warning { strong { "Not finished. " } (state) } }
        }
    }
}

fn verdict(split: &str, score: &Score, baseline: f64) -> Markup {
    let right = (score.accuracy * score.samples as f64).round() as u64;
    let width = |share: f64| format!("{:.2}%", 100.0 * share.clamp(0.0, 1.0));
    let above = beats(score, baseline);
    html! {
        h1 {
            (words::percent(score.accuracy)) " accuracy on the " (split) " split, "
            @if above { "against " (words::percent(baseline)) " by chance" }
            @else if score.accuracy > baseline { "not clearly better than chance (" (words::percent(baseline)) ")" }
            @else { "no better than chance (" (words::percent(baseline)) ")" }
        }
        div.gauge role="img" aria-label={ "Accuracy " (words::percent(score.accuracy)) ", chance " (words::percent(baseline)) } {
            div.fill style={ "width:" (width(score.accuracy)) } {}
            div.chance style={ "left:" (width(baseline)) } { span.turned[baseline > 0.8] { "chance" } }
        }
        p.note {
            (right) " of " (words::plural(score.samples as u64, "image", "images"))
            @if score.multi_label.is_some() { " with all labels right" } @else { " right" }
            ". Chance is the share of the most frequent answer: what always giving it would reach."
        }
    }
}

/// The run in two sentences.
fn about(report: &Report<'_>) -> Markup {
    let metrics = report.metrics;
    let started = report.events.iter().find_map(|event| match event {
        Event::Started { time, image_size, global_batch, .. } => Some((time, *image_size, *global_batch)),
        _ => None,
    });
    html! {
        strong { (report.model) } " with " (words::count(metrics.parameters)) " parameters, trained on "
        strong { (report.data) } " (" (words::plural(report.classes.len() as u64, "class", "classes"))
        @if let Some((_, size, _)) = started { ", " (size) "\u{a0}×\u{a0}" (size) " pixels" }
        ") for " (words::plural(metrics.epochs, "epoch", "epochs")) " (" (words::plural(metrics.steps, "step", "steps"))
        @if let Some((.., batch)) = started { " of " (words::plural(batch as u64, "image", "images")) }
        "). It took " (words::duration(metrics.seconds)) " on " (device(report))
        @if let Some((time, ..)) = started { ", starting " (words::moment(time)) }
        "."
    }
}

/// `cpu` alone says too little to compare anything.
fn device(report: &Report<'_>) -> String {
    let environment = report.environment;
    match &environment.cpu {
        Some(cpu) if environment.device.device.eq_ignore_ascii_case("cpu") => match environment.threads {
            Some(threads) => format!("CPU ({cpu}, {})", words::plural(threads as u64, "thread", "threads")),
            None => format!("CPU ({cpu})"),
        },
        _ => environment.device.device.clone(),
    }
}

/// Why the run is not complete, if it is not.
fn unfinished(report: &Report<'_>) -> Option<String> {
    let last = report.events.iter().rev().find(|event| {
        matches!(
            event,
            Event::Finished { .. }
                | Event::Interrupted { .. }
                | Event::Step { .. }
                | Event::Resumed { .. }
                | Event::Extended { .. }
        )
    })?;
    match last {
        Event::Finished { .. } => None,
        Event::Interrupted { step } => {
            Some(format!("The run was interrupted after step {step}; --resume {} continues it.", report.metrics.run))
        }
        other => {
            let step = other.step().unwrap_or(0);
            Some(format!("The log ends at step {step}: the run was stopped there or is still going on."))
        }
    }
}

fn tiles(report: &Report<'_>) -> Markup {
    let metrics = report.metrics;
    let mut tiles: Vec<(&str, String, String)> = Vec::new();
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
    tiles.push(("Training speed", words::number(round(metrics.images_per_second)), "images per second".into()));
    tiles.push(match metrics.peak_memory_bytes {
        0 => ("Peak memory", "–".into(), "not measured on this device".into()),
        peak => ("Peak memory", words::bytes(peak), device_memory(report)),
    });
    let steps = words::plural(metrics.steps, "step", "steps");
    tiles.push(("Time", words::duration(metrics.seconds), steps));
    html! {
        div.tiles {
            @for (name, value, note) in &tiles {
                div.tile { span.label { (name) } span.value { (value) } span.note { (note) } }
            }
        }
    }
}

/// Three digits say all that a speed can.
fn round(value: f64) -> f64 {
    if value < 10.0 { (value * 100.0).round() / 100.0 } else { (value * 10.0).round() / 10.0 }
}

fn device_memory(report: &Report<'_>) -> String {
    match report.environment.device.device_memory_bytes {
        Some(memory) => format!("of {}", words::bytes(memory)),
        None => "while training".into(),
    }
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
                img src={ "data:image/png;base64," (STANDARD.encode(&picture.png)) } loading="lazy"
                    alt={ (picture.name) ": answered " (answer) ", truth " (truth) };
                @if let Some(map) = &picture.map {
                    img.map src={ "data:image/png;base64," (STANDARD.encode(map)) } alt="";
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
        some => some.iter().map(|class| report.class(*class)).collect::<Vec<_>>().join(" + "),
    }
}
