//! What is known of a run.

use std::time::Duration;

use kindling_runs::Event;

use crate::facts::Facts;
use crate::latest::Latest;
use crate::messages::Messages;
use crate::pace::Pace;
use crate::series::{Series, Smoothed};
use crate::words::{is_trouble, sentence};

/// What is known of a run, ready to be drawn. Its size is bounded, however long the run is.
///
/// A run that resumes is shown from its beginning if the events of its log are [seen](Self::see) before the new ones.
#[derive(Clone, Debug)]
pub struct Dashboard {
    pub(crate) title: String,
    pub(crate) total: u64,
    pub(crate) step: u64,
    pub(crate) epoch: u64,
    pub(crate) phase: Phase,
    pub(crate) facts: Option<Facts>,
    /// Images on the device at a time, now.
    pub(crate) micro_batch: usize,
    pub(crate) curves: Curves,
    pub(crate) latest: Latest,
    pub(crate) messages: Messages,
    pace: Pace,
    /// Running time, as the newest event has it.
    pub(crate) ran: Duration,
}

/// What the run is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing has been computed in this sitting.
    Starting,
    Training,
    Evaluating {
        split: String,
        done: usize,
        total: usize,
    },
    Interrupted,
    EndedEarly,
    Finished,
}

/// The curves that are drawn as charts, over optimizer steps.
#[derive(Clone, Debug)]
pub(crate) enum Curves {
    /// One network that learns from labels. `dice` has points where it segments, `mae` where it answers with a number.
    Classifier { training: Smoothed, validation: Series, accuracy: Series, dice: Series, mae: Series },
    /// Two networks against each other.
    Gan { discriminator: Smoothed, generator: Smoothed },
}

impl Default for Curves {
    fn default() -> Self {
        let (validation, accuracy, dice, mae) = Default::default();
        Self::Classifier { training: Smoothed::default(), validation, accuracy, dice, mae }
    }
}

impl Curves {
    fn rewind(&mut self, step: u64) {
        match self {
            Self::Classifier { training, validation, accuracy, dice, mae } => {
                training.rewind(step);
                [validation, accuracy, dice, mae].into_iter().for_each(|series| series.rewind(step));
            }
            Self::Gan { discriminator, generator } => {
                discriminator.rewind(step);
                generator.rewind(step);
            }
        }
    }
}

impl Dashboard {
    /// A dashboard for a run of `total_steps` optimizer steps, before its first event. The title stands above everything.
    pub fn new(title: impl Into<String>, total_steps: u64) -> Self {
        Self {
            title: title.into(),
            total: total_steps,
            step: 0,
            epoch: 0,
            phase: Phase::Starting,
            facts: None,
            micro_batch: 0,
            curves: Curves::default(),
            latest: Latest::default(),
            messages: Messages::default(),
            pace: Pace::default(),
            ran: Duration::ZERO,
        }
    }

    /// Takes in what happened.
    pub fn see(&mut self, event: &Event) {
        self.enter(event);
        self.latest.see(event, self.facts.as_ref().map(|facts| facts.global_batch));
        self.plot(event);
        if let Some(sentence) = sentence(event) {
            self.messages.push(&sentence, is_trouble(event));
        }
    }

    /// `done` of `total` samples of a split are evaluated.
    pub fn evaluating(&mut self, split: &str, done: usize, total: usize) {
        self.phase = Phase::Evaluating { split: split.into(), done, total };
    }

    /// Adds a line to the messages.
    pub fn say(&mut self, line: &str) {
        self.messages.push(line, false);
    }

    /// The time until the last step is done; `None` as long as nothing is known.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.pace.left(self.step, self.total, self.ran)
    }

    /// Where the run is after an event.
    fn enter(&mut self, event: &Event) {
        match event {
            Event::Started {
                model,
                data,
                classes,
                parameters,
                device,
                image_size,
                global_batch,
                micro_batch,
                steps_total,
                ..
            } => {
                self.facts = Some(Facts {
                    model: model.clone(),
                    parameters: *parameters,
                    data: data.clone(),
                    classes: classes.len(),
                    device: device.clone(),
                    image_size: *image_size,
                    global_batch: *global_batch,
                });
                self.micro_batch = *micro_batch;
                self.total = *steps_total;
            }
            Event::Step { step, epoch, micro_batch, seconds, .. }
            | Event::Iteration { step, epoch, micro_batch, seconds, .. } => {
                self.phase = Phase::Training;
                (self.step, self.epoch, self.micro_batch) = (*step, *epoch, *micro_batch);
                // A time that is none leaves the clock where it was.
                self.ran = Duration::try_from_secs_f64(*seconds).unwrap_or(self.ran);
                self.pace.step(*step, self.ran);
            }
            Event::Evaluated { .. } | Event::Skipped { .. } => self.phase = Phase::Training,
            Event::Resumed { step } => {
                self.phase = Phase::Starting;
                self.step = *step;
                self.curves.rewind(*step);
                self.pace = Pace::default();
                self.latest.new_sitting();
            }
            Event::Extended { steps_total, .. } => self.total = *steps_total,
            Event::Interrupted { .. } => self.phase = Phase::Interrupted,
            Event::EndedEarly { .. } => self.phase = Phase::EndedEarly,
            // How it ended stays.
            Event::Finished { .. } if self.phase != Phase::EndedEarly => self.phase = Phase::Finished,
            _ => {}
        }
    }

    /// Adds the points of an event to the curves.
    fn plot(&mut self, event: &Event) {
        if matches!(event, Event::Iteration { .. }) && matches!(self.curves, Curves::Classifier { .. }) {
            self.curves = Curves::Gan { discriminator: Smoothed::default(), generator: Smoothed::default() };
        }
        match (&mut self.curves, event) {
            (Curves::Classifier { training, .. }, Event::Step { step, loss, .. }) => training.push(*step, *loss),
            (
                Curves::Classifier { validation, accuracy: right, dice: overlap, mae: off, .. },
                Event::Evaluated { step, split, loss, accuracy, dice, mae, .. },
            ) if split == "validation" => {
                validation.push(*step, *loss);
                for (series, value) in [(right, accuracy), (overlap, dice), (off, mae)] {
                    value.iter().for_each(|value| series.push(*step, *value));
                }
            }
            (
                Curves::Gan { discriminator, generator },
                Event::Iteration { step, discriminator_loss, generator_loss, .. },
            ) => {
                discriminator.push(*step, *discriminator_loss);
                generator.push(*step, *generator_loss);
            }
            _ => {}
        }
    }
}
