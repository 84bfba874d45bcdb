//! The same to the last bit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{checkpoints, events, json_of};

/// What of an event is the machine's, not the run's: the clock, and how much was computed at once.
const OF_THE_MACHINE: [&str; 6] =
    ["seconds", "waiting_seconds", "images_per_second", "micro_batch", "peak_memory_bytes", "together"];
/// The same of a checkpoint's position, and how long the log is, which has a line for every interruption.
const OF_THE_CLOCK: [&str; 5] = ["log_lines", "seconds", "waiting_seconds", "recoveries", "recovery_seconds"];
/// What a run found in its samples, and its scores: nothing in them depends on the clock.
const FOUND: [&str; 5] = ["predictions.csv", "cases.csv", "scores.json", "segmentation.json", "regression.json"];
/// Events of which there is one a step.
const STEPS: [&str; 3] = ["step", "iteration", "skipped"];

/// Whether two finished runs went through the same steps and ended with the same bits: all numbers of every step, weights,
/// running statistics, their average, the optimizers' states, the position in the data, what was predicted of each sample, the scores with
/// their intervals, and the pictures of a generator. Runs of `train` and of `gan train`.
///
/// # Errors
/// What differs first.
///
/// # Panics
/// If one of them has no log or no checkpoint.
pub fn same_bits(run: &Path, other: &Path) -> Result<(), String> {
    same_log(run, other)?;
    same_scores(run, other)?;
    same_files(run, other, |name| name.ends_with(".safetensors") || FOUND.contains(&name))?;
    same_files(&run.join("samples"), &other.join("samples"), |name| name.ends_with(".png"))?;
    let score = |run: &Path| json_of(&run.join("metrics.json"))["test"].clone();
    equal("the score of the test images", &score(run), &score(other))?;

    let last = |run: &Path| checkpoints(run).pop().unwrap_or_else(|| panic!("{} has no checkpoint", run.display()));
    let (last, other_last) = (last(run), last(other));
    // The state is compared below; what is left depends on the time: the sums of all and the last lines of the log.
    same_files(&last, &other_last, |name| name.ends_with(".safetensors"))?;
    equal("the state in the last checkpoint", &stated(&last), &stated(&other_last))
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, a: &T, b: &T) -> Result<(), String> {
    if a == b { Ok(()) } else { Err(format!("{what}: {a:?} and {b:?}")) }
}

/// Every step once, with the same numbers.
fn same_log(run: &Path, other: &Path) -> Result<(), String> {
    let steps = |run: &Path| -> Vec<Value> {
        let events = events(run).into_iter();
        events.filter(|event| STEPS.contains(&event["event"].as_str().unwrap_or_default())).map(of_the_run).collect()
    };
    let (mine, others) = (steps(run), steps(other));
    for (run, steps) in [(run, &mine), (other, &others)] {
        let numbers: Vec<u64> = steps.iter().filter_map(|event| event["step"].as_u64()).collect();
        let expected: Vec<u64> = (1..=steps.len() as u64).collect();
        equal(&format!("{} has every step once", run.display()), &numbers, &expected)?;
    }
    if mine.is_empty() {
        return Err(format!("{} has no steps", run.display()));
    }
    equal("the number of steps", &mine.len(), &others.len())?;
    mine.iter().zip(&others).try_for_each(|(mine, others)| equal("a step", mine, others))
}

fn of_the_run(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|name, _| !OF_THE_MACHINE.contains(&name.as_str()));
    }
    event
}

/// Whether two runs scored the same. A run that is resumed at the end of an epoch may score it again.
///
/// # Errors
/// What differs.
///
/// # Panics
/// If one of them has no log.
pub fn same_scores(run: &Path, other: &Path) -> Result<(), String> {
    let scores = |run: &Path| -> BTreeMap<(u64, String), Value> {
        let events = events(run).into_iter().filter(|event| event["event"] == "evaluated");
        let place = |event: &Value| (event["step"].as_u64().unwrap_or(0), event["split"].to_string());
        events.map(|event| (place(&event), of_the_run(event))).collect()
    };
    equal("scores", &scores(run), &scores(other))
}

/// The same names of files, and the same bytes in each.
fn same_files(a: &Path, b: &Path, which: impl Fn(&str) -> bool) -> Result<(), String> {
    let names = |folder: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| which(name)).collect()
    };
    equal(&format!("the files in {} and {}", a.display(), b.display()), &names(a), &names(b))?;
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    for name in names(a) {
        if read(&a.join(&name))? != read(&b.join(&name))? {
            return Err(format!("{} and {} are not equal", a.join(&name).display(), b.join(&name).display()));
        }
    }
    Ok(())
}

/// The lines of a checkpoint's state but the clock's and those about memory, each with its section.
fn stated(checkpoint: &Path) -> Vec<String> {
    let path = checkpoint.join("state.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut section, mut kept) = (String::new(), Vec::new());
    for line in text.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_string();
        } else if let Some((key, _)) = line.split_once(" = ")
            && !section.starts_with("policy")
            && !OF_THE_CLOCK.contains(&key)
        {
            kept.push(format!("{section}: {line}"));
        }
    }
    assert!(kept.len() > 10, "{} says little: {kept:?}", path.display());
    kept
}
