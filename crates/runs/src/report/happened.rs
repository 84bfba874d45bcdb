//! What happened besides steps. Nothing that a reader should know is only in the log.

use maud::{Markup, html};

use super::words;
use crate::Event;

/// Lines beyond these are only counted.
const SHOWN: usize = 100;

/// What the events tell, and what else is known: the step after which it was, and a sentence.
pub(super) fn section(events: &[Event], more: Vec<(u64, String)>) -> Markup {
    let mut lines: Vec<(u64, String)> = events.iter().filter_map(told).chain(more).collect();
    lines.sort_by_key(|line| line.0);
    let checkpoints = events.iter().filter(|event| matches!(event, Event::Checkpoint { .. })).count();
    html! {
        @if !lines.is_empty() {
            section {
                h2 { "What happened" }
                ol.happened {
                    @for (step, text) in lines.iter().take(SHOWN) { li { span { "step " (step) } (text) } }
                }
                @if lines.len() > SHOWN { p.note { "And " (lines.len() - SHOWN) " more, in events.jsonl." } }
                @if checkpoints > 0 { p.note { (words::plural(checkpoints as u64, "checkpoint", "checkpoints")) " saved." } }
            }
        }
    }
}

/// An event as a line, if it is told.
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
        Event::WarmedUp { step, seconds, .. } => (step, format!("kernels chosen in {}", words::duration(*seconds))),
        Event::BadSample { step, split, path, reason } => (step, format!("{split} sample left out: {path} ({reason})")),
        Event::Interrupted { step } => (step, "interrupted and saved".into()),
        Event::Resumed { step } => (step, "resumed".into()),
        Event::Finished { step, seconds } => (step, format!("finished after {}", words::duration(*seconds))),
        _ => return None,
    };
    Some((*step, text))
}
