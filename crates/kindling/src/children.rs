//! Runs that a command trains one after another, each in a process of its own, so that what one leaves in memory harms no other.

use std::ffi::OsStr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How often a run is looked at.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a run may take to save what it has done when it is asked to stop. What is lost after that are the steps since its last
/// checkpoint, and they are the same when it goes on.
const GRACE: Duration = Duration::from_secs(60);

/// Runs `kindling train` with these flags to its end, or as far as it comes until `stop` is set. Its result on standard output is not
/// shown; what it says meanwhile is.
///
/// # Errors
/// If no process can be started.
pub(crate) fn train(flags: impl IntoIterator<Item = impl AsRef<OsStr>>, stop: &AtomicBool) -> Result<ExitStatus> {
    let command = std::env::current_exe().context("finding this command to start it again")?;
    let mut command = Command::new(command);
    command.arg("train").args(flags).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().context("starting a run")?;
    let mut asked = None;
    loop {
        if let Some(status) = child.try_wait().context("waiting for a run")? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) {
            let since = asked.get_or_insert_with(|| {
                // Ctrl-C reaches the run as well. What else asks this process to stop may not.
                ask_to_stop(&child);
                Instant::now()
            });
            if since.elapsed() > GRACE {
                // It may have ended just now.
                let _ = child.kill();
            }
        }
        thread::sleep(PAUSE);
    }
}

/// Asks a run to save and to end. One that has had Ctrl-C already does nothing else for it.
fn ask_to_stop(child: &Child) {
    if cfg!(unix) {
        // Where there is no such program the run is ended after its time of grace.
        let _ = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).stderr(Stdio::null()).status();
    }
}
