//! Test-time augmentation: the model's answers for an image and for its mirror image, averaged.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{CLASSES, Outcome, kindling, picture_folder};
use tempfile::{TempDir, tempdir};

/// Pictures are 48 pixels wide: nothing is resized, and a mirror image has the same numbers.
const SIZE: &str = "48";

struct Trained {
    folder: TempDir,
    run: PathBuf,
}

impl Trained {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        picture_folder(&data, 12);
        let mut command = kindling();
        command.args([
            "train",
            "--device",
            "cpu",
            "--quiet",
            "--image-size",
            SIZE,
            "--batch-size",
            "8",
            "--max-steps",
            "6",
        ]);
        Outcome::of(command.arg("--data").arg(data).arg("--out").arg(&run)).succeeded();
        Self { folder, run }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A data set of the same pictures, left and right exchanged.
    fn mirrored(&self) -> PathBuf {
        let mirrored = self.path("mirrored");
        for class in CLASSES {
            fs::create_dir_all(mirrored.join(class)).unwrap();
            for entry in fs::read_dir(self.path("data").join(class)).unwrap() {
                let entry = entry.unwrap();
                let picture = image::open(entry.path()).unwrap();
                picture.fliph().save(mirrored.join(class).join(entry.file_name())).unwrap();
            }
        }
        mirrored
    }

    /// The table of predictions that `eval` writes about all pictures of a folder.
    fn predictions(&self, data: &Path, flags: &[&str]) -> String {
        let table = self.path("predictions.csv");
        let mut command = kindling();
        command.args(["eval", "--device", "cpu", "--format", "json", "--split", "all"]).arg(&self.run);
        command.arg("--data").arg(data).arg("--predictions").arg(&table).args(flags);
        Outcome::of(&mut command).succeeded();
        fs::read_to_string(&table).unwrap()
    }
}

/// The probabilities of every picture, by its class and file.
fn probabilities(table: &str) -> BTreeMap<String, Vec<f64>> {
    let head: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let first = head.iter().position(|name| name.starts_with("p:")).unwrap();
    let sample = head.iter().position(|name| *name == "sample").unwrap();
    let of = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let mut path = cells[sample].rsplit('/');
        let (file, class) = (path.next().unwrap(), path.next().unwrap());
        (format!("{class}/{file}"), cells[first..].iter().map(|number| number.parse().unwrap()).collect())
    };
    table.lines().skip(1).map(of).collect()
}

#[test]
fn flipping_averages_what_is_said_of_an_image_and_of_its_mirror_image() {
    let trained = Trained::new();
    let (data, mirrored) = (trained.path("data"), trained.mirrored());
    let [plain, flipped] = [&data, &mirrored].map(|data| probabilities(&trained.predictions(data, &[])));
    assert_eq!(plain.len(), 36);
    assert!(plain != flipped, "the model should tell an image from its mirror image");
    let both = probabilities(&trained.predictions(&data, &["--tta", "flip"]));
    for (picture, both) in &both {
        for (both, (plain, flipped)) in both.iter().zip(plain[picture].iter().zip(&flipped[picture])) {
            assert!((both - (plain + flipped) / 2.0).abs() < 1e-12, "{both} of {plain} and {flipped}");
        }
    }
    assert_eq!(
        both,
        probabilities(&trained.predictions(&mirrored, &["--tta", "flip"])),
        "a mirror image has the same two views"
    );
}

#[test]
fn without_it_not_a_byte_is_another_and_predict_says_what_eval_says() {
    let trained = Trained::new();
    let data = trained.path("data");
    assert_eq!(trained.predictions(&data, &[]), trained.predictions(&data, &["--tta", "none"]));
    let predict = |flags: &[&str]| {
        let image = data.join(CLASSES[0]).join("00.png");
        let mut command: Command = kindling();
        command.args(["predict", "--device", "cpu"]).arg(&trained.run).arg(image).args(flags);
        let line = Outcome::of(&mut command).succeeded().stdout.lines().nth(1).unwrap().to_string();
        line.split(',').skip(2).map(|number| number.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(predict(&[]), predict(&["--tta", "none"]));
    let both = predict(&["--tta", "flip"]);
    assert!(both != predict(&[]));
    let scored = probabilities(&trained.predictions(&data, &["--tta", "flip"]));
    for (said, scored) in both.iter().zip(&scored[&format!("{}/00.png", CLASSES[0])]) {
        assert!((said - scored).abs() < 1e-6, "{said} and {scored}");
    }
    let sentence = Outcome::of(kindling().args(["predict", "--tta", "flop"]).arg(&trained.run).arg(&data)).refused();
    assert!(sentence.contains("flop"), "{sentence}");
}
