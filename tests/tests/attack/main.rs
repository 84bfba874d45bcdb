//! An attack on the promises: random networks, precisions and optimizers, trained through random failures, kills and
//! lacks of memory. Each must end as the same run does that nothing disturbed. `docs/attack.md` says how to run it, what
//! it found and how long it ran.

mod case;
mod disturbed;
mod plan;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kindling_tests::is_nightly;
use libtest_mimic::{Arguments, Failed, Trial};

use case::{Counts, attack};
use plan::{Case, models};

/// Seconds it goes on starting cases, where nothing else is said.
const SECONDS: u64 = 60;
const NIGHTLY_SECONDS: u64 = 1800;
/// The first seed of a short attack, which is the same every time so that a change is judged by itself; a long one draws its own.
const FIRST_SEED: u64 = 1;
/// Cases with something wrong added, all of which must be found.
const WRONG_CASES: u64 = 6;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("runs_end_the_same_whatever_is_done_to_them", undisturbed_or_not),
        Trial::test("the_attack_finds_a_run_with_something_wrong", the_attack_finds_what_is_wrong),
    ];
    // One after the other: each takes all cores by itself.
    let one_at_a_time = Arguments { test_threads: Some(1), ..arguments };
    libtest_mimic::run(&one_at_a_time, trials).exit_code()
}

/// How a run ends that nothing disturbed and whose numbers grew beyond their format.
const DIVERGED: &str = "undisturbed, it ends with error: step";

fn number(name: &str) -> Result<Option<u64>, String> {
    match std::env::var(name) {
        Ok(text) => text.parse().map(Some).map_err(|_| format!("{name} is `{text}`, which is no whole number")),
        Err(_) => Ok(None),
    }
}

/// How a case is done again.
fn again(seed: u64) -> String {
    format!("KINDLING_ATTACK_SEED={seed} cargo test --release --locked -p kindling-tests --test attack -- runs_end")
}

fn undisturbed_or_not() -> Result<(), Failed> {
    let models = models();
    let (seconds, first) = match number("KINDLING_ATTACK_SEED")? {
        Some(seed) => (0, seed),
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let (usual, first) = if is_nightly() { (NIGHTLY_SECONDS, now * 1000) } else { (SECONDS, FIRST_SEED) };
            (number("KINDLING_ATTACK_SECONDS")?.unwrap_or(usual), first)
        }
    };
    let began = Instant::now();
    let (next, counts, failures) = (AtomicU64::new(first), Mutex::new(Counts::default()), Mutex::new(Vec::new()));
    let diverged = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > first && began.elapsed() >= Duration::from_secs(seconds) {
                return;
            }
            let case = Case::new(seed, &models);
            match attack(&case, None) {
                Ok(found) => {
                    println!("{seed}: {found}; {case}");
                    if let Ok(mut counts) = counts.lock() {
                        *counts += found;
                    }
                }
                // Two samples of one pixel a normalisation group, as small images have at the end of a network, can make gradients
                // of 1e10 and more. A run that ends so by itself promises nothing else.
                Err(reason) if reason.contains(DIVERGED) => {
                    println!("{seed}: not compared, {reason}\n  {case}");
                    diverged.fetch_add(1, Ordering::Relaxed);
                }
                Err(reason) => {
                    println!("{seed}: FAILED: {reason}\n  {case}\n  again: {}", again(seed));
                    if let Ok(mut failures) = failures.lock() {
                        failures.push(seed);
                    }
                }
            }
        }
    };
    // A run is mostly one thread's work, and small.
    let workers = if seconds == 0 { 1 } else { std::thread::available_parallelism().map_or(1, |cores| cores.get()) };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let counts = counts.into_inner().map_err(|error| error.to_string())?;
    let (cases, diverged) = (next.into_inner() - first, diverged.into_inner());
    let seconds = began.elapsed().as_secs();
    println!("{seconds} s, seeds from {first}: {counts}; {diverged} cases diverge by themselves");
    if diverged * 4 > cases.max(4) {
        return Err(format!("{diverged} of {cases} cases diverge by themselves, so that little is compared").into());
    }
    match failures.into_inner().map_err(|error| error.to_string())?.as_slice() {
        [] => Ok(()),
        failed => {
            let commands: Vec<String> = failed.iter().map(|seed| again(*seed)).collect();
            Err(format!("{} cases failed; again with\n{}", failed.len(), commands.join("\n")).into())
        }
    }
}

/// An attack that finds nothing has to be one that would.
fn the_attack_finds_what_is_wrong() -> Result<(), Failed> {
    let models = models();
    let wrong = ["scale=0.5", "rate=0.5", "doubled=0", "stale=network", "stale=statistics", "stale=optimizer"];
    for (seed, wrong) in (0..WRONG_CASES).zip(wrong) {
        let mut cases = (seed..).map(|seed| Case::new(seed, &models));
        // Without momentum SGD has no state that could be stale.
        let Some(case) = cases.find(|case| !case.to_string().contains("--momentum 0")) else { continue };
        match attack(&case, Some(wrong)) {
            Err(found) => println!("{wrong}: found: {}", found.lines().next().unwrap_or_default()),
            Ok(_) => {
                return Err(format!("in case {seed} nobody sees that in every step {wrong} is wrong\n  {case}").into());
            }
        }
    }
    Ok(())
}
