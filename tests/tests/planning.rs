//! What `kindling plan` predicts for the CPU is what `kindling train` takes, whatever of a run its memory depends on.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use kindling_tests::{CLASSES, Outcome, kindling, picture_folder, train};
use tempfile::tempdir;

/// What both commands are told; weights are most of the memory of this network at this size.
const SHAPE: &str = "--model resnet18 --batch-size 2 --ghost-batch-size 2";
/// As shares of what is taken. A prediction that is too low ends in a recovery, one that is too high in a slower plan.
const TOO_LOW: f64 = 0.02;
const TOO_HIGH: f64 = 0.05;

/// The peak of a run of some steps, in bytes.
fn taken(data: &Path, run: &Path, flags: &str, more: &[&str]) -> u64 {
    let fixed = "--micro-batch 2 --activation-checkpointing none --workers 1 --augment none --max-steps 3 --epochs 9";
    let mut command = train(data, run, "");
    command.args(SHAPE.split(' ')).args(fixed.split(' ')).args(flags.split_whitespace()).args(more);
    Outcome::of(&mut command).succeeded().result()["peak_memory_bytes"].as_u64().unwrap()
}

/// The predicted peak of the same step, in bytes.
fn predicted(flags: &str, precision: &str) -> u64 {
    let mut command = kindling();
    command.arg("plan").args(SHAPE.split(' ')).args(flags.split_whitespace());
    command.args(["--classes", &CLASSES.len().to_string()]);
    command.args("--image-size 32 --device cpu --workers 1 --memory 1TiB --format json".split(' '));
    let plan = Outcome::of(&mut command).succeeded().result();
    let row =
        plan["rows"].as_array().unwrap().iter().find(|row| row["precision"] == precision && row["recompute"] == "none");
    row.unwrap()["prediction"]["peak"].as_u64().unwrap()
}

#[test]
fn a_prediction_holds_for_optimizers_formats_frozen_weights_and_averages() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 8);
    let first = folder.path().join("first");
    let mut wrong = Vec::new();
    // Of the run and of the plan; the first run makes the weights that others start from.
    for (name, flags, precision, average) in [
        ("first", "--optimizer sgd", "f32", false),
        ("adamw", "--optimizer adamw", "f32", false),
        ("bf16", "--optimizer sgd", "bf16", true),
        ("frozen", "--freeze backbone", "f32", false),
        ("frozen-average", "--freeze backbone", "f32", true),
    ] {
        let weights = first.join("weights.safetensors");
        let mut more = vec!["--precision", precision];
        if flags.contains("freeze") {
            more.extend(["--weights", weights.to_str().unwrap()]);
        }
        if average {
            more.extend(["--ema", "0.9"]);
        }
        let taken = taken(&data, &folder.path().join(name), flags, &more);
        let predicted = predicted(&format!("{flags}{}", if average { " --ema" } else { "" }), precision);
        let error = predicted as f64 / taken as f64 - 1.0;
        eprintln!("{name}: took {taken}, predicted {predicted}, {:+.2} %", 100.0 * error);
        if !(-TOO_LOW..=TOO_HIGH).contains(&error) {
            wrong.push(format!("{name}: took {taken} bytes, {predicted} were predicted"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Where each process computes less, it holds fewer images, but what the exchange takes comes on top.
#[test]
fn a_plan_for_several_processes_counts_the_exchange_and_divides_by_ghost_batches() {
    let plan = |flags: &str| {
        let mut command = kindling();
        command.args("plan --device cpu --memory 8GiB --model resnet18 --image-size 32 --format json".split(' '));
        Outcome::of(command.env_remove("RUST_BACKTRACE").args(flags.split_whitespace()))
    };
    let peak = |flags: &str| {
        let plan = plan(flags).succeeded().result();
        let peak = plan["rows"][0]["prediction"]["peak"].as_u64().unwrap();
        (plan["processes"].as_u64().unwrap(), peak)
    };
    let (one, four) = (peak("--batch-size 32 --workers 0"), peak("--batch-size 32 --workers 0 --processes 4"));
    assert_eq!((one.0, four.0), (1, 4));
    assert!(one.1.abs_diff(four.1) > 1 << 20, "{one:?} {four:?}");
    let short = plan("--batch-size 8 --processes 2").refused();
    for words in ["1 group", "2 processes", "--batch-size 16", "--ghost-batch-size 4"] {
        assert!(short.contains(words), "`{words}` is not said: {short}");
    }
    assert!(plan("--processes 2").refused().contains("--batch-size"));
}
