//! Runs that an earlier version wrote are resumed by today's command, scored, and used for predictions and samples.
//!
//! `tests/earlier/README.md` says how the folders were made.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use kindling_tests::{Outcome, copy_folder, iterations, kindling, losses, picture, resume, steps};
use tempfile::{TempDir, tempdir};

/// The loss of the earlier version's own next step: of the third of the classifier, and of the generator in the second iteration.
const NEXT_LOSS: f64 = 1.475_995_5;
const NEXT_GENERATOR_LOSS: f64 = -0.012_692_4;
/// Processors differ in their last digits, which a step makes larger.
const CLOSE: f64 = 1e-4;
/// Test images of the phantoms.
const SAMPLES: u64 = 150;

/// A copy of a run of the earlier version.
fn earlier(name: &str) -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let run = folder.path().join("run");
    copy_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("earlier").join(name), &run);
    (folder, run)
}

fn command(words: &str, run: &Path) -> std::process::Command {
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(words.split_whitespace()).arg(run);
    command
}

#[test]
fn a_classifier_of_an_earlier_version_is_resumed_scored_and_predicts() {
    let (folder, run) = earlier("classifier");
    let before = losses(&run);
    assert_eq!(before.len(), 2);
    Outcome::of(&mut resume(&run)).succeeded();
    assert_eq!(steps(&run), [1, 2, 3]);
    let after = losses(&run);
    assert_eq!(after[..2], before, "what was done is as it was");
    assert!((after[2] - NEXT_LOSS).abs() < CLOSE, "{} instead of {NEXT_LOSS}", after[2]);

    let scored = Outcome::of(&mut command("eval --device cpu --format json", &run)).succeeded().result();
    assert_eq!(scored["score"]["samples"], SAMPLES, "{scored}");
    let image = folder.path().join("image.png");
    picture("striped", 0).save(&image).unwrap();
    let told = Outcome::of(command("predict --device cpu --format json", &run).arg(&image)).succeeded();
    assert!(told.stdout.contains("probabilities"), "{}", told.stdout);
}

#[test]
fn a_gan_of_an_earlier_version_is_resumed_and_sampled() {
    let (folder, run) = earlier("gan");
    Outcome::of(&mut command("gan train --quiet --resume", &run)).succeeded();
    let iterations = iterations(&run);
    assert_eq!(iterations.iter().map(|event| event["step"].clone()).collect::<Vec<_>>(), [1, 2]);
    let loss = iterations[1]["generator_loss"].as_f64().unwrap();
    assert!((loss - NEXT_GENERATOR_LOSS).abs() < CLOSE, "{loss} instead of {NEXT_GENERATOR_LOSS}");
    let sample = folder.path().join("sample.png");
    Outcome::of(command("gan sample --device cpu --count 2", &run).arg("--out").arg(&sample)).succeeded();
    assert!(fs::metadata(&sample).unwrap().len() > 0);
}
