//! Watching the memory of a command from outside.

use std::fs;
use std::process::{Command, Stdio};
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
    let mut peak = 0;
    let outcome = looked_at(command, at_most, PAUSE, |id| peak = peak.max(in_memory(id, "VmHWM:").unwrap_or(0)));
    (outcome, peak)
}

/// Runs a command to its end and returns how many bytes its process occupied, every `pause`.
///
/// # Panics
/// As [`watched`].
pub fn sizes_along(command: &mut Command, at_most: Duration, pause: Duration) -> (Outcome, Vec<u64>) {
    let mut sizes = Vec::new();
    let outcome = looked_at(command, at_most, pause, |id| sizes.extend(in_memory(id, "VmRSS:")));
    (outcome, sizes)
}

fn looked_at(command: &mut Command, at_most: Duration, pause: Duration, mut look: impl FnMut(u32) + Send) -> Outcome {
    let what = format!("{command:?}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap_or_else(|error| panic!("{what} cannot be started: {error}"));
    let (id, ended, began) = (child.id(), AtomicBool::new(false), Instant::now());
    let (output, late) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut late = false;
            while !ended.load(Ordering::Relaxed) {
                look(id);
                if began.elapsed() > at_most && !late {
                    late = true;
                    let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
                }
                std::thread::sleep(pause);
            }
            late
        });
        let output = child.wait_with_output();
        ended.store(true, Ordering::Relaxed);
        (output, looking.join().expect("the thread only looks"))
    });
    let outcome = Outcome::new(what.clone(), &output.unwrap_or_else(|error| panic!("{what}: {error}")));
    assert!(!late, "it had not ended after {at_most:?}\n{}", outcome.all());
    outcome
}

/// What the kernel tells of the memory of a process, in bytes.
fn in_memory(id: u32, what: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(what))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// The `--memory-budget` on the CPU that leaves room for so many counted bytes, in bytes: the process itself takes the rest, as
/// `docs/decisions/a-budget-is-of-the-process.md` says.
pub fn budget_with_room_for(counted: u64) -> u64 {
    counted / 8 * 9 + (68 << 20)
}
