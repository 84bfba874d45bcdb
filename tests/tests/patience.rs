//! `--patience`: a run ends where no epoch was better for long enough, and nowhere else, however often it is stopped.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use kindling_tests::{
    Outcome, Started, assert_same_bits, events, files_differ, losses, picture_folder, resume, steps, train,
};
use tempfile::{TempDir, tempdir};

const EPOCHS: u64 = 12;
/// 6 steps an epoch, at a rate that is too high to become better every time.
const FLAGS: &str = "--batch-size 8 --epochs 12 --lr 0.02 --checkpoint-steps 4 --augment light --quiet";
const STEPS_PER_EPOCH: u64 = 6;
const FILES: [&str; 5] =
    ["weights.safetensors", "weights-last.safetensors", "events.jsonl", "metrics.json", "config.toml"];
/// Pictures of a class: 16 of them are trained on.
const EACH: usize = 24;

/// Accuracy and loss on the validation samples after each epoch.
fn scores(run: &Path) -> Vec<(f64, f64)> {
    let scored =
        events(run).into_iter().filter(|event| event["event"] == "evaluated" && event["split"] == "validation");
    scored.map(|event| (event["accuracy"].as_f64().unwrap(), event["loss"].as_f64().unwrap())).collect()
}

/// The best epoch and the first one that ends `patience` epochs after it, each counted from 1.
fn end_of(scores: &[(f64, f64)], patience: u64) -> Option<(u64, u64)> {
    let mut best: Option<(u64, (f64, f64))> = None;
    for (epoch, &(accuracy, loss)) in (1..).zip(scores) {
        if best.is_none_or(|(_, (most, least))| accuracy > most || (accuracy == most && loss < least)) {
            best = Some((epoch, (accuracy, loss)));
        }
        let (at, _) = best?;
        if epoch >= at + patience {
            return Some((at, epoch));
        }
    }
    None
}

/// A run of all epochs, and where one with a patience must end before them.
struct Long {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
    patience: u64,
    best: u64,
    end: u64,
}

impl Long {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("long"));
        picture_folder(&data, EACH);
        Outcome::of(&mut train(&data, &run, FLAGS)).succeeded();
        let scores = scores(&run);
        assert_eq!(scores.len() as u64, EPOCHS);
        // The longest that ends before the run does.
        let ends = |patience| end_of(&scores, patience).filter(|(_, end)| *end < EPOCHS);
        let found = (1..EPOCHS).rev().find_map(|patience| Some((patience, ends(patience)?)));
        let (patience, (best, end)) = found.expect("an epoch before the last that is no better than the one before");
        Self { folder, data, run, patience, best, end }
    }

    fn flags(&self) -> String {
        format!("{FLAGS} --patience {}", self.patience)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Fails unless a run ended where it must, as the long one was there.
    fn assert_ended(&self, run: &Path) {
        assert_eq!(steps(run), (1..=self.end * STEPS_PER_EPOCH).collect::<Vec<_>>(), "every step once");
        let before = losses(&self.run);
        assert_eq!(losses(run)[..], before[..(self.end * STEPS_PER_EPOCH) as usize]);
        assert_eq!(scores(run)[..], scores(&self.run)[..self.end as usize]);
        let ended: Vec<_> = events(run).into_iter().filter(|event| event["event"] == "ended_early").collect();
        let [ended] = ended.as_slice() else { panic!("told {} times", ended.len()) };
        assert_eq!((ended["epoch"].as_u64(), ended["best_epoch"].as_u64()), (Some(self.end), Some(self.best)));
        assert_eq!(events(run).last().unwrap()["event"], "finished");
    }
}

#[test]
fn a_run_ends_after_so_many_epochs_without_a_better_score_however_often_it_is_stopped() {
    let long = Long::new();
    let early = long.path("early");
    let outcome = Outcome::of(&mut train(&long.data, &early, &long.flags())).succeeded();
    assert_eq!(outcome.result()["steps"].as_u64(), Some(long.end * STEPS_PER_EPOCH));
    long.assert_ended(&early);

    // Killed in the middle, then at its last step or right after it.
    let killed = long.path("killed");
    let mut started = Started::new(train(&long.data, &killed, &long.flags()), &killed);
    started.until_step(STEPS_PER_EPOCH + 2);
    started.kill();
    let mut started = Started::new(resume(&killed), &killed);
    started.until_step(long.end * STEPS_PER_EPOCH);
    started.kill();
    Outcome::of(&mut resume(&killed)).succeeded();
    long.assert_ended(&killed);
    assert_same_bits(&early, &killed, "killed twice");
}

#[test]
fn a_run_that_ended_early_is_finished_and_says_why_it_cannot_be_longer() {
    let long = Long::new();
    let early = long.path("early");
    Outcome::of(&mut train(&long.data, &early, &long.flags())).succeeded();
    let kept = long.path("kept");
    assert!(std::process::Command::new("cp").arg("-r").args([&early, &kept]).status().unwrap().success());
    Outcome::of(&mut resume(&early)).succeeded();
    let sentence = Outcome::of(resume(&early).args(["--extend-to", "30"])).refused();
    assert!(sentence.contains("--patience") && sentence.contains("--config"), "{sentence}");
    let sentence = Outcome::of(resume(&early).args(["--patience", "11"])).refused();
    assert!(sentence.contains("patience"), "{sentence}");
    assert_eq!(files_differ(&early, &kept, &FILES), [""; 0], "nothing is changed");
}
