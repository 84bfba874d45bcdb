//! What a run that goes on, or has ended, says and writes down: a run of one network or of two.

use anyhow::{Error, Result, anyhow, bail};
use kindling_runs::{Environment, Event, EventLog, How, RunDir, RunError, Sitting};
use kindling_trainer::{Length, TrainError};
use serde::Serialize;

use crate::Done;
use crate::output::{self, note};

/// How a run goes on.
pub(crate) struct Resumption<C> {
    /// Resumed or extended.
    pub(crate) how: How,
    /// What is said for this time.
    pub(crate) changed: Vec<(String, String)>,
    /// The configuration, where it is another from now on: the run is longer, or its data elsewhere.
    pub(crate) rewritten: Option<C>,
}

impl<C: Serialize> Resumption<C> {
    /// Writes down that a run goes on from a step, or what has changed of one that has ended, and returns what it began on.
    pub(crate) fn note(self, run: &RunDir, now: &Environment, step: u64, goes_on: bool) -> Result<Environment> {
        if let Some(config) = &self.rewritten {
            run.write_config(config)?;
        }
        if goes_on || self.rewritten.is_some() {
            note_sitting(run, now, step, self.how, self.changed)?;
        }
        began_on(run, now)
    }
}

/// Whether the last event of a run is its end, and its report is there.
pub(crate) fn has_ended(run: &RunDir) -> bool {
    let last = EventLog::read(&run.events()).ok().and_then(|mut events| events.pop());
    matches!(last, Some(Event::Finished { .. })) && run.report().is_file()
}

/// Says that a run is finished, and its result once more.
pub(crate) fn nothing_left(run: &RunDir, quiet: bool, result: serde_json::Value) -> Done {
    if !quiet {
        note!("{} is finished; nothing is changed", run.path().display());
    }
    output::result(result);
    Done::Complete
}

/// Adds to a run's history that it is worked on from a step on.
pub(crate) fn note_sitting(
    run: &RunDir,
    now: &Environment,
    from_step: u64,
    how: How,
    changed: Vec<(String, String)>,
) -> Result<()> {
    Ok(run.add_to_history(Sitting { how, from_step, changed, environment: now.clone() })?)
}

/// What a run that goes on began on. One that was killed in its first moments may not have written it down.
fn began_on(run: &RunDir, now: &Environment) -> Result<Environment> {
    if !run.environment().is_file() {
        run.write_environment(now)?;
    }
    Ok(run.read_environment()?)
}

/// Fails unless a run was made longer.
pub(super) fn check_longer(length: &Length) -> Result<()> {
    match length.before() {
        Some(before) if length.total() <= before => bail!(
            "--extend-to gives the run {} steps, and it was to have {before} already; give more epochs",
            length.total()
        ),
        _ => Ok(()),
    }
}

/// The command that continues a run of `kindling train` or `kindling gan train`.
pub(crate) fn how_to_go_on(subcommand: &str, run: &RunDir) -> String {
    format!("kindling {subcommand} --resume {}", run.path().display())
}

/// The error, and how to go on where a full disk is all that stopped the run.
pub(crate) fn with_advice(error: Error, go_on: &str) -> Error {
    let full =
        matches!(error.downcast_ref(), Some(TrainError::Run(RunError::DiskFull { .. }) | TrainError::Save { .. }))
            || matches!(error.downcast_ref(), Some(RunError::DiskFull { .. }));
    if full { anyhow!("{error:#}; then continue with: {go_on}") } else { error }
}
