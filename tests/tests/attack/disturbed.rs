//! A process of a run, disturbed and watched.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::plan::End;

/// A process that has said nothing for so long hangs, on a machine that builds something else at the same time.
const PATIENCE: Duration = Duration::from_secs(300);

/// How a process ended.
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By the kill that was asked for.
    Killed,
}

/// Runs a command until it ends or is ended. What it says on standard error is returned as well.
///
/// # Errors
/// If it hangs, or dies by a signal that nobody sent.
pub(crate) fn run(command: &mut Command, end: &End, folder: &Path) -> Result<(Ended, String), String> {
    let said = folder.join("said");
    let file = File::create(&said).map_err(|error| format!("{}: {error}", said.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    if let End::Point(point) = end {
        command.env("KINDLING_KILL", point);
    }
    let mut child = command.spawn().map_err(|error| format!("{command:?} cannot be started: {error}"))?;
    let began = Instant::now();
    let mut sent = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if let End::After(milliseconds) = end
            && !sent
            && began.elapsed() >= Duration::from_millis(*milliseconds)
        {
            sent = true;
            let _ = child.kill();
        }
        if began.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{command:?} hangs"));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = fs::read_to_string(&said).map_err(|error| format!("{}: {error}", said.display()))?;
    match (status.code(), end) {
        (Some(code), _) => Ok((Ended::Code(code), text)),
        (None, End::Itself) => Err(format!("{command:?} died: {status}\n{text}")),
        (None, _) => Ok((Ended::Killed, text)),
    }
}
