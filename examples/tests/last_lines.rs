//! Every example runs to its end, and its last line says that it did what it shows.

use std::process::Command;

/// What a program prints, which it runs to its end in a folder of its own.
fn printed_by(program: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(program).current_dir(folder.path()).output().expect("an example can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

fn last(lines: &[String]) -> &str {
    lines.last().map(String::as_str).unwrap_or_default()
}

#[test]
fn a_network_of_ones_own_is_trained() {
    let lines = printed_by(env!("CARGO_BIN_EXE_own_network"));
    assert_eq!(lines.iter().filter(|line| line.starts_with("step ")).count(), 6, "{lines:?}");
    assert!(last(&lines).starts_with("6 steps are done, and the weights are in runs/"), "{lines:?}");
}

#[test]
fn a_source_of_ones_own_is_loaded() {
    let lines = printed_by(env!("CARGO_BIN_EXE_own_source"));
    assert_eq!(last(&lines), "3 batches; the last one read alone is the same: true", "{lines:?}");
}

#[test]
fn a_model_of_the_zoo_learns_in_a_loop_of_burns() {
    let lines = printed_by(env!("CARGO_BIN_EXE_zoo_model"));
    assert_eq!(last(&lines), "8 of 8 images are recognised", "{lines:?}");
}
