//! The newest numbers of a run.

use kindling_given::in_units;
use kindling_runs::Event;

use crate::numbers::{UNKNOWN, percent, short};

/// How much of a mean the newest step is.
const NEWEST: f64 = 0.1;

/// The numbers of the newest step, and means over the last ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latest {
    /// Numbers of the newest step as text, by name.
    numbers: Vec<(&'static str, String)>,
    /// Means over the last steps of this sitting.
    images_per_second: Mean,
    waiting: Mean,
    peak_memory_bytes: u64,
}

/// An exponential mean; nothing as long as there is no value.
#[derive(Clone, Copy, Debug, Default)]
struct Mean(Option<f64>);

impl Mean {
    fn push(&mut self, value: f64) {
        if value.is_finite() {
            self.0 = Some(self.0.map_or(value, |mean| (1.0 - NEWEST) * mean + NEWEST * value));
        }
    }
}

impl Latest {
    /// Takes the numbers of a step, of which each is of so many images where that is known.
    pub(crate) fn see(&mut self, event: &Event, global_batch: Option<usize>) {
        match event {
            Event::Step { loss, lr, gradient_norm, images_per_second, waiting_seconds, peak_memory_bytes, .. } => {
                self.numbers =
                    vec![("loss", short(*loss)), ("lr", short(*lr)), ("gradient norm", short(*gradient_norm))];
                self.images_per_second.push(*images_per_second);
                // A step's time, waiting included, is what its speed says.
                if let Some(images) = global_batch {
                    self.waiting.push(waiting_seconds * images_per_second / images as f64);
                }
                self.peak_memory_bytes = *peak_memory_bytes;
            }
            Event::Iteration {
                discriminator_loss,
                generator_loss,
                discriminator_norm,
                generator_norm,
                real_believed,
                made_believed,
                spread,
                images_per_second,
                peak_memory_bytes,
                ..
            } => {
                self.numbers = vec![
                    ("D loss", short(*discriminator_loss)),
                    ("G loss", short(*generator_loss)),
                    ("D norm", short(*discriminator_norm)),
                    ("G norm", short(*generator_norm)),
                    ("real believed", percent(*real_believed, 0)),
                    ("fake believed", percent(*made_believed, 0)),
                    ("spread", short(*spread)),
                ];
                self.images_per_second.push(*images_per_second);
                self.peak_memory_bytes = *peak_memory_bytes;
            }
            _ => {}
        }
    }

    /// Forgets how fast the sitting before was; this one may be on another machine.
    pub(crate) fn new_sitting(&mut self) {
        self.images_per_second = Mean::default();
        self.waiting = Mean::default();
    }

    /// Names and values, in the order of their importance.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = self.numbers.clone();
        let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.into());
        pairs.push(("images/s", known(self.images_per_second.0.map(|rate| format!("{rate:.1}")))));
        if let Some(share) = self.waiting.0 {
            pairs.push(("waiting", percent(share, 0)));
        }
        // Zero where it cannot be measured.
        pairs.push(("peak", known((self.peak_memory_bytes > 0).then(|| in_units(self.peak_memory_bytes)))));
        pairs
    }
}
