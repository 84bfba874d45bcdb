//! What pages about one trained network have in common: what it is, where it stands, and what it cost.

use kindling_runs::{Environment, Event, Metrics, Sitting};
use maud::{Markup, html};

use super::curves::{Goal, Steps};
use super::{curves, happened, of_run};
use crate::words;

/// What is known of a run, whatever the network is for.
#[derive(Clone, Copy)]
pub(super) struct Trained<'a> {
    pub(super) title: &'a str,
    pub(super) model: &'a str,
    pub(super) data: &'a str,
    /// Number of classes; 0 where it answers with a number.
    pub(super) classes: usize,
    pub(super) config_toml: &'a str,
    pub(super) events: &'a [Event],
    pub(super) metrics: &'a Metrics,
    pub(super) environment: &'a Environment,
    pub(super) history: &'a [Sitting],
}

/// A name, its value, and what it is of.
pub(super) type Tile = (&'static str, String, String);

impl Trained<'_> {
    /// The page: the verdict, tiles and curves, what belongs to this kind of network, and what the run cost.
    pub(super) fn page(&self, verdict: &Markup, quality: Vec<Tile>, goal: &Goal, results: &Markup) -> Markup {
        let steps = Steps::of(self.events);
        let resized = |(step, before, after): &(u64, usize, usize)| {
            (*step, format!("micro-batch {before} → {after}, same global batch"))
        };
        let resized = steps.micro_batches.iter().map(resized).collect();
        let content = html! {
            (tiles(&[quality, self.cost()].concat()))
            (curves::learning(self.events, &steps, goal))
            (results)
            (curves::cost(&steps))
            (happened(self.events, resized))
        };
        let ran = (self.environment, self.history);
        of_run(self.title, &self.header(verdict), &content, ran, self.config_toml)
    }

    fn header(&self, verdict: &Markup) -> Markup {
        html! {
            header {
                p.brand { "Kindling" span { (self.title) } }
                (verdict)
                p.about { (self.about()) }
                @if let Some(state) = self.unfinished() { p.warning { strong { "Not finished. " } (state) } }
            }
        }
    }

    /// The run in two sentences.
    fn about(&self) -> Markup {
        let metrics = self.metrics;
        let started = self.events.iter().find_map(|event| match event {
            Event::Started { time, image_size, global_batch, .. } => Some((time, *image_size, *global_batch)),
            _ => None,
        });
        html! {
            strong { (self.model) } " with " (words::count(metrics.parameters)) " parameters, trained on "
            strong { (self.data) } (self.of_what(started.map(|(_, size, _)| size))) " for " (words::epochs(metrics.epochs)) " (" (words::plural(metrics.steps, "step", "steps"))
            @if let Some((.., batch)) = started { " of " (words::plural(batch as u64, "image", "images")) }
            "). It took " (words::duration(metrics.seconds)) " on " (self.device())
            @if let Some((time, ..)) = started { ", starting " (words::moment(time)) }
            "."
        }
    }

    /// Classes and size of the images, as far as there are any, in brackets.
    fn of_what(&self, size: Option<usize>) -> String {
        let classes = (self.classes > 0).then(|| words::plural(self.classes as u64, "class", "classes"));
        let size = size.map(|size| format!("{size}\u{a0}×\u{a0}{size} pixels"));
        let parts: Vec<String> = classes.into_iter().chain(size).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    }

    /// `cpu` alone says too little to compare anything.
    fn device(&self) -> String {
        let environment = self.environment;
        match &environment.cpu {
            Some(cpu) if environment.device.device.eq_ignore_ascii_case("cpu") => match environment.threads {
                Some(threads) => format!("CPU ({cpu}, {})", words::plural(threads as u64, "thread", "threads")),
                None => format!("CPU ({cpu})"),
            },
            _ => environment.device.device.clone(),
        }
    }

    /// Why the run is not complete, if it is not.
    fn unfinished(&self) -> Option<String> {
        let last = self.events.iter().rev().find(|event| {
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
                Some(format!("The run was interrupted after step {step}; --resume {} continues it.", self.metrics.run))
            }
            other => {
                let step = other.step().unwrap_or(0);
                Some(format!("The log ends at step {step}: the run was stopped there or is still going on."))
            }
        }
    }

    /// Speed, memory and time.
    fn cost(&self) -> Vec<Tile> {
        let metrics = self.metrics;
        let memory = match metrics.peak_memory_bytes {
            0 => ("Peak memory", "–".into(), "not measured on this device".into()),
            peak => ("Peak memory", words::bytes(peak), self.device_memory()),
        };
        vec![
            ("Training speed", words::number(round(metrics.images_per_second)), "images per second".into()),
            memory,
            ("Time", words::duration(metrics.seconds), words::plural(metrics.steps, "step", "steps")),
        ]
    }

    fn device_memory(&self) -> String {
        match self.environment.device.device_memory_bytes {
            Some(memory) => format!("of {}", words::bytes(memory)),
            None => "while training".into(),
        }
    }
}

/// The tiles below the header.
pub(super) fn tiles(tiles: &[Tile]) -> Markup {
    html! {
        div.tiles {
            @for (name, value, note) in tiles {
                div.tile { span.label { (name) } span.value { (value) } span.note { (note) } }
            }
        }
    }
}

/// A share from 0 to 1 as a bar, and with its name what it must beat. `said` is the same in words.
pub(super) fn gauge(share: f64, level: Option<(f64, &str)>, said: &str) -> Markup {
    let width = |share: f64| format!("{:.2}%", 100.0 * share.clamp(0.0, 1.0));
    html! {
        div.gauge role="img" aria-label=(said) {
            div.fill style={ "width:" (width(share)) } {}
            @if let Some((level, name)) = level {
                div.baseline style={ "left:" (width(level)) } { span.turned[level > 0.8] { (name) } }
            }
        }
    }
}

/// Three digits say all that a speed can.
pub(super) fn round(value: f64) -> f64 {
    if value < 10.0 { (value * 100.0).round() / 100.0 } else { (value * 10.0).round() / 10.0 }
}
