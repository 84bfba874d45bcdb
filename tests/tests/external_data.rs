//! Scoring a run on other data: all of it, whatever splits it has, with classes matched by name.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use kindling_tests::{CLASSES, Outcome, kindling, picture, picture_folder, train};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

/// A run on three classes, and room for other data.
struct Known {
    folder: TempDir,
    run: PathBuf,
}

impl Known {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        picture_folder(&data, 12);
        Outcome::of(&mut train(&data, &run, "--batch-size 8 --epochs 3 --workers 1 --seed 1")).succeeded();
        Self { folder, run }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts `each` pictures that the run has not seen into a folder.
    fn pictures(&self, folder: &str, class: &str, each: usize) {
        let folder = self.path(folder);
        fs::create_dir_all(&folder).unwrap();
        for index in 100..100 + each {
            picture(class, index).save(folder.join(format!("{index}.png"))).unwrap();
        }
    }

    fn eval(&self, data: &Path, words: &str) -> Outcome {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").arg("eval").arg(&self.run).args(["--device", "cpu", "--format", "json"]);
        Outcome::of(command.arg("--data").arg(data).args(words.split_whitespace()))
    }

    fn score(&self, data: &str, words: &str) -> Value {
        self.eval(&self.path(data), words).succeeded().result()
    }
}

/// Images of each class that were scored.
fn truths(score: &Value) -> Vec<u64> {
    let rows = score["score"]["confusion"].as_array().unwrap();
    rows.iter().map(|row| row.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum()).collect()
}

#[test]
fn all_of_an_external_set_is_scored_whatever_it_brings() {
    let known = Known::new();
    for class in CLASSES {
        known.pictures(&format!("plain/{class}"), class, 10);
        known.pictures(&format!("tests/test/{class}"), class, 10);
    }
    let plain = known.score("plain", "");
    assert_eq!((&plain["split"], truths(&plain)), (&json!("all"), vec![10, 10, 10]));
    assert_eq!((&plain["absent_classes"], &plain["seen_in_training"]), (&json!([]), &json!(0)));
    // A folder that has nothing but test/, and the same by manifest: all of one split, and of one group.
    assert_eq!(known.score("tests", "")["score"], plain["score"]);
    assert_eq!(known.score("tests", "--split test")["score"], plain["score"]);
    let rows = |end: &str| {
        let row = |(class, index)| format!("plain/{class}/{index}.png,{class}{end}\n");
        CLASSES.into_iter().flat_map(|class| (100..110).map(move |index| (class, index))).map(row).collect::<String>()
    };
    fs::write(known.path("split.csv"), format!("path,label,split\n{}", rows(",test"))).unwrap();
    fs::write(known.path("group.csv"), format!("path,label,group\n{}", rows(",p1"))).unwrap();
    assert_eq!(known.score("split.csv", "")["score"], plain["score"]);
    assert_eq!(known.score("group.csv", "")["score"], plain["score"]);
    // One split of it, where it is asked for: 15 % of ten are two.
    assert_eq!(truths(&known.score("plain", "--split test")), [2, 2, 2]);
    let sentence = known.eval(&known.path("tests"), "--split val").refused();
    assert!(sentence.contains("no val samples") && sentence.contains("test (30)"), "{sentence}");
    let sentence = known.eval(&known.path("plain"), "--split tset").refused();
    assert!(sentence.contains("all") && sentence.contains("tset"), "{sentence}");
}

#[test]
fn classes_are_matched_by_name_and_absent_ones_are_told() {
    let known = Known::new();
    known.pictures("two/striped", "striped", 6);
    known.pictures("two/bright", "bright", 4);
    let two = known.score("two", "");
    assert_eq!((truths(&two), &two["absent_classes"]), (vec![4, 0, 6], &json!(["dark"])));
    known.pictures("one/striped", "striped", 6);
    let one = known.score("one", "");
    assert_eq!(truths(&one), [0, 0, 6]);
    // The counts of a class do not depend on which other classes there are: labels are matched by name, not by position.
    assert_eq!(one["score"]["confusion"][2], two["score"]["confusion"][2]);
    assert!(known.score("one", "")["score"]["accuracy"].is_number());

    let table = {
        let mut command = kindling();
        command.arg("eval").arg(&known.run).args(["--device", "cpu", "--data"]).arg(known.path("two"));
        Outcome::of(&mut command).succeeded().stdout
    };
    assert!(table.contains("all of two, 10 images") && table.contains("dark"), "{table}");

    known.pictures("foreign/striped", "striped", 3);
    known.pictures("foreign/purple", "dark", 3);
    known.pictures("foreign/amber", "dark", 3);
    let sentence = known.eval(&known.path("foreign"), "").refused();
    for said in ["amber", "purple", "bright, dark, striped"] {
        assert!(sentence.contains(said), "{sentence}");
    }
    let several = "path,label\none/striped/100.png,striped;dark\none/striped/101.png,bright\n";
    fs::write(known.path("several.csv"), several).unwrap();
    assert!(known.eval(&known.path("several.csv"), "").refused().contains("several classes"));
}

#[test]
fn images_that_were_trained_on_are_told_wherever_they_lie() {
    let known = Known::new();
    // The run's own data under another name, and in other folders.
    for class in CLASSES {
        let (from, to) = (known.path("data").join(class), known.path("copy").join(class));
        fs::create_dir_all(&to).unwrap();
        for index in 0..12 {
            fs::copy(from.join(format!("{index:02}.png")), to.join(format!("other-{index}.png"))).unwrap();
        }
    }
    let outcome = known.eval(&known.path("copy"), "").succeeded();
    assert_eq!(outcome.result()["seen_in_training"], 24);
    assert!(outcome.stderr.contains("24 of these samples"), "{}", outcome.stderr);
    // By its own path it is the run's own, and the test split is what is scored.
    let own = known.eval(&known.path("data"), "").succeeded().result();
    assert_eq!((&own["split"], truths(&own)), (&json!("test"), vec![2, 2, 2]));
}
