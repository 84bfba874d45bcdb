//! A run from its start to its end, and what can be done with it then.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use kindling_tests::{
    CLASSES, Outcome, assert_same_bits, events, files_differ, json_of, kindling, losses, picture_folder, steps,
    toml_value, train,
};
use tempfile::tempdir;

const WEIGHTS: [&str; 2] = ["weights.safetensors", "weights-last.safetensors"];
/// Of 12 pictures a class 8 are trained on: 6 steps an epoch.
const EACH: usize = 12;
const BATCH: &str = "--batch-size 4";

#[test]
fn a_run_ends_with_its_files() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, EACH);
    Outcome::of(&mut train(&data, &run, "--batch-size 4 --epochs 2 --checkpoint-steps 4")).succeeded();

    let names = ["config.toml", "events.jsonl", "metrics.json", "environment.json", "report.html"];
    for name in names.iter().chain(&WEIGHTS) {
        assert!(fs::metadata(run.join(name)).is_ok_and(|meta| meta.len() > 0), "{name} is missing or empty");
    }
    let hidden =
        fs::read_dir(&run).unwrap().flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0, "something unfinished is left");
    assert_eq!(steps(&run), (1..=12).collect::<Vec<_>>());
    let kinds: Vec<String> = events(&run).iter().map(|event| event["event"].as_str().unwrap().to_string()).collect();
    let evaluations = kinds.iter().filter(|kind| *kind == "evaluated").count();
    assert_eq!((kinds.first().unwrap().as_str(), kinds.last().unwrap().as_str()), ("started", "finished"));
    assert_eq!(evaluations, 3, "after each epoch, and on the test images");

    for checkpoint in kindling_tests::checkpoints(&run) {
        for name in ["weights.safetensors", "optimizer.safetensors", "state.toml"] {
            assert!(checkpoint.join(name).is_file(), "{} has no {name}", checkpoint.display());
        }
    }
    let environment = json_of(&run.join("environment.json"));
    assert_eq!(
        environment["device"]["device"].as_str().or(environment["device"].as_str()),
        Some("cpu"),
        "{environment}"
    );
    let metrics = json_of(&run.join("metrics.json"));
    assert_eq!(metrics["classes"], serde_json::json!(CLASSES));
    assert_eq!((metrics["steps"].as_u64(), metrics["test"]["samples"].as_u64()), (Some(12), Some(6)));
}

#[test]
fn the_report_is_one_page_that_needs_nothing_else() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, EACH);
    Outcome::of(&mut train(&data, &run, "--batch-size 4 --epochs 1")).succeeded();
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    for part in ["<svg", "data:image/png;base64,", "striped", "mobilenet_v3_small", "</html>"] {
        assert!(page.contains(part), "the report has no `{part}`");
    }
    for outside in ["<script src", "<link", "src=\"http", "url(http", "@import"] {
        assert!(!page.contains(outside), "the report loads something: `{outside}`");
    }
}

#[test]
fn the_last_line_of_standard_output_is_one_json_object() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, EACH);
    let result = Outcome::of(&mut train(&data, &run, "--batch-size 4 --max-steps 3")).succeeded().result();
    assert_eq!(result["run"].as_str(), run.to_str());
    assert_eq!(result["steps"].as_u64(), Some(3));
    assert!(result["test_accuracy"].as_f64().is_some_and(|accuracy| (0.0..=1.0).contains(&accuracy)), "{result}");
    assert!(result["images_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
    // 1.5 million parameters with their two moments.
    assert!(result["peak_memory_bytes"].as_u64().is_some_and(|bytes| bytes > 18_000_000), "{result}");
    let metrics = json_of(&run.join("metrics.json"));
    assert_eq!(metrics["test"]["accuracy"], result["test_accuracy"]);
}

#[test]
fn a_quiet_run_says_nothing_but_its_result() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, EACH);
    let outcome = Outcome::of(&mut train(&data, &run, "--batch-size 4 --max-steps 2 --quiet")).succeeded();
    assert_eq!(outcome.stderr, "");
    assert_eq!(outcome.stdout.lines().count(), 1, "{}", outcome.stdout);
}

#[test]
fn a_verbose_run_says_every_step() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, EACH);
    let outcome = Outcome::of(&mut train(&data, &run, "--batch-size 4 --max-steps 4 -v")).succeeded();
    for step in 1..=4 {
        assert!(outcome.stderr.contains(&format!("step {step}/4 ")), "{}", outcome.stderr);
    }
}

#[test]
fn without_out_a_run_makes_its_own_folder_under_runs() {
    let folder = tempdir().unwrap();
    picture_folder(&folder.path().join("my scans"), EACH);
    let mut command = kindling();
    command.current_dir(folder.path()).args(["train", "--data", "my scans", "--device", "cpu"]);
    let result =
        Outcome::of(command.args(["--image-size", "32", "--batch-size", "4", "--max-steps", "1"])).succeeded().result();
    let run = result["run"].as_str().unwrap();
    assert!(run.starts_with("runs") && run.contains("mobilenet_v3_small-my-scans"), "{run}");
    assert!(folder.path().join(run).join("report.html").is_file());
}

#[test]
fn the_configuration_of_a_run_repeats_it_bit_for_bit() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let (first, again, flags_win) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
    picture_folder(&data, EACH);
    let flags =
        "--batch-size 4 --epochs 2 --lr 0.002 --seed 5 --label-smoothing 0.1 --class-weights 1,2,0.5 --clip-norm 2";
    Outcome::of(&mut train(&data, &first, flags)).succeeded();
    let repeat = |out: &Path| {
        let mut command = kindling();
        command.arg("train").arg("--config").arg(first.join("config.toml")).arg("--out").arg(out);
        command
    };
    Outcome::of(&mut repeat(&again)).succeeded();
    assert_same_bits(&first, &again, "the same configuration");

    Outcome::of(repeat(&flags_win).args(["--max-steps", "2"])).succeeded();
    assert_eq!(steps(&flags_win), [1, 2], "a flag beside --config wins");
    assert_eq!(toml_value(&flags_win.join("config.toml"), "seed"), "5");
}

#[test]
fn the_number_of_loader_threads_does_not_change_the_weights() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, EACH);
    let runs: Vec<_> = [1, 3]
        .map(|workers| {
            let run = folder.path().join(format!("workers-{workers}"));
            Outcome::of(&mut train(&data, &run, &format!("{BATCH} --epochs 2 --augment light --workers {workers}")))
                .succeeded();
            run
        })
        .into();
    assert_same_bits(&runs[0], &runs[1], "1 and 3 threads");
}

/// With several threads, groups of a step and images of an evaluation are computed at once.
#[test]
fn the_number_of_threads_that_compute_changes_no_bit() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, EACH);
    let flags = "--batch-size 8 --ghost-batch-size 3 --micro-batch 15 --epochs 2 --drop-path-rate 0.2 --seed 2";
    let run = |threads: &str| {
        let out = folder.path().join(threads);
        Outcome::of(train(&data, &out, flags).env("RAYON_NUM_THREADS", threads)).succeeded();
        let at_once = events(&out).into_iter().filter_map(|event| event["micro_batch"].as_u64()).max();
        (out, at_once)
    };
    let [(one, alone), (two, pairs), (five, all)] = ["1", "2", "5"].map(run);
    assert_eq!([alone, pairs, all], [Some(3), Some(6), Some(8)], "groups of 3, 3 and 2 samples");
    assert_same_bits(&one, &two, "1 and 2 threads");
    assert_same_bits(&one, &five, "1 and 5 threads");
}

#[test]
fn another_seed_gives_another_run() {
    let folder = tempdir().unwrap();
    // Split already, so that the seed does not choose the images.
    let data = folder.path().join("data");
    for split in ["train", "val", "test"] {
        picture_folder(&data.join(split), 4);
    }
    let runs: Vec<_> = [0, 1]
        .map(|seed| {
            let run = folder.path().join(format!("seed-{seed}"));
            Outcome::of(&mut train(&data, &run, &format!("{BATCH} --epochs 1 --seed {seed}"))).succeeded();
            run
        })
        .into();
    assert_eq!(files_differ(&runs[0], &runs[1], &WEIGHTS), WEIGHTS);
    assert_ne!(losses(&runs[0])[0], losses(&runs[1])[0], "even the initial weights differ");
}

#[test]
fn a_model_learns_what_can_be_told_apart() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    // 42 images to train on: three whole batches an epoch.
    picture_folder(&data, 20);
    let result = Outcome::of(&mut train(&data, &run, "--batch-size 14 --epochs 30 --lr 0.001")).succeeded().result();
    assert_eq!(result["chance"].as_f64(), Some(1.0 / 3.0));
    let accuracy = result["test_accuracy"].as_f64().unwrap();
    assert!(accuracy > 0.75, "{accuracy} of the test images are right, chance is a third");
    let losses = losses(&run);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[losses.len() - 9..]) < 0.3 * mean(&losses[..3]), "the loss does not fall: {losses:?}");
}

#[test]
fn the_micro_batch_changes_no_bit() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, EACH);
    let [whole, group] = ["8", "4"].map(|micro_batch| {
        let run = folder.path().join(micro_batch);
        let flags = format!("--batch-size 8 --ghost-batch-size 4 --max-steps 4 --micro-batch {micro_batch}");
        Outcome::of(&mut train(&data, &run, &flags)).succeeded();
        run
    });
    assert_same_bits(&whole, &group, "8 and 4 at once");
}

#[test]
fn both_optimizers_and_both_models_train() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, EACH);
    for (model, optimizer) in [("mobilenet_v2", "sgd"), ("mobilenetv3_small_100", "adamw")] {
        let run = folder.path().join(model);
        let flags = format!("{BATCH} --max-steps 3 --model {model} --optimizer {optimizer}");
        Outcome::of(&mut train(&data, &run, &flags)).succeeded();
        assert_eq!(losses(&run).len(), 3);
    }
    let alias = folder.path().join("mobilenetv3_small_100/config.toml");
    assert_eq!(toml_value(&alias, "name"), "\"mobilenetv3_small_100\"", "the name decides the details");
}
