//! `kindling bench`: rows, failed rows, comparison, repetition.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use kindling_tests::{Outcome, assert_says, budget_with_room_for, json_of, kindling, picture_folder, train};
use serde_json::{Value, json};
use tempfile::tempdir;

const MODEL: &str = "mobilenet_v3_small";
const QUICK: &str = "--device cpu --windows 3 --window-seconds 0.05 --warmup 1";

/// `kindling bench` at the smallest size; `flags` are separated by spaces.
fn bench(flags: &str) -> Outcome {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").arg("bench");
    Outcome::of(command.args(flags.split_whitespace()).args(QUICK.split_whitespace()))
}

/// The rows of a file.
fn rows(path: &Path) -> Vec<Value> {
    let file = json_of(path);
    assert_eq!(file["format"], "kindling-bench/1");
    file["rows"].as_array().unwrap().clone()
}

fn assert_ordered(quartiles: &Value, what: &str) {
    let numbers = ["q1", "median", "q3"].map(|name| quartiles[name].as_f64().unwrap());
    assert!(numbers.iter().all(|number| number.is_finite() && *number > 0.0), "{what}: {quartiles}");
    assert!(numbers[0] <= numbers[1] && numbers[1] <= numbers[2], "{what}: {quartiles}");
}

#[test]
fn rows_of_every_kind_have_finite_figures_with_ordered_quartiles_and_their_surroundings() {
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let files = ["rows.json", "rows.csv", "rows.md", "rows.html"].map(path);
    let [json, csv, markdown, html] = files.each_ref().map(|path| path.display().to_string());
    bench(&format!(
        "train infer forward backward --models {MODEL} --image-size 64 --batch-size 2 --precision f32,bf16 \
         --out {json} --csv {csv} --markdown {markdown} --html {html}"
    ))
    .succeeded();
    let rows = rows(&files[0]);
    assert_eq!(rows.len(), 8);
    for row in &rows {
        let what = row["configuration"].to_string();
        let measured = &row["measured"];
        assert_ordered(&measured["images_per_second"], &what);
        assert_ordered(&measured["step_seconds"], &what);
        let windows = measured["windows"].as_array().unwrap();
        assert_eq!(windows.len(), 3, "{what}");
        for window in windows {
            let images = window["images"].as_u64().unwrap();
            assert!(images > 0 && images % 2 == 0 && window["seconds"].as_f64().unwrap() >= 0.05, "{what}: {window}");
        }
        assert_eq!(measured["micro_batch"], 2, "{what}");
        // MobileNetV3-Small has 1.5 million weights, of 4 bytes.
        assert!(measured["memory"]["peak_in_use_bytes"].as_u64().unwrap() > 6_000_000, "{what}");
        assert_eq!(row["configuration_hash"].as_str().unwrap().len(), 16);
        assert_eq!(row["configuration"]["threads"], row["environment"]["threads"]);
        assert!(row["software"]["burn"].is_string() && row["environment"]["os"].is_string(), "{what}");
        assert!(row["conditions"]["autotune"].as_str().unwrap().contains("CPU"), "{what}");
        let trains = row["configuration"]["what"] == "train";
        assert_eq!(measured["loss"].as_f64().is_some_and(f64::is_finite), trains, "{what}");
    }
    let mut hashes: Vec<&str> = rows.iter().map(|row| row["configuration_hash"].as_str().unwrap()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 8, "every row is of another configuration");
    let text = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(&files[1]).lines().count(), 9);
    assert_eq!(text(&files[2]).lines().filter(|line| line.starts_with("| kindling")).count(), 8);
    assert_eq!(text(&files[3]).matches("class=\"bar\"").count(), 8);
}

#[test]
fn a_row_that_fails_is_a_row_with_its_reason_and_the_others_are_measured() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("rows.json");
    let outcome = bench(&format!("train --models {MODEL} --image-size 30,64 --batch-size 2 --out {}", out.display()));
    assert_eq!(outcome.code, Some(1), "{}", outcome.all());
    let rows = rows(&out);
    assert_eq!(rows[0]["failed"]["kind"], "error");
    assert!(rows[0]["failed"]["reason"].as_str().unwrap().contains("not 30"), "{}", rows[0]);
    assert_ordered(&rows[1]["measured"]["images_per_second"], "the second row");
}

#[test]
fn memory_that_is_not_enough_is_a_reason_and_memory_that_is_scarce_a_recovery() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("rows.json");
    let flags = format!(
        "train --models {MODEL} --image-size 384 --batch-size 4 --activation-checkpointing auto --no-isolate --out {}",
        out.display()
    );
    bench(&flags).succeeded();
    let peak = rows(&out)[0]["measured"]["memory"]["peak_in_use_bytes"].as_u64().unwrap();

    // What is not reserved takes some hundredths, so that a plan may still pass with a little less than its peak. Checkpointing
    // keeps two thirds: what the allocator holds back beside a small network would not fit in much less than this.
    bench(&format!("{flags} --memory-budget {}", budget_with_room_for(peak * 80 / 100))).succeeded();
    let measured = rows(&out)[0]["measured"].clone();
    assert!(measured["recoveries"].as_u64().unwrap() >= 1, "{measured}");
    assert!(measured["memory"]["peak_in_use_bytes"].as_u64().unwrap() < peak, "{measured}");

    assert_eq!(bench(&format!("{flags} --memory-budget 10MiB")).code, Some(1));
    assert_eq!(rows(&out)[0]["failed"]["kind"], "out-of-memory");
}

/// ResNet-50 for ten classes has 23.5 million weights, 90 MiB; its gradients and each of two moments take as much.
#[test]
fn a_row_that_cannot_fit_is_refused_by_the_planner_and_the_others_are_measured() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("rows.json");
    let of = |what: &str, budget: u64| {
        let models = format!("--models resnet50,{MODEL} --image-size 64 --batch-size 2");
        let budget = budget_with_room_for(budget << 20);
        let outcome = bench(&format!("{what} {models} --memory-budget {budget} --out {}", out.display()));
        assert_eq!(outcome.code, Some(1), "{}", outcome.all());
        let rows = rows(&out);
        assert_ordered(&rows[1]["measured"]["images_per_second"], what);
        rows[0]["failed"].clone()
    };
    for (what, budget, images) in [("train", 200, 2), ("infer", 80, 1)] {
        let failed = of(what, budget);
        assert_eq!(failed["kind"], "out-of-memory", "{what}: {failed}");
        let reason = failed["reason"].as_str().unwrap();
        assert_says(
            reason,
            &[
                &format!("even {images} images at once do not fit"),
                "by the planner their tensors take at least",
                "the memory budget of",
                "tried: nothing",
            ],
        );
    }
}

#[test]
fn a_row_that_takes_too_long_is_ended_and_named() {
    let folder = tempdir().unwrap();
    let out = folder.path().join("rows.json");
    let mut command = kindling();
    command.args(["bench", "train", "--models", MODEL, "--image-size", "64", "--batch-size", "2", "--device", "cpu"]);
    command.args(["--window-seconds", "600", "--row-timeout", "1", "--out"]).arg(&out);
    assert_eq!(Outcome::of(&mut command).code, Some(1));
    assert_eq!(rows(&out)[0]["failed"]["kind"], "timeout");
}

#[test]
fn compare_refuses_unlike_configurations_and_names_what_differs() {
    let folder = tempdir().unwrap();
    let file = |name: &str, flags: &str| {
        let path = folder.path().join(name);
        bench(&format!("infer --models {MODEL} --image-size 64 --batch-size 2 --out {} {flags}", path.display()))
            .succeeded();
        path
    };
    let a = file("a.json", "");
    let b = file("b.json", "");
    let other = file("other.json", "--precision bf16");
    let compare = |b: &Path, flags: &[&str]| {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE");
        Outcome::of(command.args(["bench", "compare", "--format", "json"]).arg(&a).arg(b).args(flags))
    };
    let found = compare(&b, &[]).succeeded().result();
    let pair = &found["pairs"][0];
    let median = |side: &str| pair[side]["median"].as_f64().unwrap();
    let ratio = pair["speed_ratio"].as_f64().unwrap();
    assert!((ratio - median("b_images_per_second") / median("a_images_per_second")).abs() < 1e-9);
    assert_eq!(pair["differences"], json!([]));

    let refusal = compare(&other, &[]).refused();
    assert!(refusal.contains("precision f32 against bf16"), "{refusal}");
    let page = folder.path().join("page.html");
    let forced = compare(&other, &["--force", "--html", page.to_str().unwrap()]).succeeded().result();
    assert_eq!(forced["pairs"][0]["differences"], json!(["precision f32 against bf16"]));
    assert!(std::fs::read_to_string(page).unwrap().contains("precision f32 against bf16"));
}

#[test]
fn what_is_no_benchmark_is_refused_with_its_path() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("notes.json");
    std::fs::write(&path, "{}").unwrap();
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["bench", "compare"]).arg(&path).arg(&path);
    assert!(Outcome::of(&mut command).refused().contains("notes.json"));
    for flags in ["--models no_such_model", "--windows 0", "--batch-size 0", "--threads 999 --no-isolate"] {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").args(["bench", "train", "--device", "cpu"]);
        let refusal = Outcome::of(command.args(flags.split_whitespace())).refused();
        assert!(!refusal.is_empty(), "{flags}");
    }
}

#[test]
fn a_replayed_row_has_the_configuration_of_the_first_and_a_run_can_be_replayed() {
    let folder = tempdir().unwrap();
    let (first, again) = (folder.path().join("first.json"), folder.path().join("again.json"));
    bench(&format!(
        "train --models {MODEL} --image-size 64 --batch-size 3 --ghost-batch-size 2 --seed 5 --threads 1 --out {}",
        first.display()
    ))
    .succeeded();
    let replay = |what: &Path| {
        bench(&format!("--replay {} --out {}", what.display(), again.display())).succeeded();
        rows(&again).remove(0)
    };
    let original = rows(&first).remove(0);
    // A row alone is a file as well.
    let alone = folder.path().join("row.json");
    std::fs::write(&alone, original.to_string()).unwrap();
    let repeated = replay(&alone);
    for key in ["configuration", "configuration_hash", "protocol"] {
        assert_eq!(repeated[key], original[key], "{key}");
    }
    assert_eq!(original["configuration"]["threads"], 1);

    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, 6);
    let flags = "--model mobilenet_v3_small --batch-size 4 --ghost-batch-size 2 --max-steps 1 --precision bf16 --quiet";
    Outcome::of(&mut train(&data, &run, flags)).succeeded();
    let configuration = replay(&run)["configuration"].clone();
    let expected = [
        ("model", json!(MODEL)),
        ("image_size", json!(32)),
        ("batch_size", json!(4)),
        ("norm_group", json!(2)),
        ("precision", json!("bf16")),
        ("device", json!("cpu")),
        ("what", json!("train")),
    ];
    for (key, value) in expected {
        assert_eq!(configuration[key], value, "{key}");
    }
}
