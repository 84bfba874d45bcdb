//! What is printed fits a terminal of 80 columns, and the progress line of a run fits any.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use kindling_tests::{Bench, Outcome, kindling, train};
use tempfile::tempdir;

fn widest(text: &str) -> (usize, &str) {
    text.lines().map(|line| (line.chars().count(), line)).max().unwrap_or_default()
}

fn assert_fits(what: &str, text: &str, columns: usize) {
    let (width, line) = widest(text);
    assert!(width <= columns, "{what} is {width} columns wide, not {columns}:\n{line}");
    assert!(!text.is_empty(), "{what} says nothing");
}

fn say(words: &str) -> String {
    Outcome::of(kindling().args(words.split_whitespace())).succeeded().stdout
}

#[test]
fn tables_fit_eighty_columns() {
    for words in [
        "models",
        "models show efficientnet_b0",
        "models show mobilenetv4_conv_large --layers",
        "models show dcgan_64 --layers",
        "models show unet-resnet18 --layers",
        "plan --model unet-resnet18 --memory 6GiB --device cpu",
        "plan --memory 6GiB --device cpu",
        "plan --model efficientnet_v2_l --memory 6GiB --device cuda --batch-size 64",
        "plan --all --memory 6GiB --device cuda",
        "devices",
        "data list",
        "data describe phantoms",
        "profile --image-size 32 --batch-size 2 --steps 1 --roofline",
    ] {
        assert_fits(words, &say(words), 80);
    }
}

#[test]
fn tables_of_a_benchmark_fit_eighty_columns() {
    let folder = tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let bench = |models: &str, out: &str| {
        let words = format!(
            "bench train infer --models {models} --device cpu --image-size 64 --batch-size 4 --ghost-batch-size 2 \
             --micro-batch 2 --windows 1 --window-seconds 0.01 --warmup 1 --no-isolate \
             --activation-checkpointing stages --out {out}"
        );
        assert_fits("bench", &say(&words), 80);
    };
    let (a, b) = (file("a.json"), file("b.json"));
    bench("tf_mobilenetv3_small_100", &a);
    bench("tf_mobilenetv3_small_100", &b);
    assert_fits("bench compare", &say(&format!("bench compare {a} {b}")), 80);
}

#[test]
fn classes_with_long_names_do_not_widen_a_table() {
    let bench = Bench::new(6);
    let name =
        "a_class_whose_name_is_longer_than_any_terminal_is_wide_which_nobody_should_have_to_read_but_some_do_have";
    std::fs::rename(bench.data().join("dark"), bench.data().join(name)).unwrap();
    let mut command = kindling();
    let text = Outcome::of(command.args(["data", "describe"]).arg(bench.data())).succeeded().stdout;
    let table = text.split_once("class ").unwrap().1;
    assert_fits("data describe", table, 80);
    let letters: String = table.split_whitespace().collect();
    assert!(letters.contains("a_class_whose") && letters.contains("some_do_have"), "{table}");
}

#[test]
fn help_breaks_no_word_in_a_terminal_or_behind_a_pipe() {
    for words in ["", "train", "plan", "bench", "bench data", "gan train", "data check", "predict", "export"] {
        for columns in [Some("60"), Some("80"), None] {
            let mut command = kindling();
            command.args(words.split_whitespace()).arg("--help").env_remove("COLUMNS");
            columns.map(|columns| command.env("COLUMNS", columns));
            let text = Outcome::of(&mut command).succeeded().stdout;
            // The usage is one line.
            let text: String =
                text.lines().filter(|line| !line.starts_with("Usage")).map(|line| format!("{line}\n")).collect();
            let room = columns.map_or(80, |columns| columns.parse().unwrap());
            assert_fits(&format!("{words} --help at {columns:?}"), &text, room);
        }
    }
}

/// The lines about steps that a run has told.
fn told(outcome: &Outcome) -> Vec<&str> {
    outcome.stderr.lines().filter(|line| line.starts_with("step ")).collect()
}

#[test]
fn the_time_left_is_told_once_it_is_known_and_again_after_a_resume() {
    let bench = Bench::new(12);
    let run = bench.path("run");
    let flags = "--batch-size 2 --verbose --checkpoint-steps 2 --epochs 1";
    let mut failing = train(bench.data(), &run, flags);
    failing.env_remove("RUST_BACKTRACE").env("KINDLING_FAULT", "error@step=6,phase=gate");
    let stopped = Outcome::of(&mut failing);
    stopped.refused();
    let resumed = Outcome::of(kindling().args(["train", "--verbose", "--resume"]).arg(&run)).succeeded();
    for outcome in [&stopped, &resumed] {
        let lines = told(outcome);
        assert!(lines.len() >= 4, "{}", outcome.all());
        // The first steps of a sitting warm up.
        assert!(lines[..2].iter().all(|line| !line.contains(" left")), "{lines:#?}");
        assert!(lines[2..].iter().all(|line| line.ends_with(" left")), "{lines:#?}");
    }
    assert!(told(&resumed).last().unwrap().ends_with("· 0 s left"), "{:#?}", told(&resumed));
}

/// A command as a shell takes it.
#[cfg(target_os = "linux")]
fn quoted(command: &Command) -> String {
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
    let words: Vec<String> = std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    words.join(" ")
}

/// What a shell's commands show on a terminal of their own, and their exit code.
#[cfg(target_os = "linux")]
fn on_a_terminal(script: &str) -> (Option<i32>, String) {
    let output = Command::new("script").args(["-qec", script, "/dev/null"]).output().expect("util-linux has `script`");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[cfg(target_os = "linux")]
fn a_dashboard_changes_no_bit_gives_the_terminal_back_and_lets_ctrl_c_through() {
    let bench = Bench::new(24);
    let flags = "--batch-size 4 --epochs 2 --checkpoint-steps 2";
    let (plain, shown) = (bench.path("plain"), bench.path("shown"));
    Outcome::of(&mut train(bench.data(), &plain, flags)).succeeded();
    let (enter, leave) = ("\x1b[?1049h", "\x1b[?1049l");
    let watched = |run: &std::path::Path| {
        let command = quoted(&train(bench.data(), run, &format!("{flags} --dashboard --resume-or-start")));
        format!("stty rows 30 cols 100; {command}")
    };
    let (code, text) = on_a_terminal(&watched(&shown));
    assert_eq!(code, Some(0), "{text}");
    assert_eq!((text.matches(enter).count(), text.matches(leave).count()), (1, 1), "{text:?}");
    let (before, after) = text.split_once(leave).unwrap();
    assert!(before.contains("mobilenet_v3_small"), "the picture names the model: {before:?}");
    assert!(after.contains("test accuracy") && after.contains("\"test_accuracy\""), "{after:?}");
    kindling_tests::assert_same_bits(&plain, &shown, "with a dashboard");

    // Ctrl-C reaches the run, which saves and says how it goes on once the terminal is everyone's again.
    let stopped = bench.path("stopped");
    let script = format!(
        "set -m; {} & run=$!; while ! grep -q '\"step\":3,' '{}/events.jsonl' 2>/dev/null; do sleep 0.02; done; \
         kill -INT $run; wait $run",
        watched(&stopped).replace("stty rows 30 cols 100; ", ""),
        stopped.display()
    );
    let (code, text) = on_a_terminal(&script);
    assert_eq!(code, Some(130), "{text}");
    let after = text.rsplit_once(leave).unwrap().1;
    assert!(after.contains("continue with"), "{after:?}");

    // Without a terminal there is nothing to draw on.
    let sentence = Outcome::of(train(bench.data(), &bench.path("none"), flags).arg("--dashboard")).refused();
    assert!(sentence.contains("--dashboard needs a terminal") && !bench.path("none").exists(), "{sentence}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_line_of_progress_is_never_wider_than_a_terminal_that_is_resized() {
    let bench = Bench::new(40);
    let words = quoted(&train(bench.data(), &bench.path("run"), "--batch-size 2 --epochs 4"));
    // A terminal of 120 columns, which becomes one of 40 while the run goes on.
    let script = format!(
        "stty rows 24 cols 120; {} & run=$!; while ! [ -s '{}/events.jsonl' ]; do sleep 0.05; done; sleep 0.5; \
         stty cols 40; echo; echo NARROW; wait $run",
        words,
        bench.path("run").display()
    );
    let (code, text) = on_a_terminal(&script);
    assert_eq!(code, Some(0), "{text}");
    let (wide, narrow) = text.split_once("NARROW").unwrap();
    // A picture of the line ends with the cursor at its beginning, a sentence on a line of its own.
    let pictures = |text: &str| -> Vec<usize> {
        let pictures = text.split("\r\x1b[J").skip(1).filter_map(|piece| piece.strip_suffix('\r'));
        pictures.filter(|picture| !picture.contains('\n')).map(|picture| picture.chars().count()).collect()
    };
    assert!(pictures(wide).iter().all(|width| *width < 120), "{wide:?}");
    let widths = pictures(narrow);
    // One picture may have been on its way.
    assert!(widths.len() > 2 && widths[1..].iter().all(|width| *width < 40), "{widths:?}\n{narrow:?}");
}
