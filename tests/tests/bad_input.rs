//! Bad input gets one sentence that says what, where and what to do; a non-zero exit code; and nothing is lost.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{Outcome, assert_says, kindling, picture, picture_folder, train};
use tempfile::{TempDir, tempdir};

/// A folder with good images in it, and the place a run would go to.
struct Place {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        picture_folder(&data, 8);
        Self { folder, data, run }
    }

    /// Tries to train, expects a refusal before anything was written, and returns the sentence.
    fn refused(&self, flags: &str) -> String {
        self.refused_on(&self.data, flags)
    }

    fn refused_on(&self, data: &Path, flags: &str) -> String {
        let sentence = Outcome::of(&mut train_on_any_device(data, &self.run, flags)).refused();
        assert!(!self.run.exists(), "a run that was refused left a folder; {sentence}");
        sentence
    }

    /// A finished run.
    fn trained(self, flags: &str) -> Self {
        Outcome::of(&mut train(&self.data, &self.run, flags)).succeeded();
        self
    }

    fn eval(&self) -> Outcome {
        Outcome::of(kindling().arg("eval").arg(&self.run).args(["--device", "cpu"]))
    }

    fn predict(&self) -> Outcome {
        let image = self.data.join("dark/00.png");
        Outcome::of(kindling().arg("predict").arg(&self.run).arg(image).args(["--device", "cpu"]))
    }
}

/// As [`train`], but `--device` and `--image-size` may be among the flags.
fn train_on_any_device(data: &Path, out: &Path, flags: &str) -> Command {
    let mut command = kindling();
    command.arg("train").arg("--data").arg(data).arg("--out").arg(out).args(flags.split_whitespace());
    for (flag, value) in [("--device", "cpu"), ("--image-size", "32")] {
        if !flags.contains(flag) {
            command.args([flag, value]);
        }
    }
    command
}

#[test]
fn a_missing_folder_is_named() {
    let place = Place::new();
    assert_says(&place.refused_on(&place.folder.path().join("nowhere"), ""), &["nowhere", "is not a folder"]);
    let sentence = place.refused_on(&place.data.join("dark/00.png"), "");
    assert_says(&sentence, &["00.png", "is no data set", "give a folder", "a manifest", "shards"]);
}

#[test]
fn an_unknown_data_set_is_answered_with_the_known_ones() {
    let sentence = Place::new().refused_on(Path::new("phantom"), "");
    assert_says(&sentence, &["`phantom`", "phantoms", "brain-mri-orientation"]);
}

#[test]
fn a_data_set_that_was_not_fetched_is_answered_with_the_script() {
    let place = Place::new();
    let mut command = train_on_any_device(Path::new("brain-mri-orientation"), &place.run, "");
    let sentence = Outcome::of(command.env("KINDLING_DATA", place.folder.path())).refused();
    assert_says(&sentence, &["scripts/fetch-brain-mri-orientation.sh", place.folder.path().to_str().unwrap()]);
    assert!(!place.run.exists());
}

#[test]
fn an_empty_class_is_named() {
    let place = Place::new();
    fs::create_dir(place.data.join("empty-one")).unwrap();
    fs::write(place.data.join("empty-one/notes.txt"), "to come").unwrap();
    assert_says(&place.refused(""), &["empty-one", "is empty", "PNG"]);
}

#[test]
fn a_folder_with_nothing_to_tell_apart_is_refused() {
    let place = Place::new();
    for class in ["dark", "striped"] {
        fs::remove_dir_all(place.data.join(class)).unwrap();
    }
    assert_says(&place.refused(""), &["bright", "at least two"]);
    fs::remove_dir_all(place.data.join("bright")).unwrap();
    assert_says(&place.refused(""), &["no sub-folders"]);
}

#[test]
fn a_class_too_small_to_be_split_is_named() {
    let place = Place::new();
    for index in 2..8 {
        fs::remove_file(place.data.join(format!("dark/{index:02}.png"))).unwrap();
    }
    assert_says(&place.refused(""), &["dark", "2 images", "at least 3"]);
}

#[test]
fn an_image_that_is_no_image_is_found_before_the_run() {
    let place = Place::new();
    fs::write(place.data.join("dark/03.png"), b"this is no picture").unwrap();
    assert_says(&place.refused(""), &["dark/03.png", "replace or remove"]);
    fs::write(place.data.join("dark/03.png"), b"").unwrap();
    assert_says(&place.refused(""), &["dark/03.png"]);
}

#[test]
fn a_truncated_image_is_named_and_once_replaced_the_run_goes_on() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    for split in ["train", "val", "test"] {
        picture_folder(&data.join(split), 4);
    }
    // Its header is whole, so it is found only when its turn comes: at the end of the first epoch.
    let path = data.join("val/striped/02.png");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let sentence = Outcome::of(&mut train(&data, &run, "--batch-size 4 --epochs 2 --checkpoint-steps 2")).refused();
    assert_says(&sentence, &["val/striped/02.png", "replace or remove"]);
    picture("striped", 2).save(&path).unwrap();
    // The run did not begin with this file, so it may be any other.
    let sentence = Outcome::of(kindling().args(["train", "--resume"]).arg(&run)).refused();
    assert_says(&sentence, &["1 changed (\"val/striped/02.png\")", "--accept-changed-data"]);
    let mut resume = kindling();
    resume.args(["train", "--accept-changed-data", "--resume"]).arg(&run);
    let result = Outcome::of(&mut resume).succeeded().result();
    assert_eq!(result["steps"].as_u64(), Some(6));
}

#[test]
fn an_unknown_model_is_answered_with_the_nearest_names() {
    let place = Place::new();
    let sentence = place.refused("--model mobilenetv2");
    assert_says(&sentence, &["`mobilenetv2`", "did you mean", "mobilenet_v2"]);
    assert_says(&place.refused("--model vgg16"), &["`vgg16`", "kindling models"]);
    let sentence = Outcome::of(kindling().args(["models", "show", "mobilenet_v3_smal"])).refused();
    assert_says(&sentence, &["did you mean", "mobilenet_v3_small"]);
}

#[test]
fn a_batch_size_of_0_is_refused() {
    let place = Place::new();
    assert_says(&place.refused("--batch-size 0"), &["batch size is 0"]);
    assert_says(&place.refused("--micro-batch 0"), &["micro-batch is 0"]);
}

#[test]
fn a_micro_batch_smaller_than_the_ghost_batch_is_refused_with_the_way_out() {
    let sentence = Place::new().refused("--batch-size 8 --micro-batch 2");
    assert_says(&sentence, &["micro-batch of 2", "ghost batch of 8", "--ghost-batch-size 2"]);
}

#[test]
fn an_image_size_the_model_cannot_take_is_refused() {
    let place = Place::new();
    for size in ["0", "16", "100000"] {
        assert_says(&place.refused(&format!("--image-size {size}")), &["32 to 8192", &format!("not {size}")]);
    }
    let sentence = Outcome::of(kindling().args(["models", "show", "mobilenet_v2", "--image-size", "16"])).refused();
    assert_says(&sentence, &["32 to 8192", "not 16"]);
}

#[test]
fn a_batch_larger_than_the_data_is_no_fault() {
    // 6 images of a class to train on.
    let place = Place::new().trained("--batch-size 64 --epochs 1 --workers 0");
    assert_eq!(kindling_tests::steps(&place.run), [1]);
}

#[test]
fn a_device_that_is_not_there_is_answered_with_one_that_is() {
    let place = Place::new();
    // Where there is a driver, it shows no GPU now.
    let mut command = train_on_any_device(&place.data, &place.run, "--device cuda");
    let sentence = Outcome::of(command.env("CUDA_VISIBLE_DEVICES", "")).refused();
    assert_says(&sentence, &["--device cuda:0", "--device cpu"]);
    assert!(!place.run.exists());
    assert_says(&place.refused("--device nonsense"), &["nonsense", "auto, cpu, cuda, cuda:N or wgpu"]);
    assert_says(&place.refused("--device cuda:x"), &["cuda:x"]);
}

#[test]
fn a_folder_that_holds_a_run_or_anything_else_is_not_written_to() {
    let place = Place::new().trained("--batch-size 8 --max-steps 1");
    let before = fs::read(place.run.join("metrics.json")).unwrap();
    let sentence = Outcome::of(&mut train(&place.data, &place.run, "")).refused();
    assert_says(&sentence, &["already holds a run", "--resume", "--out"]);
    assert_eq!(before, fs::read(place.run.join("metrics.json")).unwrap());
    let sentence = Outcome::of(&mut train(&place.data, &place.data, "")).refused();
    assert_says(&sentence, &["is not empty", "--out"]);
    let sentence = Outcome::of(&mut train(&place.data, &place.data.join("dark/00.png"), "")).refused();
    assert_says(&sentence, &["is a file", "--out"]);
}

#[test]
fn a_folder_that_holds_no_run_cannot_be_used_as_one() {
    let place = Place::new();
    for folder in [place.data.clone(), place.folder.path().join("nowhere")] {
        for command in ["train --resume", "eval"] {
            let sentence = Outcome::of(kindling().args(command.split(' ')).arg(&folder)).refused();
            assert_says(&sentence, &[folder.to_str().unwrap(), "holds no run"]);
        }
        let image = place.data.join("dark/00.png");
        let sentence = Outcome::of(kindling().arg("predict").arg(&folder).arg(image)).refused();
        assert_says(&sentence, &["holds no run"]);
    }
}

#[test]
fn weights_that_are_damaged_or_another_models_are_named() {
    let place = Place::new().trained("--batch-size 8 --max-steps 1");
    let path = place.run.join("weights.safetensors");
    let good = fs::read(&path).unwrap();
    for bad in [&good[..good.len() / 2], &good[..3], b"", &[0xff; 64]] {
        fs::write(&path, bad).unwrap();
        for outcome in [place.eval(), place.predict()] {
            assert_says(&outcome.refused(), &["weights.safetensors", "not a usable weights file"]);
        }
    }
    fs::remove_file(&path).unwrap();
    assert_says(&place.eval().refused(), &["weights.safetensors", "cannot read"]);

    let other = place.folder.path().join("other");
    Outcome::of(&mut train(&place.data, &other, "--model mobilenet_v2 --batch-size 8 --max-steps 1")).succeeded();
    fs::copy(other.join("weights.safetensors"), &path).unwrap();
    assert_says(&place.eval().refused(), &["weights.safetensors", "mobilenet_v3_small"]);
    fs::write(&path, good).unwrap();
    place.eval().succeeded();
}

#[test]
fn a_configuration_with_a_misspelt_key_names_its_line() {
    let place = Place::new().trained("--batch-size 8 --max-steps 1");
    let config = fs::read_to_string(place.run.join("config.toml")).unwrap();
    let wrong = place.folder.path().join("wrong.toml");
    let train = |text: String| {
        fs::write(&wrong, text).unwrap();
        Outcome::of(
            kindling().args(["train", "--config"]).arg(&wrong).arg("--out").arg(place.folder.path().join("new")),
        )
    };
    let line = 1 + config.lines().position(|line| line.starts_with("epochs")).unwrap();
    let sentence = train(config.replace("epochs", "epoch")).refused();
    assert_says(&sentence, &["wrong.toml", "`epoch`", &format!("line {line}")]);
    assert_says(&train(config.replace("seed = 0", "seed = \"zero\"")).refused(), &["wrong.toml", "line"]);
    assert_says(&train("[[".to_string()).refused(), &["wrong.toml", "line 1"]);
    assert_says(&train(config.replace("lr = 0.003", "lr = nan")).refused(), &["learning rate is NaN"]);
    assert_says(&train(config.replace("\"cpu\"", "\"gpu\"")).refused(), &["`gpu`", "cpu, cuda"]);
    assert_says(&train(config.replace("\"dark\"", "\"dim\"")).refused(), &["dim", "dark"]);
    assert!(!place.folder.path().join("new").exists());
    let sentence = Outcome::of(kindling().args(["train", "--config", "no-such-file.toml"])).refused();
    assert_says(&sentence, &["no-such-file.toml"]);
}
