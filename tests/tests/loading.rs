//! Data that is damaged, unbalanced or mixed: what a user sees of the loader.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use kindling_tests::{Outcome, Started, assert_same_bits, events, json_of, kindling, picture_folder, resume, train};
use tempfile::tempdir;

/// A folder split by hand, of whose training images two are damaged behind their headers.
fn damaged_folder(folder: &Path) -> Vec<PathBuf> {
    for (split, each) in [("train", 12), ("val", 3), ("test", 3)] {
        picture_folder(&folder.join(split), each);
    }
    let bad = [folder.join("train/bright/03.png"), folder.join("train/striped/07.png")];
    for path in &bad {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }
    bad.to_vec()
}

fn bad_samples(run: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(run.join("bad-samples.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_damaged_image_ends_a_run_with_its_path_unless_it_is_skipped() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    let bad = damaged_folder(&data);
    let run = |name: &str| folder.path().join(name);
    let flags = "--batch-size 4 --epochs 2 --augment light";

    let refused = Outcome::of(&mut train(&data, &run("failing"), flags)).refused();
    assert!(bad.iter().any(|path| refused.contains(path.to_str().unwrap())), "{refused}");

    // Two of 36 are more than 5 %.
    let strict = format!("{flags} --on-bad-sample skip --max-bad 5%");
    let refused = Outcome::of(&mut train(&data, &run("strict"), &strict)).refused();
    assert!(refused.contains("--max-bad 5%") && refused.contains("2 of 36"), "{refused}");

    let skipping = format!("{flags} --on-bad-sample skip --max-bad 2");
    Outcome::of(&mut train(&data, &run("one"), &format!("{skipping} --workers 1"))).succeeded();
    Outcome::of(&mut train(&data, &run("many"), &format!("{skipping} --workers 5 --prefetch-bytes 1KiB"))).succeeded();
    assert_same_bits(&run("one"), &run("many"), "other workers, less prefetched");

    for name in ["one", "many"] {
        let listed = bad_samples(&run(name));
        let mut paths: Vec<&str> = listed.iter().map(|line| line["path"].as_str().unwrap()).collect();
        paths.sort_unstable();
        assert_eq!(paths, bad.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>());
        assert!(listed.iter().all(|line| line["split"] == "train" && line["reason"].as_str().unwrap().contains("PNG")
            || line["reason"].as_str().unwrap().contains("cannot read")));
        assert_eq!(json_of(&run(name).join("metrics.json"))["bad_samples"], 2);
        let told = events(&run(name)).iter().filter(|event| event["event"] == "bad_sample").count();
        assert_eq!(told, 2, "each is told once, not in every epoch");
    }
}

#[test]
fn a_file_that_cannot_even_be_listed_is_skipped_too() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    for (split, each) in [("train", 12), ("val", 3), ("test", 3)] {
        picture_folder(&data.join(split), each);
    }
    let bad = data.join("train/bright/03.png");
    fs::write(&bad, &fs::read(&bad).unwrap()[..10]).unwrap();
    let run = |name: &str| folder.path().join(name);
    let flags = "--batch-size 4 --epochs 2";
    let refused = Outcome::of(&mut train(&data, &run("failing"), flags)).refused();
    assert!(refused.contains("bright/03.png"), "{refused}");

    let skipping = format!("{flags} --on-bad-sample skip --max-bad 1");
    Outcome::of(&mut train(&data, &run("skipping"), &skipping)).succeeded();
    let listed = bad_samples(&run("skipping"));
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["path"], bad.to_str().unwrap());
    Outcome::of(kindling().arg("eval").arg(run("skipping"))).succeeded();
}

/// What stands in for a bad sample, and what is already listed, are the same in a run that was killed on the way.
#[test]
fn a_killed_run_with_bad_samples_ends_with_the_same_bits() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    damaged_folder(&data);
    let run = |name: &str| folder.path().join(name);
    let flags =
        "--batch-size 4 --epochs 3 --augment light --checkpoint-steps 2 --seed 5 --on-bad-sample skip --max-bad 2";
    Outcome::of(&mut train(&data, &run("straight"), flags)).succeeded();
    let mut killed = Started::new(train(&data, &run("killed"), flags), &run("killed"));
    killed.until_step(12);
    killed.kill();
    Outcome::of(&mut resume(&run("killed"))).succeeded();
    assert_same_bits(&run("straight"), &run("killed"), "killed in the second epoch");
    assert_eq!(bad_samples(&run("straight")), bad_samples(&run("killed")), "each listed once");
}

#[test]
fn a_policy_of_ones_own_and_weighted_draws_are_stored_and_give_the_same_run_again() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 12);
    let policy = folder.path().join("policy.toml");
    fs::write(&policy, "rotate = 20\nmixup = 0.3\ncutmix = 1.0\nblur = { probability = 0.5, sigma = 1.0 }\n").unwrap();
    let run = |name: &str| folder.path().join(name);
    let flags =
        format!("--batch-size 4 --epochs 2 --ghost-batch-size 4 --sampling balanced --augment {}", policy.display());
    Outcome::of(&mut train(&data, &run("first"), &format!("{flags} --workers 1"))).succeeded();

    // The policy is part of the run: its file may go.
    fs::remove_file(&policy).unwrap();
    let mut again = kindling();
    again.args(["train", "--config"]).arg(run("first").join("config.toml"));
    again.args(["--workers", "3", "--quiet", "--out"]).arg(run("again"));
    Outcome::of(&mut again).succeeded();
    assert_same_bits(&run("first"), &run("again"), "from the stored configuration");
    let step = events(&run("first")).into_iter().find(|event| event["event"] == "step").unwrap();
    assert!(step["waiting_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{step}");
}

#[test]
fn a_policy_that_cannot_be_is_refused_in_one_sentence() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 12);
    let policy = folder.path().join("policy.toml");
    for (text, expected) in
        [("rotate = 720", "must lie between 0 and 180"), ("rotat = 7", "rotat"), ("rotate = \"far\"", "line 1")]
    {
        fs::write(&policy, text).unwrap();
        let flags = format!("--augment {}", policy.display());
        let refused = Outcome::of(&mut train(&data, &folder.path().join("run"), &flags)).refused();
        assert!(refused.contains(expected), "{text}: {refused}");
    }
    let refused = Outcome::of(&mut train(&data, &folder.path().join("run"), "--augment wild")).refused();
    assert!(refused.contains("wild") && refused.contains("heavy"), "{refused}");
}

#[test]
fn a_sheet_shows_what_the_model_will_see() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 12);
    let sheet = |flags: &[&str], name: &str| {
        let out = folder.path().join(name);
        let mut command = kindling();
        command
            .args(["data", "sheet"])
            .arg(&data)
            .args(["--side", "48", "--per-class", "4", "--out"])
            .arg(&out)
            .args(flags);
        Outcome::of(&mut command).succeeded();
        image::open(out).unwrap().to_rgb8()
    };
    let (plain, heavy) = (sheet(&[], "plain.png"), sheet(&["--augmented", "heavy"], "heavy.png"));
    // Two rows of four epochs a class instead of one row of four samples.
    assert_eq!(plain.width(), heavy.width());
    assert!(heavy.height() > plain.height());
    assert_eq!(heavy, sheet(&["--augmented", "heavy"], "again.png"));
    assert_ne!(heavy, sheet(&["--augmented"], "light.png"), "that of the data set is light");
}

#[test]
fn the_data_bench_times_every_stage() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 12);
    let mut command = kindling();
    command.args(["bench", "data", "--image-size", "64", "--images", "40", "--format", "json", "--data"]).arg(&data);
    let result = Outcome::of(&mut command).succeeded().result();
    for stage in ["read", "decode", "resize", "augment", "collate"] {
        let row = &result["stages_one_thread"][stage];
        assert!(row["images_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
        assert!(row["megabytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
    }
    assert!(result["loader"]["images"].as_u64().is_some_and(|images| images >= 40), "{result}");
}

#[test]
fn bench_data_measures_the_training_images_that_a_new_run_would_have() {
    let folder = tempdir().unwrap();
    let (data, split) = (folder.path().join("data"), folder.path().join("split.csv"));
    picture_folder(&data, 12);
    Outcome::of(kindling().args(["data", "split"]).arg(&data).arg("--out").arg(&split)).succeeded();
    // The other images can be listed, but not be read.
    let list = fs::read_to_string(&split).unwrap();
    let mut rows = list.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let columns = rows.next().unwrap();
    let column = |name: &str| columns.iter().position(|it| *it == name).unwrap();
    let held_out: Vec<PathBuf> =
        rows.filter(|row| row[column("split")] != "train").map(|row| folder.path().join(row[column("path")])).collect();
    assert_eq!(held_out.len(), 12);
    for path in held_out {
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let mut command = kindling();
    command.args(["bench", "data", "--image-size", "32", "--images", "48", "--format", "json", "--data"]).arg(&data);
    let told = Outcome::of(&mut command).succeeded().result();
    assert_eq!(told["loader"]["images"], 48);
}
