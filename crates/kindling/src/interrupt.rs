//! Being asked to stop: Ctrl-C, SIGTERM, and SIGHUP, which a terminal sends that is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use anyhow::{Context, Result};

use crate::output::note;

/// SIGINT, by POSIX's number.
const CTRL_C: i32 = 2;

/// The signal that asked first; 0 if none did.
static ASKED_BY: AtomicI32 = AtomicI32::new(0);

/// Whether another process of the run answers to whoever asks.
static SAYS_NOTHING: AtomicBool = AtomicBool::new(false);

/// Leaves it to the first of several processes to say that it stops.
pub(crate) fn say_nothing() {
    SAYS_NOTHING.store(true, Ordering::Relaxed);
}

/// A flag that is set when a signal asks the process to stop. A second Ctrl-C or a second SIGTERM ends it at once; a second
/// SIGHUP does not, for a terminal that is closed sends it more than once.
///
/// Ending at once loses nothing but the steps since the last checkpoint: checkpoints are whole or not there. Under `nohup`
/// a closed terminal stays without effect.
///
/// # Errors
/// If signals cannot be caught.
pub(crate) fn flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let (seen, again) = (Arc::clone(&stop), AtomicBool::new(false));
    let ctrl_c = move || {
        if again.swap(true, Ordering::Relaxed) {
            kindling_dashboard::give_back();
            std::process::exit(i32::from(exit_code()));
        }
        ask(CTRL_C, &seen);
    };
    ctrlc::set_handler(ctrl_c).context("cannot catch Ctrl-C")?;
    #[cfg(unix)]
    unix::catch(&stop).context("cannot catch SIGTERM and SIGHUP")?;
    Ok(stop)
}

/// The exit code of a run that was asked to stop: 128 and the signal's number, as shells have it.
pub(crate) fn exit_code() -> u8 {
    let signal = match ASKED_BY.load(Ordering::Relaxed) {
        0 => CTRL_C,
        signal => signal,
    };
    128 + u8::try_from(signal).unwrap_or(0)
}

fn ask(signal: i32, stop: &AtomicBool) {
    let _ = ASKED_BY.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
    if !stop.swap(true, Ordering::Relaxed) && !SAYS_NOTHING.load(Ordering::Relaxed) {
        note!("\nfinishing the step and saving; press Ctrl-C again to stop at once");
    }
}

#[cfg(unix)]
mod unix {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::{fs, io, process, thread};

    use signal_hook::consts::{SIGHUP, SIGTERM};
    use signal_hook::iterator::Signals;

    pub(super) fn catch(stop: &Arc<AtomicBool>) -> io::Result<()> {
        let mut wanted = vec![SIGTERM];
        if !ignored(SIGHUP) {
            wanted.push(SIGHUP);
        }
        let mut signals = Signals::new(wanted)?;
        let stop = Arc::clone(stop);
        let wait = move || {
            let mut terminated = false;
            for signal in signals.forever() {
                if signal == SIGTERM && std::mem::replace(&mut terminated, true) {
                    kindling_dashboard::give_back();
                    process::exit(i32::from(super::exit_code()));
                }
                super::ask(signal, &stop);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(wait)?;
        Ok(())
    }

    /// Whether the process was started with a signal ignored, as `nohup` does. Where the kernel does not say, it was not.
    fn ignored(signal: i32) -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        mask >> (signal - 1) & 1 == 1
    }
}
