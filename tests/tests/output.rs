//! A run goes on when whoever watches it goes away: a closed pipe, a full disk behind standard output, a closed terminal.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use kindling_tests::{Bench, Outcome, Started, assert_same_bits, checkpoints, kindling, resume, steps, train};

const FLAGS: &str = "--batch-size 4 --checkpoint-steps 2 --verbose";

fn train_in(bench: &Bench, name: &str) -> Command {
    train(bench.data(), &bench.path(name), &format!("{FLAGS} --epochs 1"))
}

/// A run that takes long enough for a signal to reach it before its end, on a busy machine too.
fn long_in(bench: &Bench, name: &str) -> Command {
    train(bench.data(), &bench.path(name), &format!("{FLAGS} --epochs 24"))
}

/// The exit code of the run `name` in a shell, with `"$@"` for its command.
fn in_shell(bench: &Bench, name: &str, script: &str) -> i32 {
    let train = train_in(bench, name);
    let mut shell = Command::new("bash");
    shell.args(["-c", script, "bash"]).arg(train.get_program()).args(train.get_args());
    shell.stdout(Stdio::null()).status().unwrap().code().unwrap()
}

/// The device that is always full.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_run_that_nobody_can_be_told_of_ends_as_one_that_is_watched() {
    let bench = Bench::new(12);
    Outcome::of(&mut train_in(&bench, "watched")).succeeded();
    let cases = [
        ("head", r#""$@" 2>&1 | head -n 1 >/dev/null; exit "${PIPESTATUS[0]}""#),
        ("nobody", r#""$@" 2>&1 | true; exit "${PIPESTATUS[0]}""#),
        ("full-error", r#""$@" 2>/dev/full"#),
        ("full", r#""$@" >/dev/full 2>&1"#),
        ("closed", r#""$@" >&- 2>&-"#),
    ];
    for (name, script) in cases {
        assert_eq!(in_shell(&bench, name, script), 0, "{name}");
        assert_same_bits(&bench.path("watched"), &bench.path(name), name);
    }
}

#[test]
fn a_terminal_that_is_closed_saves_the_run_and_nohup_keeps_it() {
    let bench = Bench::new(12);
    Outcome::of(&mut long_in(&bench, "straight")).succeeded();
    // A terminal sends it more than once.
    for (name, sent, times, code) in [("hup", "HUP", 3, 129), ("term", "TERM", 1, 143), ("int", "INT", 1, 130)] {
        // Whoever began the tests may have said `nohup` as well, which is inherited.
        let run = long_in(&bench, name);
        let mut heard = Command::new("env");
        heard.arg("--default-signal=HUP,TERM,INT").arg(run.get_program()).args(run.get_args());
        let mut started = Started::new(heard, &bench.path(name));
        started.until_step(1);
        let outcome = started.signal(sent, times);
        assert_eq!(outcome.code, Some(code), "{}", outcome.all());
        let done = steps(&bench.path(name)).len();
        let last = checkpoints(&bench.path(name)).pop().unwrap();
        assert!(last.ends_with(format!("step-{done:08}")), "{name}: the last step is saved");
        Outcome::of(&mut resume(&bench.path(name))).succeeded();
        assert_same_bits(&bench.path("straight"), &bench.path(name), name);
    }
    let run = long_in(&bench, "nohup");
    let mut nohup = Command::new("nohup");
    nohup.arg(run.get_program()).args(run.get_args());
    let mut started = Started::new(nohup, &bench.path("nohup"));
    started.until_step(1);
    let outcome = started.signal("HUP", 1);
    assert_eq!(outcome.code, Some(0), "{}", outcome.all());
}

#[test]
fn a_product_that_nobody_wants_ends_quietly_and_one_that_cannot_be_written_does_not() {
    for arguments in [&["models"][..], &["models", "show", "resnet18"], &["--help"], &["--version"], &["data", "list"]]
    {
        let mut command = kindling();
        command.args(arguments).stderr(Stdio::piped());
        let output = command.stdout(full()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains("No space left on device"), "{arguments:?}: {said}");

        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn an_error_that_nobody_can_read_still_ends_with_its_code() {
    let status = kindling().args(["train", "--data", "/no/such/folder"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_runs_own_files_are_no_place_to_export_to_and_a_finished_run_adds_nothing_to_its_log() {
    let bench = Bench::new(12);
    Outcome::of(&mut train_in(&bench, "run")).succeeded();
    let run = bench.path("run");
    let contents = |name: &str| fs::read(run.join(name)).unwrap();
    let (weights, log) = (contents("weights.safetensors"), contents("events.jsonl"));
    let export = |target: &Path| Outcome::of(kindling().arg("export").arg(&run).arg("--output").arg(target));
    for own in ["weights.safetensors", "weights-last.safetensors", "config.toml", "checkpoints/x", "samples/x"] {
        let sentence = export(&run.join(own)).refused();
        assert!(sentence.contains(own) && sentence.contains("belongs to the run"), "{sentence}");
    }
    assert_eq!(weights, contents("weights.safetensors"));
    export(&run.join("model.safetensors")).succeeded();
    for _ in 0..2 {
        let outcome = Outcome::of(&mut resume(&run)).succeeded();
        assert_eq!(outcome.result()["steps"], 6, "{}", outcome.all());
        assert_eq!(log, contents("events.jsonl"), "a finished run adds nothing to its log");
    }
}
