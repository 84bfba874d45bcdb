//! The whole process keeps within a memory budget, and what fits according to a plan does fit.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use kindling_tests::{CLASSES, Outcome, events, kindling, picture_folder, train, watched};
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
    // With a backtrace, the symbols that a failure reads would count.
    command.arg(size.to_string()).args(flags.split_whitespace()).env_remove("RUST_BACKTRACE");
    command
}

/// Pages of the command itself count as well, and the system brings in some of them ahead of time: between 28 and 32 MiB of it lay in
/// memory when the same small run was started again and again.
const CODE: u64 = 4 * MIB;

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
                "--model {model} --batch-size 4 --ghost-batch-size 2 --optimizer {optimizer} --max-steps 2 --memory-budget {budget}MiB"
            );
            let (outcome, peak) = watched(&mut train_at(size, &data, &run, &flags), MOST_SECONDS);
            eprintln!("{model} in {budget} MiB: code {:?}, {} MiB", outcome.code, peak / MIB);
            assert!(
                peak <= budget * MIB * 105 / 100 + CODE,
                "{model} took {} MiB of {budget}\n{}",
                peak / MIB,
                outcome.all()
            );
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
            command.args([
                "plan",
                "--model",
                model,
                "--image-size",
                "160",
                "--batch-size",
                "6",
                "--ghost-batch-size",
                "6",
            ]);
            command.args(["--memory", &format!("{memory}MiB"), "--channels", "1", "--classes", "3", "--device", "cpu"]);
            let planned = Outcome::of(command.arg("--out").arg(&plan));
            if planned.code != Some(0) {
                assert!(planned.refused().contains("does not fit"));
                continue;
            }
            let run = folder.path().join(format!("{model}-{memory}"));
            let mut command = train_at(160, &data, &run, "--ghost-batch-size 6 --max-steps 2");
            let (outcome, peak) = watched(command.arg("--plan").arg(&plan), MOST_SECONDS);
            outcome.succeeded();
            assert!(peak <= memory * MIB * 105 / 100, "{model} took {} MiB of {memory}", peak / MIB);
            let recovered = events(&run).iter().filter(|event| event["event"] == "recovered").count();
            assert_eq!(recovered, 0, "{model} in {memory} MiB did not run as planned");
        }
    }
    assert!(folder.path().join("mobilenet_v2-260").is_dir(), "nothing fitted at all");
}

/// The amounts in a sentence, in bytes, in their order.
fn amounts(sentence: &str) -> Vec<f64> {
    let words: Vec<&str> = sentence.split([' ', ',', ';', '(', ')']).collect();
    let amount = |pair: &[&str]| {
        let power = ["B", "KiB", "MiB", "GiB"].iter().position(|unit| *unit == pair[1])?;
        Some(pair[0].parse::<f64>().ok()? * 1024f64.powi(power as i32))
    };
    words.windows(2).filter_map(amount).collect()
}

#[test]
fn the_sum_in_a_refusal_is_right() {
    let folder = tempdir().unwrap();
    let data = data(&folder);
    let flags = "--model mobilenet_v2 --batch-size 6 --ghost-batch-size 6 --activation-checkpointing none --max-steps 1 --memory-budget 120MiB";
    let outcome = Outcome::of(&mut train_at(160, &data, &folder.path().join("run"), flags));
    let sentence = outcome.refused();
    let amount = sentence[..sentence.find(" more beside").unwrap()].rsplitn(3, ' ').last().unwrap();
    let said = &sentence[amount.len()..];
    let all = 120.0 * MIB as f64;
    // Amounts are rounded to three digits.
    let beyond = |sum: f64| sum > 0.98 * all;
    match amounts(said)[..] {
        [asked, used, budget, process, ..] if said.contains("for the process itself") => {
            assert!(beyond(asked + used + process) && budget == all, "{said}");
        }
        [asked, resident, budget, ..] => assert!(beyond(asked + resident) && budget == all, "{said}"),
        _ => panic!("{said}"),
    }
}

/// Networks are not built to find out whether they would fit, so printing the advice stays within the budget too.
#[test]
fn saying_what_would_fit_takes_no_memory_to_speak_of() {
    let folder = tempdir().unwrap();
    let flags = "--model resnet18 --batch-size 8 --max-steps 1 --memory-budget 128MiB";
    let (outcome, peak) = watched(&mut train_at(224, &data(&folder), &folder.path().join("run"), flags), MOST_SECONDS);
    assert!(outcome.stderr.contains("what would fit into"), "{}", outcome.all());
    assert!(peak <= 150 * MIB, "it took {} MiB\n{}", peak / MIB, outcome.all());
}

/// Decoded, one of these takes 57 MiB at its fullest: with a budget they are decoded one after the other, whatever the number
/// of threads.
#[test]
fn fewer_images_are_decoded_at_once_where_memory_is_tight() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("large");
    for class in CLASSES {
        fs::create_dir_all(data.join(class)).unwrap();
        for index in 0..4 {
            let picture = image::GrayImage::from_fn(3000, 4000, |x, y| image::Luma([(x ^ y ^ index) as u8]));
            picture.save(data.join(class).join(format!("{index}.png"))).unwrap();
        }
    }
    let run = |workers: usize, budget: &str| {
        let run = folder.path().join(format!("run{workers}{budget}"));
        let mut command = train(&data, &run, "--model mobilenet_v3_small --batch-size 4 --max-steps 2 --augment none");
        command.args(["--workers", &workers.to_string(), "--memory-budget", budget]).env_remove("RUST_BACKTRACE");
        let (outcome, peak) = watched(&mut command, MOST_SECONDS);
        outcome.succeeded();
        (fs::read(run.join("weights.safetensors")).unwrap(), peak)
    };
    let (straight, _) = run(1, "4GiB");
    let (tight, peak) = run(4, "230MiB");
    assert!(straight == tight, "what is decoded at once changed the result");
    assert!(peak <= 230 * MIB * 105 / 100, "it took {} MiB", peak / MIB);
}

#[test]
fn the_tightest_limit_of_the_system_is_found_and_kept_without_a_budget() {
    let folder = tempdir().unwrap();
    let data = data(&folder);
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

    let flags = "--model mobilenet_v2 --batch-size 8 --max-steps 1";
    let mut command = train_at(224, &data, &folder.path().join("slurm"), flags);
    let (outcome, peak) = watched(command.env("SLURM_MEM_PER_NODE", "300"), MOST_SECONDS);
    assert!(peak <= 300 * MIB, "it took {} MiB of 300\n{}", peak / MIB, outcome.all());
    outcome.succeeded();
}

/// `ulimit -v` lets allocations fail: reserved ones are steps that ran out of memory, others end with a sentence.
#[test]
fn a_limit_of_addresses_ends_with_a_sentence_and_never_with_a_signal() {
    let folder = tempdir().unwrap();
    let data = data(&folder);
    let mut sentences = 0;
    // In kilobytes; the run takes about a million.
    for limit in [250_000, 500_000, 700_000] {
        let run = folder.path().join(limit.to_string());
        let inner = train_at(
            224,
            &data,
            &run,
            "--model efficientnet_b0 --batch-size 12 --ghost-batch-size 12 --activation-checkpointing none --max-steps 1",
        );
        let mut words =
            vec![format!("ulimit -v {limit}; exec \"$0\" \"$@\""), inner.get_program().to_str().unwrap().to_string()];
        words.extend(inner.get_args().map(|word| word.to_str().unwrap().to_string()));
        let mut command = Command::new("sh");
        command.arg("-c").args(words).env_remove("RUST_BACKTRACE");
        let (outcome, _) = watched(&mut command, MOST_SECONDS);
        assert!(matches!(outcome.code, Some(0 | 1)), "{}", outcome.all());
        if outcome.code == Some(1) {
            assert_eq!(outcome.stderr.matches("error: ").count(), 1, "{}", outcome.all());
            sentences += 1;
        }
    }
    assert!(sentences > 0, "nothing was short");
}
