//! What scripts may rely on stands in the help. Being here, this test also makes `cargo test --workspace` build the
//! command that the end-to-end tests run.
#![allow(clippy::unwrap_used)]

use std::process::Command;

fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kindling")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a line of a help text begins with this word.
fn lists(help: &str, word: &str) -> bool {
    help.lines().any(|line| line.split([' ', ',']).find(|part| !part.is_empty()) == Some(word))
}

#[test]
fn the_help_names_every_command() {
    let text = help(&["--help"]);
    for command in ["train", "eval", "predict", "models", "data", "devices"] {
        assert!(lists(&text, command), "{command} is not listed:\n{text}");
        assert!(help(&[command, "--help"]).contains(&format!("Usage: kindling {command}")), "{command}");
    }
}

#[test]
fn the_help_of_train_names_every_flag_that_scripts_rely_on() {
    let text = help(&["train", "--help"]);
    for flag in [
        "--data",
        "--model",
        "--image-size",
        "--batch-size",
        "--micro-batch",
        "--epochs",
        "--max-steps",
        "--lr",
        "--optimizer",
        "--seed",
        "--device",
        "--workers",
        "--out",
        "--resume",
        "--config",
    ] {
        assert!(lists(&text, flag), "{flag} is not listed:\n{text}");
    }
    assert!(text.contains("--quiet") && text.contains("-v, --verbose"), "{text}");
}

#[test]
fn the_version_is_the_workspaces() {
    assert_eq!(help(&["--version"]), format!("kindling {}\n", env!("CARGO_PKG_VERSION")));
}
