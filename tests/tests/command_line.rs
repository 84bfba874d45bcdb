//! The command line says the same thing in the same way everywhere: `--out`, `--format json`, a default model, sizes with
//! units; and what was said otherwise before is still understood.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use kindling_tests::{Bench, Outcome, assert_says, json_of, kindling, train};
use serde_json::Value;
use tempfile::tempdir;

fn outcome(words: &str) -> Outcome {
    Outcome::of(kindling().env_remove("RUST_BACKTRACE").args(words.split_whitespace()))
}

fn objects(outcome: &Outcome) -> Vec<Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether a file is ONNX, whose first field is the version of its format, or safetensors, whose header is JSON.
fn is_onnx(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap();
    let is_safetensors = bytes[8] == b'{';
    assert!(is_safetensors || bytes[0] == 0x08, "{} is neither", path.display());
    !is_safetensors
}

#[test]
fn the_ending_of_a_file_says_what_is_exported() {
    let bench = Bench::new(12);
    let run = bench.path("run");
    Outcome::of(&mut train(bench.data(), &run, "--batch-size 8 --max-steps 1")).succeeded();
    let export = |words: &str, name: &str| {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").arg("export").arg(&run);
        Outcome::of(command.args(words.split_whitespace()).arg(bench.path(name)))
    };
    for (words, name, onnx) in [
        ("--out", "a.onnx", true),
        ("--out", "a.ONNX", true),
        ("--out", "a.safetensors", false),
        ("--out", "a.bin", false),
        ("--format onnx --out", "b.bin", true),
        // As it was called before.
        ("--format onnx --output", "c.onnx", true),
        ("--output", "d.safetensors", false),
    ] {
        export(words, name).succeeded();
        assert_eq!(is_onnx(&bench.path(name)), onnx, "{words} {name}");
    }
    let sentence = export("--format safetensors --out", "e.onnx").refused();
    assert_says(&sentence, &["e.onnx", "--format"]);
    assert!(!bench.path("e.onnx").exists());
}

#[test]
fn every_command_that_prints_a_table_prints_json_too() {
    let names: Vec<Value> = objects(&outcome("data list --format json").succeeded());
    assert!(names.iter().any(|set| set["name"] == "phantoms" && set["needs"].is_string()), "{names:?}");
    let devices = objects(&outcome("devices --format json").succeeded());
    assert_eq!(devices, objects(&outcome("devices --json").succeeded()), "the earlier name");
    assert_eq!(devices[0]["device"], "cpu");
    let described = outcome("data describe phantoms --format json").succeeded().result();
    assert_eq!(described, outcome("data describe phantoms --json").succeeded().result(), "the earlier name");
    for command in
        ["models show mobilenet_v2", "plan --memory 4GiB", "plan --all --memory 4GiB --image-size 64", "models"]
    {
        assert!(!objects(&outcome(&format!("{command} --format json")).succeeded()).is_empty(), "{command}");
    }
}

#[test]
fn a_folder_of_shards_is_what_comes_out_of_packing() {
    let bench = Bench::new(4);
    for (flag, name) in [("--out", "new"), ("--shards", "earlier")] {
        let mut command = kindling();
        command.args(["data", "pack"]).arg(bench.data()).arg(flag).arg(bench.path(name));
        assert_eq!(Outcome::of(&mut command).succeeded().result()["samples"], 12);
        assert!(bench.path(name).join("train-000000.tar").is_file());
    }
}

#[test]
fn where_no_model_is_named_the_default_is_meant() {
    let plan = outcome("plan --memory 4GiB --device cpu --format json").succeeded().result();
    assert_eq!(plan["model"], "mobilenet_v3_small");
    let profile = outcome("profile --image-size 32 --batch-size 2 --steps 1 --format json").succeeded().result();
    assert_eq!(profile["model"], "mobilenet_v3_small");
}

#[test]
fn a_plan_without_flags_is_for_this_machine() {
    let outcome =
        Outcome::of(kindling().args(["plan", "--format", "json"]).env("CUDA_VISIBLE_DEVICES", "")).succeeded();
    let plan = outcome.result();
    assert_eq!(plan["device"], "cpu");
    // What a run uses unless it is told otherwise, which `devices` names.
    let memory = plan["memory"].as_u64().unwrap();
    assert!(memory > 64 << 20, "{memory}");
    assert!(outcome.stderr.contains("--memory"), "{}", outcome.stderr);
    // The memory of a GPU that is not there has to be given.
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["plan", "--device", "cuda"]).env("CUDA_VISIBLE_DEVICES", "");
    assert_says(&Outcome::of(&mut command).refused(), &["cuda:0", "--memory 8GiB"]);
}

#[test]
fn an_amount_of_memory_needs_a_unit() {
    for amount in ["8", "8000", "1.5"] {
        assert_says(&outcome(&format!("plan --memory {amount}")).refused(), &[amount, "8GiB"]);
    }
    assert_says(&outcome("train --memory-budget 8").refused(), &["`8`", "8GiB"]);
    // What configurations hold.
    assert_eq!(outcome("plan --memory 8589934592 --format json").succeeded().result()["memory"], 8_589_934_592u64);
}

#[test]
fn a_benchmark_takes_a_share_of_the_memory() {
    let folder = tempdir().unwrap();
    let rows = folder.path().join("rows.json");
    let words = "bench --device cpu --image-size 32 --batch-size 2 --windows 1 --window-seconds 0.01 --warmup 1 \
                 --memory-budget 50% --out";
    let mut command = kindling();
    Outcome::of(command.args(words.split_whitespace()).arg(&rows)).succeeded();
    let row = &json_of(&rows)["rows"][0];
    let budget = row["configuration"]["memory_budget"].as_u64().unwrap();
    let all = plan_memory();
    // A run uses nine tenths of the system's limit.
    assert!((budget as f64 / (all as f64 / 0.9) - 0.5).abs() < 0.01, "{budget} of {all}");
}

/// What a run may use here.
fn plan_memory() -> u64 {
    outcome("plan --device cpu --format json").succeeded().result()["memory"].as_u64().unwrap()
}

#[test]
fn the_columns_of_a_plan_are_explained() {
    let all = outcome("plan --all --memory 4GiB --device cpu --image-size 64").succeeded().stdout;
    for word in ["all kept: ", "by stage, by block: ", "cost: ", "GMAC: "] {
        assert!(all.contains(word), "{word} is not explained:\n{all}");
    }
    let one = outcome("plan --memory 4GiB --device cpu").succeeded().stdout;
    assert!(one.contains("images: ") && one.contains("cost: ") && one.contains("rest of "), "{one}");
}

#[test]
fn models_are_marked_where_there_are_weights_and_gans_stand_apart() {
    let listed = objects(&outcome("models --format json").succeeded());
    let table = outcome("models").succeeded().stdout;
    let (classifiers, gans) = table.split_once("\nGAN").unwrap();
    for model in &listed {
        let name = model["name"].as_str().unwrap();
        let place = if model["family"] == "GAN" { gans } else { classifiers };
        let line = place.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap_or_else(|| {
            panic!("{name} is not where it belongs:\n{table}");
        });
        let known = !model["pretrained"].as_array().unwrap().is_empty();
        assert_eq!(line.split_whitespace().nth(3) == Some("yes"), known, "{line}");
    }
}
