//! Watching the memory of a command from outside.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Outcome;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Runs a command to its end and returns the most memory its process occupied, in bytes, to within a look: the kernel keeps
/// the peak, so only what comes in the last two milliseconds can be missed. 0 where the kernel does not tell.
///
/// # Panics
/// If it cannot be started, or has not ended after `at_most`: then it is killed.
pub fn watched(command: &mut Command, at_most: Duration) -> (Outcome, u64) {
    let what = format!("{command:?}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap_or_else(|error| panic!("{what} cannot be started: {error}"));
    let (id, ended, began) = (child.id(), Arc::new(AtomicBool::new(false)), Instant::now());
    let over = ended.clone();
    let looking = std::thread::spawn(move || {
        let (mut peak, mut late) = (0, false);
        while !over.load(Ordering::Relaxed) {
            peak = peak.max(peak_of(id).unwrap_or(0));
            if began.elapsed() > at_most && !late {
                late = true;
                let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
            }
            std::thread::sleep(PAUSE);
        }
        (peak, late)
    });
    let output = child.wait_with_output().unwrap_or_else(|error| panic!("{what}: {error}"));
    ended.store(true, Ordering::Relaxed);
    let (peak, late) = looking.join().expect("the thread only looks");
    let outcome = Outcome::new(what, &output);
    assert!(!late, "it had not ended after {at_most:?}\n{}", outcome.all());
    (outcome, peak)
}

fn peak_of(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The `--memory-budget` on the CPU that leaves room for so many counted bytes, in bytes: the process itself takes the rest, as
/// `docs/decisions/a-budget-is-of-the-process.md` says.
pub fn budget_with_room_for(counted: u64) -> u64 {
    counted / 8 * 9 + (68 << 20)
}
