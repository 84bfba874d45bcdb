//! `KINDLING_KILL`: every point inside a write is passed, and a run that was killed there goes on to the same bits, whatever it learns.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use kindling_tests::{
    CLASSIFICATION, Optional, Outcome, SEGMENTATION, Suite, Task, Test, assert_same_bits, kindling, picture_folder,
    resume,
};
use tempfile::tempdir;

/// The points that a segmentation is killed at by day: of a file, of a folder, and of one that replaces another. By night it is killed at
/// every point, as a classifier always is.
const BY_DAY: [&str; 3] = ["rename", "folder-sync", "aside"];

fn main() -> ExitCode {
    let nothing = Optional::nothing();
    let mut suite = Suite::new();
    let at_every_point = |task: Task| {
        let name = "a_run_killed_at_every_point_inside_a_write_and_resumed_ends_with_the_same_bits";
        Test::new(format!("{name}_in_{}", task.name), move || killed_and_resumed(task, &points()))
    };
    suite.add(
        &nothing,
        vec![
            at_every_point(CLASSIFICATION),
            Test::new("a_segmentation_killed_at_three_points_and_resumed_ends_with_the_same_bits", || {
                killed_and_resumed(SEGMENTATION, &BY_DAY.map(str::to_string));
            }),
            Test::new(
                "two_networks_killed_before_any_file_takes_its_name_and_resumed_end_with_the_same_bits",
                two_networks_killed_before_any_file_takes_its_name_and_resumed_end_with_the_same_bits,
            ),
            Test::new("a_point_that_is_none_is_one_sentence", a_point_that_is_none_is_one_sentence),
            Test::new("the_attack_knows_every_point", the_attack_knows_every_point),
        ],
    );
    suite.add_nightly(&nothing, vec![at_every_point(SEGMENTATION)], "a minute");
    suite.run()
}

fn train(task: Task, data: &Path, run: &Path) -> Command {
    let Task { model, image_size, .. } = task;
    let flags =
        format!("--model {model} --image-size {image_size} --batch-size 8 --checkpoint-steps 1 --epochs 2 --seed 4");
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").args(["train", "--device", "cpu", "--quiet", "--data"]).arg(data);
    command.arg("--out").arg(run).args(flags.split_whitespace());
    command
}

/// The points that the command says there are.
fn points() -> Vec<String> {
    let sentence = Outcome::of(kindling().args(["models"]).env("KINDLING_KILL", "nowhere@1")).refused();
    let (_, list) = sentence.split_once("there are ").unwrap();
    let points: Vec<String> = list.split(", ").map(str::to_string).collect();
    assert!(points.len() > 10, "{sentence}");
    points
}

fn killed_and_resumed(task: Task, points: &[String]) {
    let folder = tempdir().unwrap();
    let [data, straight] = ["data", "straight"].map(|name| folder.path().join(name));
    task.folder(&data, 12);
    Outcome::of(&mut train(task, &data, &straight)).succeeded();
    for point in points {
        let run = folder.path().join(point);
        // Later than the first checkpoint, which a run needs to go on: the sixth time, because a run writes its configuration, the list of
        // its data, its environment and its history before, and a checkpoint has four files. `tidy` is passed only where a kill left something, so that it takes a kill before it.
        let killed = |command: &mut Command, at: &str| {
            let outcome = Outcome::of(command.env("KINDLING_KILL", at));
            assert_eq!(outcome.code, None, "{at} was not passed: {}", outcome.all());
        };
        if point == "tidy" {
            killed(&mut train(task, &data, &run), "folder-sync@3");
            killed(&mut resume(&run), "tidy@1");
        } else if point == "aside" {
            // An epoch ends at a step that is saved already.
            killed(&mut train(task, &data, &run), "aside@1");
        } else {
            let time = if point.starts_with("folder") { 4 } else { 6 };
            killed(&mut train(task, &data, &run), &format!("{point}@{time}"));
        }
        Outcome::of(&mut resume(&run)).succeeded();
        assert_same_bits(&straight, &run, point);
        fs::remove_dir_all(run).unwrap();
    }
}

fn two_networks_killed_before_any_file_takes_its_name_and_resumed_end_with_the_same_bits() {
    let folder = tempdir().unwrap();
    let [data, straight] = ["data", "straight"].map(|name| folder.path().join(name));
    picture_folder(&data, 12);
    let gan = |run: &Path| {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").args(["gan", "train", "--device", "cpu", "--quiet", "--data"]).arg(&data);
        let flags = "--model dcgan_64 --features 4 --batch-size 4 --iterations 2 --checkpoint-iterations 1 --compare 0";
        command.arg("--out").arg(run).args(flags.split_whitespace());
        command
    };
    Outcome::of(&mut gan(&straight)).succeeded();
    let mut resumed = 0;
    for time in 2.. {
        let run = folder.path().join(format!("killed-{time}"));
        let outcome = Outcome::of(gan(&run).env("KINDLING_KILL", format!("rename@{time}")));
        if outcome.code == Some(0) {
            break;
        }
        assert_eq!(outcome.code, None, "{}", outcome.all());
        Outcome::of(kindling().args(["gan", "train", "--quiet", "--resume"]).arg(&run)).succeeded();
        assert_same_bits(&straight, &run, &format!("rename@{time}"));
        resumed += 1;
    }
    assert!(resumed >= 6, "only {resumed} of the kills were behind the first file, its configuration");
}

fn a_point_that_is_none_is_one_sentence() {
    for (kill, said) in
        [("rename", "POINT@COUNT"), ("rename@0", "1 is the first time"), ("lunch@1", "no point `lunch`")]
    {
        let sentence = Outcome::of(kindling().args(["models"]).env("KINDLING_KILL", kill)).refused();
        assert!(sentence.contains("KINDLING_KILL") && sentence.contains(said), "{kill}: {sentence}");
    }
}

/// The attack has a list of its own, which must stay complete.
fn the_attack_knows_every_point() {
    let known = include_str!("attack/plan.rs");
    for point in points() {
        assert!(known.contains(&format!("\"{point}\",")), "tests/tests/attack/plan.rs does not know `{point}`");
    }
}
