//! The page as a whole: what stands where.

use maud::{Markup, PreEscaped, html};

use super::curves::Steps;
use super::{Report, confusion, figures, happened, pictures, words};
use crate::html::frame;
use crate::{Environment, Event, Score};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// The browser itself holds the page to its promise of asking nothing of the network.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

pub(super) fn page(report: &Report<'_>) -> Markup {
    let steps = Steps::of(report.events);
    let resized = |(step, before, after): &(u64, usize, usize)| {
        (*step, format!("micro-batch {before} → {after}, same global batch"))
    };
    let resized = steps.micro_batches.iter().map(resized).collect();
    let content = html! {
        (tiles(report))
        (figures::curves(report, &steps))
        (confusion::section(report))
        (pictures::section(report))
        (figures::cost(&steps))
        (happened::section(report.events, resized))
    };
    of_run(report.title, &header(report), &content, report.environment, report.config_toml)
}

/// The page of a run: header, what is particular, then where it ran and with what.
pub(super) fn of_run(
    title: &str,
    header: &Markup,
    content: &Markup,
    ran_on: &Environment,
    config_toml: &str,
) -> Markup {
    let body = html! {
        (header)
        main {
            (content)
            (environment(ran_on))
            section {
                h2 { "Configuration" }
                details {
                    summary { "config.toml, as it was resolved" }
                    pre { code { (config_toml) } }
                }
            }
        }
        footer { "Made by Kindling " (ran_on.kindling) ". This page is one file and loads nothing." }
        script { (PreEscaped(SCRIPT)) }
    };
    frame(&format!("{title} – Kindling"), STYLE, POLICY, &body)
}

/// What a score must beat: the test split's chance was handed in, another split has its own.
fn chance(report: &Report<'_>, split: &str, score: &Score) -> f64 {
    if split == "test" && report.chance.is_finite() && report.chance > 0.0 { report.chance } else { score.chance() }
}

/// Whether an accuracy lies more than two standard errors above chance.
fn beats_chance(score: &Score, chance: f64) -> bool {
    let error = (chance * (1.0 - chance) / score.samples.max(1) as f64).sqrt();
    score.accuracy > chance + 2.0 * error
}

fn header(report: &Report<'_>) -> Markup {
    html! {
        header {
            p.brand { "Kindling" span { (report.title) } }
            @match report.score() {
                Some((split, score)) => (verdict(split, score, chance(report, split, score))),
                None => h1 { "Not evaluated yet" },
            }
            p.about { (about(report)) }
            @if let Some(state) = unfinished(report) { p.warning { strong { "Not finished. " } (state) } }
        }
    }
}

fn verdict(split: &str, score: &Score, chance: f64) -> Markup {
    let right = (score.accuracy * score.samples as f64).round() as u64;
    let width = |share: f64| format!("{:.2}%", 100.0 * share.clamp(0.0, 1.0));
    let above = beats_chance(score, chance);
    html! {
        h1 {
            (words::percent(score.accuracy)) " accuracy on the " (split) " split, "
            @if above { "against " (words::percent(chance)) " by chance" }
            @else if score.accuracy > chance { "not clearly better than chance (" (words::percent(chance)) ")" }
            @else { "no better than chance (" (words::percent(chance)) ")" }
        }
        div.gauge role="img" aria-label={ "Accuracy " (words::percent(score.accuracy)) ", chance " (words::percent(chance)) } {
            div.fill style={ "width:" (width(score.accuracy)) } {}
            div.chance style={ "left:" (width(chance)) } { span.turned[chance > 0.8] { "chance" } }
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
        matches!(event, Event::Finished { .. } | Event::Interrupted { .. } | Event::Step { .. } | Event::Resumed { .. })
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

fn environment(environment: &Environment) -> Markup {
    let facts = &environment.device;
    let memory = |bytes: Option<u64>| bytes.map(words::bytes);
    let version = match &environment.commit {
        Some(commit) => format!("{} ({commit})", environment.kindling),
        None => environment.kindling.clone(),
    };
    let rows = [
        ("Kindling", Some(version)),
        ("Burn", Some(environment.burn.clone())),
        ("Compiler", environment.rustc.clone()),
        ("Device", Some(facts.device.clone())),
        ("Device memory", memory(facts.device_memory_bytes)),
        ("Driver", facts.driver.clone()),
        ("CUDA", facts.cuda.clone()),
        ("Processor", environment.cpu.clone()),
        ("Threads", environment.threads.map(|threads| threads.to_string())),
        ("Main memory", memory(environment.memory_bytes)),
        ("System", Some(format!("{}, {}", environment.os, environment.architecture))),
        ("Collected", Some(environment.time.clone())),
        ("Command", Some(environment.command.join(" "))),
    ];
    html! {
        section {
            h2 { "Environment" }
            dl.facts {
                @for (name, value) in rows {
                    @if let Some(value) = value.filter(|value| !value.is_empty()) {
                        div { dt { (name) } dd { (value) } }
                    }
                }
            }
        }
    }
}
