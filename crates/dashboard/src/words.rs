//! Events as sentences.

use kindling_given::counted;
use kindling_runs::Event;

use crate::numbers::{overlap, percent, short};

/// An event in one sentence without a full stop; `None` for steps, which are shown as numbers, and for the
/// start.
pub fn sentence(event: &Event) -> Option<String> {
    Some(match event {
        Event::Started { .. } | Event::Step { .. } | Event::Iteration { .. } => return None,
        Event::WarmedUp { micro_batches, too_large, seconds, .. } => {
            let sizes: Vec<String> = micro_batches.iter().map(usize::to_string).collect();
            let beyond = too_large.map(|size| format!("; {size} did not fit")).unwrap_or_default();
            format!("kernels compiled for micro-batches of {} in {seconds:.0} s{beyond}", sizes.join(", "))
        }
        Event::Skipped { step, loss_scale } => {
            format!("step {step}: gradients not finite in this format; update left out, loss scale now {loss_scale}")
        }
        Event::BadSample { split, path, reason, .. } => {
            format!("skipped a {split} sample that cannot be read: {path:?}: {reason}")
        }
        Event::Sampled { step, path } => format!("after iteration {step}: samples in {path}"),
        Event::Compared { step, frechet, kernel, samples } => format!(
            "after iteration {step}: Frechet distance {frechet:.1}, kernel distance {kernel:.4} ({})",
            counted(*samples, "image")
        ),
        Event::Warned { step, text } => format!("after step {step}: {text}"),
        Event::Evaluated { epoch, split, loss, accuracy, samples, dice, mae, r2, .. } => {
            let score = match (dice, mae, accuracy) {
                (Some(dice), ..) => format!("Dice {}", overlap(*dice)),
                (None, Some(mae), _) => {
                    let explained = r2.map_or_else(String::new, |r2| format!(", R2 {}", overlap(r2)));
                    format!("MAE {}{explained}", short(*mae))
                }
                (None, None, accuracy) => format!("accuracy {}", percent(accuracy.unwrap_or(f64::NAN), 1)),
            };
            format!("epoch {epoch} · {split}: {score} · loss {} · {}", short(*loss), counted(*samples, "image"))
        }
        Event::Checkpoint { step, path, .. } => format!("after step {step}: saved {path}"),
        Event::Recovered { step, during, reason, lever, seconds } => {
            format!("memory ran out in {during} after step {step} ({reason}): {lever}; it cost {seconds:.1} s")
        }
        Event::Replanned { step, reason, lever } => format!("after step {step}: {lever}; {reason}"),
        Event::Interrupted { step } => format!("interrupted and saved after step {step}"),
        Event::Resumed { step } => format!("resumed after step {step}"),
        Event::Extended { step, steps_total, .. } => format!("extended after step {step} to {steps_total} steps"),
        Event::EndedEarly { epoch, best_epoch: Some(best), .. } => {
            format!("ended early after {}: none was better than epoch {best}", counted(*epoch, "epoch"))
        }
        Event::EndedEarly { epoch, best_epoch: None, .. } => format!("ended early after {}", counted(*epoch, "epoch")),
        Event::Finished { step, .. } => format!("finished after {}", counted(*step, "step")),
        // Events are added to over time.
        _ => return None,
    })
}

/// Whether an event is something that a person should look at.
pub(crate) fn is_trouble(event: &Event) -> bool {
    matches!(event, Event::Skipped { .. } | Event::BadSample { .. } | Event::Warned { .. } | Event::Recovered { .. })
}
