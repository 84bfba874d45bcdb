//! What a person sees while a run goes on: a bar or a dashboard on a terminal, plain lines elsewhere, all on standard error.

mod bar;
mod line;

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kindling_dashboard::{Dashboard, Pace, Screen, in_words, sentence};
use kindling_memory::MemorySize;
use kindling_runs::{Event, EventLog, RunDir};
use kindling_tracking::{Target, Tracking};
use kindling_trainer::Observer;

use crate::output::note;
pub(crate) use bar::progress_bar;
use line::Line;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Only errors and the result.
    Quiet,
    /// A bar or a line now and then.
    Normal,
    /// Every step.
    Steps,
}

/// Time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Fails where a dashboard is asked for and there is no terminal to draw it on.
///
/// # Errors
/// A sentence.
pub(crate) fn check_dashboard(asked: bool) -> Result<()> {
    if asked && !std::io::stderr().is_terminal() {
        bail!("--dashboard needs a terminal on standard error; leave it out where that goes to a file");
    }
    Ok(())
}

/// Shows a run's events.
pub(crate) struct Console {
    verbosity: Verbosity,
    /// A terminal's; where there is none, lines are written one below the other. Sentences are said from where the console is
    /// only looked at.
    line: Option<RefCell<Line>>,
    /// The whole terminal, where that is asked for.
    screen: Option<Screen>,
    total: u64,
    /// Where the run is.
    step: u64,
    last_line: Option<Instant>,
    /// Exponential mean of images per second.
    rate: f64,
    began: Instant,
    pace: Pace,
    /// Who else is told.
    tracking: Option<Tracking>,
}

impl Console {
    /// A console for a run of `total` steps.
    pub(crate) fn new(verbosity: Verbosity, total: u64) -> Self {
        let on_terminal = verbosity == Verbosity::Normal && std::io::stderr().is_terminal();
        Self {
            verbosity,
            line: on_terminal.then(|| RefCell::new(Line::new())),
            screen: None,
            total,
            step: 0,
            last_line: None,
            rate: 0.0,
            began: Instant::now(),
            pace: Pace::default(),
            tracking: None,
        }
    }

    /// From now on tells other trackers of the run, in the background, and says what goes wrong with that.
    pub(crate) fn track(&mut self, run: &RunDir, targets: &[Target]) {
        self.tracking = (!targets.is_empty()).then(|| Tracking::start(run, targets));
    }

    /// Waits until other trackers know all, for a minute at most.
    pub(crate) fn finish_tracking(&mut self) {
        let warnings = self.tracking.take().map(Tracking::finish).unwrap_or_default();
        self.warn(&warnings);
    }

    /// What goes wrong with trackers is said even where nothing else is, for what was asked for is not done.
    fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            match self.verbosity {
                Verbosity::Quiet => note!("warning: {warning}"),
                _ => self.say(&format!("warning: {warning}")),
            }
        }
    }

    /// Shows the run on the whole terminal instead, until [`Console::close`].
    ///
    /// # Errors
    /// A sentence, if the terminal cannot be drawn on.
    pub(crate) fn open_dashboard(&mut self, run: &RunDir) -> Result<()> {
        let mut dashboard = Dashboard::new(run.path().display().to_string(), self.total);
        // What a run that goes on has done before. Its log has been read by now: what could be wrong with it is known.
        EventLog::read(&run.events()).unwrap_or_default().iter().for_each(|event| dashboard.see(event));
        self.screen = Some(Screen::open(dashboard).context("--dashboard cannot draw on this terminal; leave it out")?);
        Ok(())
    }

    /// Says a sentence above the bar.
    pub(crate) fn say(&self, sentence: &str) {
        if let Some(screen) = &self.screen {
            return screen.say(sentence);
        }
        match (&self.line, self.verbosity) {
            (_, Verbosity::Quiet) => {}
            (Some(line), _) => line.borrow_mut().say(sentence),
            (None, _) => note!("{sentence}"),
        }
    }

    /// Takes the bar or the dashboard away.
    pub(crate) fn close(&mut self) {
        self.screen = None;
        if let Some(line) = &self.line {
            line.borrow_mut().clear();
        }
    }

    fn step(&mut self, step: u64, epoch: u64, loss: f64, images_per_second: f64, memory: u64) {
        self.iteration(step, &format!("epoch {epoch} · loss {loss:.3}"), images_per_second, memory);
    }

    fn iteration(&mut self, step: u64, what: &str, images_per_second: f64, memory: u64) {
        self.rate = if self.rate == 0.0 { images_per_second } else { 0.9 * self.rate + 0.1 * images_per_second };
        self.step = step;
        let now = self.began.elapsed();
        self.pace.step(step, now);
        let left = self.pace.left(step, self.total, now).map(|left| format!(" · {} left", in_words(left)));
        let left = left.unwrap_or_default();
        let message = format!("{what} · {:.1} images/s · peak {}{left}", self.rate, MemorySize(memory));
        if let Some(line) = &self.line {
            line.borrow_mut().show(step, self.total, &message);
            return;
        }
        let due = self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY) || step == self.total;
        if self.verbosity == Verbosity::Steps || due {
            self.last_line = Some(Instant::now());
            self.say(&format!("step {step}/{} · {message}", self.total));
        }
    }
}

impl Observer for Console {
    fn event(&mut self, event: &Event) {
        let warnings = self.tracking.as_ref().map(Tracking::warnings).unwrap_or_default();
        self.warn(&warnings);
        if let Some(screen) = &self.screen {
            return screen.see(event);
        }
        match event {
            Event::Step { step, epoch, loss, images_per_second, peak_memory_bytes, .. } => {
                self.step(*step, *epoch, *loss, *images_per_second, *peak_memory_bytes);
            }
            Event::Iteration {
                step,
                discriminator_loss,
                generator_loss,
                spread,
                images_per_second,
                peak_memory_bytes,
                ..
            } => {
                let losses = format!("losses {discriminator_loss:.3} and {generator_loss:.3} · spread {spread:.2}");
                self.iteration(*step, &losses, *images_per_second, *peak_memory_bytes);
            }
            Event::Checkpoint { .. } if self.verbosity != Verbosity::Steps => {}
            // The lines around a run say these.
            Event::Sampled { .. } | Event::Interrupted { .. } | Event::Extended { .. } | Event::Finished { .. } => {}
            other => {
                if let Some(sentence) = sentence(other) {
                    self.say(&sentence);
                }
            }
        }
    }

    fn evaluating(&mut self, split: &str, done: usize, total: usize) {
        if let Some(screen) = &self.screen {
            return screen.evaluating(split, done, total);
        }
        if let Some(line) = &self.line {
            line.borrow_mut().show(self.step, self.total, &format!("steps · {split} {done}/{total} images"));
        }
    }
}
