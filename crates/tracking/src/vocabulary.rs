//! What each event of the log is called elsewhere. One place has all names.

use std::path::{Path, PathBuf};

use kindling_runs::{Event, Together};

use crate::entry::{Entry, Name, What};
use crate::histogram::Histogram;
use crate::marks::Marks;

/// The name of a generator's sample grids.
pub(crate) const SAMPLES: &str = "samples";

/// Turns the events of one log, in order, into entries.
#[derive(Clone, Debug)]
pub(crate) struct Vocabulary {
    run: PathBuf,
    clock: Clock,
    seen: Marks,
    epoch: Epoch,
    ending: Ending,
}

/// How a log ends, as far as it has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It goes on, or its process was killed.
    #[default]
    Open,
    /// The run was stopped in an orderly way.
    Interrupted,
    /// The run is complete.
    Finished,
}

/// The time of events. The log counts seconds of running time; of a GAN they may begin anew in each sitting.
#[derive(Clone, Copy, Debug)]
struct Clock {
    started: f64,
    before: f64,
    seconds: f64,
}

impl Clock {
    fn set(&mut self, seconds: f64) {
        if !seconds.is_finite() {
            return;
        }
        if self.before + seconds < self.seconds {
            self.before = self.seconds;
        }
        self.seconds = self.before + seconds;
    }
}

/// What the steps of the current epoch have measured.
#[derive(Clone, Debug, Default)]
struct Epoch {
    number: u64,
    last_step: u64,
    losses: Vec<f64>,
    gradient_norms: Vec<f64>,
}

impl Vocabulary {
    /// For the log of a run in the folder `run` that began at `started`, in seconds since 1970.
    pub(crate) fn new(run: &Path, started: f64) -> Self {
        let clock = Clock { started, before: 0.0, seconds: 0.0 };
        Self { run: run.into(), clock, seen: Marks::default(), epoch: Epoch::default(), ending: Ending::Open }
    }

    /// How the log ends, after the events told so far.
    pub(crate) fn ending(&self) -> Ending {
        self.ending
    }

    /// An entry at the present time for which there is no event.
    pub(crate) fn entry(&self, step: u64, epoch: Option<u64>, what: What) -> Entry {
        let Clock { started, seconds, .. } = self.clock;
        Entry { step, epoch, time: started + seconds, seconds, nth: 1, what }
    }

    /// Adds the entries of the next event.
    pub(crate) fn tell(&mut self, event: &Event, entries: &mut Vec<Entry>) {
        match event {
            Event::Finished { .. } => self.ending = Ending::Finished,
            Event::Interrupted { .. } => self.ending = Ending::Interrupted,
            Event::Step { .. } | Event::Iteration { .. } | Event::Resumed { .. } | Event::Extended { .. } => {
                self.ending = Ending::Open;
            }
            // What else is told after an end changes none.
            _ => {}
        }
        match event {
            Event::Step { step, epoch, loss, gradient_norm, seconds, .. } => {
                self.clock.set(*seconds);
                self.measured(*step, *epoch, *loss, *gradient_norm, entries);
            }
            Event::Iteration { seconds, .. } => self.clock.set(*seconds),
            Event::Finished { seconds, .. } => {
                self.clock.set(*seconds);
                self.end_epoch(entries);
            }
            _ => {}
        }
        let epoch = match event {
            Event::Step { epoch, .. } | Event::Iteration { epoch, .. } | Event::Evaluated { epoch, .. } => Some(*epoch),
            _ => None,
        };
        if let (Some(what), Some(step)) = (self.what(event), event.step()) {
            self.add(step, epoch, what, entries);
        }
    }

    fn add(&mut self, step: u64, epoch: Option<u64>, what: What, entries: &mut Vec<Entry>) {
        let nth = self.seen.count(&what.series(), step);
        // What is measured again after the same step is the same; only sentences may be several.
        if nth == 1 || matches!(what, What::Note(..)) {
            entries.push(Entry { nth, ..self.entry(step, epoch, what) });
        }
    }

    fn what(&self, event: &Event) -> Option<What> {
        Some(match event {
            Event::Step { .. } | Event::Iteration { .. } | Event::Evaluated { .. } | Event::Compared { .. } => {
                What::Values(values(event))
            }
            Event::Skipped { loss_scale, .. } => What::Values(vec![("train/loss_scale".into(), *loss_scale)]),
            Event::Sampled { path, .. } => What::Picture(SAMPLES, self.run.join(path)),
            event => {
                let (kind, text) = note(event)?;
                What::Note(kind, text)
            }
        })
    }

    /// Counts a step; the first of an epoch ends the one before.
    fn measured(&mut self, step: u64, epoch: u64, loss: f64, gradient_norm: f64, entries: &mut Vec<Entry>) {
        if epoch != self.epoch.number {
            self.end_epoch(entries);
            self.epoch.number = epoch;
        }
        self.epoch.last_step = step;
        self.epoch.losses.push(loss);
        self.epoch.gradient_norms.push(gradient_norm);
    }

    fn end_epoch(&mut self, entries: &mut Vec<Entry>) {
        let Epoch { number, last_step, losses, gradient_norms } = std::mem::take(&mut self.epoch);
        let told = [("train/loss_in_epoch", losses), ("train/gradient_norm_in_epoch", gradient_norms)];
        for (name, values) in told {
            if let Some(histogram) = Histogram::of(&values) {
                self.add(last_step, Some(number), What::Distribution(name, histogram), entries);
            }
        }
    }
}

/// The name of a split's values.
fn split_name(split: &str) -> &str {
    match split {
        "validation" => "val",
        // `train/loss` is that of the steps.
        "train" => "train_evaluated",
        other => other,
    }
}

fn values(event: &Event) -> Vec<(Name, f64)> {
    let named = |values: &[(&'static str, f64)]| values.iter().map(|&(name, value)| (name.into(), value)).collect();
    match event {
        Event::Step {
            loss,
            lr,
            images_per_second,
            micro_batch,
            peak_memory_bytes,
            gradient_norm,
            waiting_seconds,
            together,
            ..
        } => {
            let mut values: Vec<(Name, f64)> = named(&[
                ("train/loss", *loss),
                ("train/lr", *lr),
                ("train/gradient_norm", *gradient_norm),
                ("train/images_per_second", *images_per_second),
                ("train/waiting_seconds", *waiting_seconds),
                ("train/micro_batch", *micro_batch as f64),
                ("memory/peak_bytes", *peak_memory_bytes as f64),
            ]);
            if let Some(Together { slowest_seconds, waited_seconds, sent_bytes, .. }) = together {
                values.extend::<Vec<_>>(named(&[
                    ("processes/slowest_seconds", *slowest_seconds),
                    ("processes/waited_seconds", *waited_seconds),
                    ("processes/sent_bytes", *sent_bytes as f64),
                ]));
            }
            values
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
            micro_batch,
            peak_memory_bytes,
            ..
        } => named(&[
            ("train/discriminator_loss", *discriminator_loss),
            ("train/generator_loss", *generator_loss),
            ("train/discriminator_gradient_norm", *discriminator_norm),
            ("train/generator_gradient_norm", *generator_norm),
            ("train/real_believed", *real_believed),
            ("train/fake_believed", *made_believed),
            ("train/spread", *spread),
            ("train/images_per_second", *images_per_second),
            ("train/micro_batch", *micro_batch as f64),
            ("memory/peak_bytes", *peak_memory_bytes as f64),
        ]),
        Event::Evaluated { split, loss, accuracy, dice, mae, r2, .. } => {
            let name = split_name(split);
            let told = [("loss", Some(*loss)), ("accuracy", *accuracy), ("dice", *dice), ("mae", *mae), ("r2", *r2)]
                .into_iter();
            told.filter_map(|(what, value)| Some((format!("{name}/{what}").into(), value?))).collect()
        }
        Event::Compared { frechet, kernel, .. } => {
            named(&[("val/frechet_distance", *frechet), ("val/kernel_distance", *kernel)])
        }
        _ => Vec::new(),
    }
}

/// The kind of a sentence, and what it says.
fn note(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::Warned { text, .. } => ("warned", text.clone()),
        Event::Recovered { during, reason, lever, seconds, .. } => {
            ("recovered", format!("memory ran out during {during}: {reason}; {lever} ({seconds:.1} s)"))
        }
        Event::Replanned { reason, lever, .. } => ("replanned", format!("{reason}: {lever}")),
        Event::BadSample { split, path, reason, .. } => {
            ("bad_sample", format!("{path} of the split {split} cannot be read: {reason}"))
        }
        Event::Interrupted { step } => ("interrupted", format!("stopped and saved after step {step}")),
        Event::Resumed { step } => ("resumed", format!("resumed after step {step}")),
        Event::Extended { step, steps_total, .. } => {
            ("extended", format!("extended after step {step}, to {steps_total} steps"))
        }
        Event::EndedEarly { step, epoch, best_epoch } => {
            let best = best_epoch.map(|best| format!("; the best epoch is {best}")).unwrap_or_default();
            ("ended_early", format!("ended early after step {step}, with {epoch} epochs{best}"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn told(events: &[Event]) -> Vec<Entry> {
        let mut vocabulary = Vocabulary::new(Path::new("runs/a"), 1000.0);
        let mut entries = Vec::new();
        events.iter().for_each(|event| vocabulary.tell(event, &mut entries));
        entries
    }

    #[test]
    fn a_step_is_told_once_and_under_names_that_people_look_for() {
        let events = [testing::step(1, 1), testing::evaluated(1, "validation"), testing::evaluated(1, "validation")];
        let entries = told(&events);
        let series: Vec<_> = entries.iter().map(|entry| entry.what.series().into_owned()).collect();
        assert_eq!(series, ["train/loss", "val/loss"]);
        assert_eq!((entries[0].time, entries[0].epoch), (1001.0, Some(1)));
    }

    #[test]
    fn the_values_of_a_split_are_those_of_the_kind_of_run() {
        let names = |dice, mae: Option<f64>, r2| {
            let event = match testing::evaluated(1, "validation") {
                Event::Evaluated { step, epoch, split, loss, accuracy, samples, .. } => {
                    let accuracy = accuracy.filter(|_| mae.is_none());
                    Event::Evaluated { step, epoch, split, loss, accuracy, samples, dice, mae, r2 }
                }
                other => other,
            };
            values(&event).into_iter().map(|(name, _)| name.into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(None, None, None), ["val/loss", "val/accuracy"]);
        assert_eq!(names(Some(f64::NAN), None, None), ["val/loss", "val/accuracy", "val/dice"]);
        assert_eq!(names(None, Some(1.5), Some(0.5)), ["val/loss", "val/mae", "val/r2"]);
    }

    #[test]
    fn an_epoch_ends_with_the_distribution_of_its_steps() {
        let mut events: Vec<Event> = (1..=5).map(|step| testing::step(step, 1)).collect();
        events.extend([testing::step(6, 2), Event::Finished { step: 6, seconds: 7.0 }]);
        let distributions: Vec<(u64, u64)> = told(&events)
            .into_iter()
            .filter_map(|entry| match entry.what {
                What::Distribution("train/gradient_norm_in_epoch", histogram) => Some((entry.step, histogram.total())),
                _ => None,
            })
            .collect();
        assert_eq!(distributions, [(5, 5), (6, 1)]);
    }

    #[test]
    fn a_clock_that_begins_anew_goes_on() {
        let mut clock = Clock { started: 0.0, before: 0.0, seconds: 0.0 };
        let mut at = |seconds| {
            clock.set(seconds);
            clock.seconds
        };
        assert_eq!([at(5.0), at(10.0), at(2.0), at(4.0), at(f64::NAN)], [5.0, 10.0, 12.0, 14.0, 14.0]);
    }
}
