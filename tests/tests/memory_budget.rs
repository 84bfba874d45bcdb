//! A memory budget is kept by the whole process, and what a plan says fits does.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kindling_tests::{Outcome, events, kindling, picture_folder, watched};
use tempfile::{TempDir, tempdir};

const MOST_SECONDS: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

fn data(folder: &TempDir) -> std::path::PathBuf {
    let data = folder.path().join("data");
    picture_folder(&data, 12);
    data
}

/// `kindling train` at a size of its own.
fn train_at(size: usize, data: &Path, run: &Path, flags: &str) -> Command {
    let mut command = kindling();
    command.arg("train").arg("--data").arg(data).arg("--out").arg(run);
    command.args(["--device", "cpu", "--workers", "1", "--augment", "none", "--epochs", "1", "--image-size"]);
    // With it, symbols that a failure reads would count.
    command.arg(size.to_string()).args(flags.split_whitespace()).env_remove("RUST_BACKTRACE");
    command
}

/// Weights, optimizer and copies of a checkpoint are most of this memory; the maps are small.
#[test]
fn a_run_keeps_its_budget_as_a_process_checkpoints_included_or_is_refused() {
    let folder = tempdir().unwrap();
    let data = data(&folder);
    let mut ran = 0;
    for (model, size, optimizer) in [
        ("efficientnet_b3", 64, "sgd"),
        ("resnet18", 64, "sgd"),
        ("mobilenet_v2", 128, "adamw"),
        ("mobilenet_v3_small", 224, "adamw"),
    ] {
        for budget in [170, 240, 330] {
            let run = folder.path().join(format!("{model}-{budget}"));
            let flags = format!(
                "--model {model} --batch-size 4 --norm-group 2 --optimizer {optimizer} --max-steps 2 --memory-budget {budget}MiB"
            );
            let (outcome, peak) = watched(&mut train_at(size, &data, &run, &flags), MOST_SECONDS);
            eprintln!("{model} in {budget} MiB: code {:?}, {} MiB", outcome.code, peak / MIB);
            assert!(peak <= budget * MIB * 105 / 100, "{model} took {} MiB of {budget}\n{}", peak / MIB, outcome.all());
            if outcome.code == Some(0) {
                ran += 1;
            } else {
                assert!(outcome.stderr.contains("what would fit into"), "{}", outcome.all());
                outcome.refused();
            }
        }
    }
    assert!(ran >= 6, "only {ran} of 12 ran: a budget that nothing fits into is kept by doing nothing");
}

/// What the planner predicts is what the run is allowed: a plan for a memory runs in that memory, without a recovery.
#[test]
fn a_plan_that_fits_runs() {
    let folder = tempdir().unwrap();
    let data = data(&folder);
    for model in ["mobilenet_v2", "efficientnet_b0"] {
        for memory in [200, 260] {
            let plan = folder.path().join(format!("{model}-{memory}.toml"));
            let mut command = kindling();
            command.args(["plan", "--model", model, "--image-size", "160", "--batch-size", "6", "--norm-group", "6"]);
            command.args(["--memory", &format!("{memory}MiB"), "--channels", "1", "--classes", "3", "--device", "cpu"]);
            let planned = Outcome::of(command.arg("--out").arg(&plan));
            if planned.code != Some(0) {
                assert!(planned.refused().contains("does not fit"));
                continue;
            }
            let run = folder.path().join(format!("{model}-{memory}"));
            let mut command = train_at(160, &data, &run, "--norm-group 6 --max-steps 2");
            let (outcome, peak) = watched(command.arg("--plan").arg(&plan), MOST_SECONDS);
            outcome.succeeded();
            assert!(peak <= memory * MIB * 105 / 100, "{model} took {} MiB of {memory}", peak / MIB);
            let recovered = events(&run).iter().filter(|event| event["event"] == "recovered").count();
            assert_eq!(recovered, 0, "{model} in {memory} MiB did not run as planned");
        }
    }
    assert!(folder.path().join("mobilenet_v2-260").is_dir(), "nothing fitted at all");
}

/// The numbers in a sentence, in their order.
fn numbers(sentence: &str) -> Vec<u64> {
    sentence.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[test]
fn the_sum_in_a_refusal_is_right() {
    let folder = tempdir().unwrap();
    let data = data(&folder);
    let flags =
        "--model mobilenet_v2 --batch-size 6 --norm-group 6 --recompute none --max-steps 1 --memory-budget 120MiB";
    let outcome = Outcome::of(&mut train_at(160, &data, &folder.path().join("run"), flags));
    let sentence = outcome.refused();
    let said = &sentence[sentence.find(" bytes more beside").map(|at| sentence[..at].rfind(' ').unwrap()).unwrap()..];
    match numbers(said)[..] {
        [asked, used, budget, process, ..] if said.contains("for the process itself") => {
            assert!(asked + used + process > budget && budget == 120 * MIB, "{said}");
        }
        [asked, resident, budget, ..] => assert!(asked + resident > budget && budget == 120 * MIB, "{said}"),
        _ => panic!("{said}"),
    }
}

#[test]
fn the_tightest_limit_of_the_system_is_named() {
    let told = |variable: Option<(&str, &str)>| {
        let mut command = kindling();
        command.args(["devices", "--json"]).envs(variable);
        let outcome = Outcome::of(&mut command).succeeded();
        let cpu: serde_json::Value = serde_json::from_str(outcome.stdout.lines().next().unwrap()).unwrap();
        cpu["about"].as_str().unwrap().to_string()
    };
    let about = told(Some(("SLURM_MEM_PER_NODE", "300")));
    assert!(about.contains("SLURM_MEM_PER_NODE") && about.contains("300 MiB") && about.contains("270 MiB"), "{about}");
    let about = told(None);
    assert!(!about.contains("SLURM"), "{about}");
}
