//! Whether two runs are the same run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{checkpoints, events, files_differ, json_of, kindling, step_numbers, steps, toml_value};

/// `kindling train --resume RUN`, without the text of panics that are part of the test.
pub fn resume(run: &Path) -> Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["train", "--quiet", "--resume"]).arg(run);
    command
}

/// Fails unless two runs went through the same steps and ended with the same bits: weights, running statistics, their
/// average, the optimizer's state, the position in the data, and the scores.
///
/// # Panics
/// If they did not.
pub fn assert_same_bits(run: &Path, other: &Path, when: &str) {
    // Float16 may leave an update out, in both runs alike.
    let left_out = |run: &Path| -> Vec<u64> {
        events(run)
            .iter()
            .filter(|event| event["event"] == "skipped")
            .filter_map(|event| event["step"].as_u64())
            .collect()
    };
    let mut all: Vec<u64> = steps(run).into_iter().chain(left_out(run)).collect();
    all.sort_unstable();
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>(), "{when}: every step once");
    assert_eq!((steps(other), left_out(other)), (steps(run), left_out(run)), "{when}: every step once");
    for key in ["loss", "lr", "gradient_norm"] {
        assert_eq!(step_numbers(other, key), step_numbers(run, key), "{when}: {key} of every step");
    }
    let differing = files_differ(run, other, &["weights.safetensors", "weights-last.safetensors"]);
    assert_eq!(differing, [""; 0], "{when}: weights");
    assert_eq!(json_of(&run.join("metrics.json"))["test"], json_of(&other.join("metrics.json"))["test"], "{when}");

    let last = |run: &Path| checkpoints(run).pop().unwrap_or_else(|| panic!("{when}: no checkpoint"));
    let (last, other_last) = (last(run), last(other));
    let mut files = vec!["weights.safetensors", "optimizer.safetensors"];
    if last.join("average.safetensors").is_file() {
        files.push("average.safetensors");
    }
    assert_eq!(files_differ(&last, &other_last, &files), [""; 0], "{when}: the last checkpoint");
    for key in ["step", "epoch", "batch", "evaluated", "images", "accuracy", "loss"] {
        let value = |folder: &Path| toml_value(&folder.join("state.toml"), key);
        assert_eq!(value(&last), value(&other_last), "{when}: {key}");
    }
    assert_eq!(counters(&last), counters(&other_last), "{when}: the optimizer's counters");
}

/// The lines below `[counters]` of a checkpoint's state.
fn counters(checkpoint: &Path) -> Vec<String> {
    let text = fs::read_to_string(checkpoint.join("state.toml")).expect("a checkpoint has a state");
    let lines = text.lines().skip_while(|line| *line != "[counters]").skip(1);
    let found: Vec<String> = lines.take_while(|line| !line.starts_with('[')).map(str::to_string).collect();
    assert!(!found.is_empty(), "{} counts nothing", checkpoint.display());
    found
}

/// The numbers of a safetensors file of float32 by name.
///
/// # Panics
/// If it is none.
pub fn numbers_of(path: &Path) -> BTreeMap<String, Vec<f32>> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().expect("8 bytes")) as usize;
    let (header, data) = rest.split_at(length);
    let Ok(Value::Object(header)) = serde_json::from_slice(header) else { panic!("{} has no header", path.display()) };
    let tensors = header.iter().filter(|(name, _)| *name != "__metadata__");
    let numbers = |entry: &Value| -> Vec<f32> {
        assert_eq!(entry["dtype"], "F32", "{}", path.display());
        let at = |index: usize| entry["data_offsets"][index].as_u64().expect("an offset") as usize;
        data[at(0)..at(1)].chunks(4).map(|four| f32::from_le_bytes(four.try_into().expect("4 bytes"))).collect()
    };
    tensors.map(|(name, entry)| (name.clone(), numbers(entry))).collect()
}

/// The largest difference between the numbers of two safetensors files, as a share of the largest number.
///
/// # Panics
/// If they do not hold tensors of the same names and sizes.
pub fn distance(a: &Path, b: &Path) -> f64 {
    let (a, b) = (numbers_of(a), numbers_of(b));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    let (mut largest, mut difference) = (0.0f64, 0.0f64);
    for (a, b) in a.values().zip(b.values()) {
        assert_eq!(a.len(), b.len());
        for (&a, &b) in a.iter().zip(b) {
            largest = largest.max(f64::from(a.abs()));
            difference = difference.max((f64::from(a) - f64::from(b)).abs());
        }
    }
    difference / largest
}
