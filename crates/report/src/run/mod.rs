//! `report.html`: one page about a run, to read or to send to a colleague.

mod classifier;
mod confusion;
pub(crate) mod curves;
mod gan;
pub(crate) mod regression;
pub(crate) mod scores;
pub(crate) mod segmentation;
#[cfg(test)]
mod tests;
mod trained;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kindling_runs::{Environment, Event, Sitting, Together};
use maud::{Markup, PreEscaped, html};

use crate::frame::frame;
use crate::words;

pub use classifier::{Report, SamplePicture, Shown};
pub use gan::{GanReport, Grid};
pub use regression::{RegressionReport, ValuePicture};
pub use segmentation::{MaskPicture, SegmentationReport, ShownCase};

pub(crate) const STYLE: &str = include_str!("run.css");
pub(crate) const SCRIPT: &str = include_str!("run.js");
/// The browser itself holds the page to its promise of asking nothing of the network.
pub(crate) const POLICY: &str =
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page of a run: header, what is particular, then where it ran and with what.
fn of_run(
    title: &str,
    header: &Markup,
    content: &Markup,
    (began_on, sittings): (&Environment, &[Sitting]),
    config_toml: &str,
) -> Markup {
    let body = html! {
        (header)
        main {
            (content)
            (environment(began_on))
            (history(sittings))
            section {
                h2 { "Configuration" }
                details {
                    summary { "config.toml, as it was resolved" }
                    pre { code { (config_toml) } }
                }
            }
        }
        footer { "Made by Kindling " (began_on.kindling) ". This page is one file and loads nothing." }
        script { (PreEscaped(SCRIPT)) }
    };
    frame(&format!("{title} – Kindling"), STYLE, POLICY, &body)
}

/// A picture as the address of itself: nothing is loaded.
fn embedded(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", STANDARD.encode(png))
}

/// Lines beyond these are only counted.
const SHOWN: usize = 100;

/// What the events tell, and what else is known: the step after which it was, and a sentence.
fn happened(events: &[Event], more: Vec<(u64, String)>) -> Markup {
    let mut lines: Vec<(u64, String)> = events.iter().filter_map(told).chain(more).collect();
    lines.sort_by_key(|line| line.0);
    let (checkpoints, together) = (checkpoints(events), together(events));
    html! {
        @if !lines.is_empty() || together.is_some() {
            section {
                h2 { "What happened" }
                ol.happened {
                    @for (step, text) in lines.iter().take(SHOWN) { li { span { "step " (step) } (text) } }
                }
                @if lines.len() > SHOWN { p.note { "And " (lines.len() - SHOWN) " more, in events.jsonl." } }
                @if let Some(text) = checkpoints { p.note { (text) } }
                @if let Some(text) = together { p.note { (text) } }
            }
        }
    }
}

/// How many checkpoints there were, and what they cost.
fn checkpoints(events: &[Event]) -> Option<String> {
    let took: Vec<f64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Checkpoint { seconds, .. } => Some(*seconds),
            _ => None,
        })
        .collect();
    let count = words::plural(took.len() as u64, "checkpoint", "checkpoints");
    match took.iter().sum::<f64>() {
        _ if took.is_empty() => None,
        // Older runs do not tell.
        0.0 => Some(format!("{count} saved.")),
        seconds => Some(format!("{count} saved in {}.", words::duration(seconds))),
    }
}

/// What became of several processes: who was the slowest most often, and how long the first waited for others.
fn together(events: &[Event]) -> Option<String> {
    let steps: Vec<(&Together, f64)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Step { together: Some(together), seconds, .. } => Some((together, *seconds)),
            _ => None,
        })
        .collect();
    let mut times = BTreeMap::new();
    steps.iter().for_each(|(of, _)| *times.entry(of.slowest.as_str()).or_insert(0usize) += 1);
    let (slowest, count) = times.into_iter().max_by_key(|(_, count)| *count)?;
    let waited: f64 = steps.iter().map(|(of, _)| of.waited_seconds).sum();
    Some(format!(
        "Of {} by several processes, {slowest} was the slowest in {count}; the first process waited for the others for {}.",
        words::plural(steps.len() as u64, "step", "steps"),
        words::duration(waited)
    ))
}

/// The line of an event: its step and a sentence; `None` for events that get no line.
fn told(event: &Event) -> Option<(u64, String)> {
    let (step, text) = match event {
        Event::Recovered { step, during, lever, seconds, .. } => {
            let cost = words::duration(*seconds);
            (step, format!("memory ran out in {during}: {lever}; it cost {cost} and changed nothing"))
        }
        Event::Replanned { step, reason, lever } => (step, format!("{lever}: {reason}; it changed nothing")),
        Event::Skipped { step, loss_scale } => {
            (step, format!("gradients not finite: update left out, loss scale {loss_scale}"))
        }
        Event::Warned { step, text } => (step, text.clone()),
        Event::WarmedUp { step, seconds, .. } => (step, format!("kernels compiled in {}", words::duration(*seconds))),
        Event::BadSample { step, split, path, reason } => (step, format!("{split} sample left out: {path} ({reason})")),
        Event::Interrupted { step } => (step, "interrupted and saved".into()),
        Event::Resumed { step } => (step, "resumed".into()),
        Event::Extended { step, steps_total, lr } => (
            step,
            format!("extended to {steps_total} steps, with a learning rate of {} in the next", words::number(*lr)),
        ),
        Event::EndedEarly { step, epoch, best_epoch } => (
            step,
            format!("ended early after {epoch} epochs, of which the best was {}", best_epoch.unwrap_or_default()),
        ),
        Event::Finished { step, seconds } => (step, format!("finished after {}", words::duration(*seconds))),
        _ => return None,
    };
    Some((*step, text))
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

/// Every time the run was started or continued.
fn history(sittings: &[Sitting]) -> Markup {
    html! {
        @if !sittings.is_empty() {
            section {
                h2 { "History" }
                ol.happened {
                    @for sitting in sittings.iter().take(SHOWN) {
                        @let environment = &sitting.environment;
                        li {
                            span { "step " (sitting.from_step) }
                            (sitting.how) " " (words::moment(&environment.time)) " by Kindling " (environment.kindling)
                            @if let Some(commit) = &environment.commit { " (" (commit) ")" }
                            " on " (environment.device.device) ": " code { (environment.command.join(" ")) }
                            @for (key, value) in &sitting.changed { "; " (key) " " (value) }
                        }
                    }
                }
                @if sittings.len() > SHOWN { p.note { "And " (sittings.len() - SHOWN) " more, in history.jsonl." } }
            }
        }
    }
}
