//! Going on in a new process when the device was lost: what a fault has broken is given back with the process that made it,
//! and not before.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use kindling_trainer::{Faults, TrainError};

use super::Args;
use crate::Done;
use crate::output::note;

/// Continues `run` in a new process if `error` is the loss of the device after the run began, and restarts are left; this
/// process then becomes the new one. Otherwise the error remains.
pub(super) fn after(error: anyhow::Error, args: &Args, run: &Path, faults: &Faults) -> Result<Done> {
    let is_lost = match error.downcast_ref::<TrainError>() {
        Some(TrainError::DeviceLost { step, saved, .. }) => step.is_some() || saved.is_some(),
        _ => false,
    };
    let Some(left) = args.restart_on_device_loss.checked_sub(1).filter(|_| is_lost) else { return Err(error) };
    if !args.telling.quiet {
        note!("{error:#}; going on in a new process, {left} more may follow");
    }
    let mut command = Command::new(std::env::current_exe().context("this command cannot be found again")?);
    command.args(arguments(args, run, left)).env("KINDLING_FAULT", faults.remaining());
    become_it(command).context(format!("{error:#}; and a new process could not be started"))
}

/// The command line that continues the run. What the run itself was told is in its configuration.
fn arguments(args: &Args, run: &Path, left: u64) -> Vec<OsString> {
    let mut line: Vec<OsString> = match args.resume.is_some() || args.folder.resume_or_start {
        // What a resumed run was told for this time stands on its command line alone.
        true => std::env::args_os().skip(1).collect(),
        false => {
            let mut line: Vec<OsString> = vec!["train".into(), "--resume".into(), run.into()];
            line.extend(args.telling.quiet.then(|| "--quiet".into()));
            line.extend(args.verbose.then(|| "--verbose".into()));
            line.extend(args.telling.dashboard.then(|| "--dashboard".into()));
            line.extend(args.telling.track.iter().map(|target| format!("--track={target}").into()));
            line
        }
    };
    line.extend(["--restart-on-device-loss".into(), left.to_string().into()]);
    line
}

/// Replaces this process, so that its number, its exit code and its signals are the new one's.
#[cfg(unix)]
fn become_it(mut command: Command) -> Result<Done> {
    use std::os::unix::process::CommandExt;
    Err(command.exec().into())
}

/// Waits for the new process and ends as it does.
#[cfg(not(unix))]
fn become_it(mut command: Command) -> Result<Done> {
    let status = command.status()?;
    std::process::exit(status.code().unwrap_or(1))
}
