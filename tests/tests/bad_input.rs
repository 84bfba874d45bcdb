//! Bad input gets one sentence that says what, where and what to do; a non-zero exit code; and nothing is lost.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use kindling_tests::{
    CLASSIFICATION, OfEachTask, Optional, Outcome, SEGMENTATION, Suite, Task, Test, When, assert_says, kindling, steps,
};
use tempfile::{TempDir, tempdir};

/// What is about the classes of images, or about the command.
const TESTS: &[(&str, fn())] = &[
    ("an_unknown_data_set_is_answered_with_the_known_ones", an_unknown_data_set_is_answered_with_the_known_ones),
    (
        "a_data_set_that_was_not_fetched_is_answered_with_the_script",
        a_data_set_that_was_not_fetched_is_answered_with_the_script,
    ),
    ("an_empty_class_is_named", an_empty_class_is_named),
    ("a_folder_with_nothing_to_tell_apart_is_refused", a_folder_with_nothing_to_tell_apart_is_refused),
    ("a_class_too_small_to_be_split_is_named", a_class_too_small_to_be_split_is_named),
    ("an_unknown_model_is_answered_with_the_nearest_names", an_unknown_model_is_answered_with_the_nearest_names),
    ("a_configuration_with_a_misspelt_key_names_its_line", a_configuration_with_a_misspelt_key_names_its_line),
];

/// By day a segmentation is refused wherever a classifier is; what trains first does so by night.
const OF_EACH_TASK: &[OfEachTask] = &[
    ("a_missing_folder_is_named", When::Always, a_missing_folder_is_named),
    (
        "an_image_that_is_no_image_is_found_before_the_run",
        When::Always,
        an_image_that_is_no_image_is_found_before_the_run,
    ),
    (
        "a_truncated_image_is_named_and_once_replaced_the_run_goes_on",
        When::ByNight,
        a_truncated_image_is_named_and_once_replaced_the_run_goes_on,
    ),
    ("a_batch_size_of_0_is_refused", When::Always, a_batch_size_of_0_is_refused),
    (
        "a_micro_batch_smaller_than_the_ghost_batch_is_refused_with_the_way_out",
        When::Always,
        a_micro_batch_smaller_than_the_ghost_batch_is_refused_with_the_way_out,
    ),
    ("an_image_size_the_model_cannot_take_is_refused", When::Always, an_image_size_the_model_cannot_take_is_refused),
    ("a_batch_larger_than_the_data_is_no_fault", When::ByNight, a_batch_larger_than_the_data_is_no_fault),
    (
        "a_device_that_is_not_there_is_answered_with_one_that_is",
        When::Always,
        a_device_that_is_not_there_is_answered_with_one_that_is,
    ),
    (
        "a_folder_that_holds_a_run_or_anything_else_is_not_written_to",
        When::Always,
        a_folder_that_holds_a_run_or_anything_else_is_not_written_to,
    ),
    (
        "a_folder_that_holds_no_run_cannot_be_used_as_one",
        When::Always,
        a_folder_that_holds_no_run_cannot_be_used_as_one,
    ),
    (
        "weights_that_are_damaged_or_another_models_are_named",
        When::ByNight,
        weights_that_are_damaged_or_another_models_are_named,
    ),
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.add(&Optional::nothing(), TESTS.iter().map(|&(name, run)| Test::new(name, run)).collect());
    suite.add_of_each_task(OF_EACH_TASK, "half a minute");
    suite.run()
}

/// A folder with good images in it, and the place a run would go to.
struct Place {
    task: Task,
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
}

impl Place {
    fn of(task: Task) -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        task.folder(&data, 8);
        Self { task, folder, data, run }
    }

    fn new() -> Self {
        Self::of(CLASSIFICATION)
    }

    /// Tries to train, expects a refusal before anything was written, and returns the sentence.
    fn refused(&self, flags: &str) -> String {
        self.refused_on(&self.data, flags)
    }

    fn refused_on(&self, data: &Path, flags: &str) -> String {
        let sentence = Outcome::of(&mut train(self.task, data, &self.run, flags)).refused();
        assert!(!self.run.exists(), "a run that was refused left a folder; {sentence}");
        sentence
    }

    /// A finished run.
    fn trained(self, flags: &str) -> Self {
        Outcome::of(&mut train(self.task, &self.data, &self.run, flags)).succeeded();
        self
    }

    fn eval(&self) -> Outcome {
        Outcome::of(kindling().arg("eval").arg(&self.run).args(["--device", "cpu"]))
    }

    fn predict(&self) -> Outcome {
        let image = self.data.join(self.task.image(0));
        let mut predict = kindling();
        predict.arg("predict").arg(&self.run).arg(image).args(["--device", "cpu"]);
        if self.task.name == SEGMENTATION.name {
            predict.arg("--out").arg(self.folder.path().join("masks"));
        }
        Outcome::of(&mut predict)
    }
}

/// `kindling train`; what is not among the flags is as small as the task allows.
fn train(task: Task, data: &Path, out: &Path, flags: &str) -> Command {
    let mut command = kindling();
    command.arg("train").arg("--data").arg(data).arg("--out").arg(out).args(flags.split_whitespace());
    let size = task.image_size.to_string();
    for (flag, value) in [("--device", "cpu"), ("--image-size", &size), ("--model", task.model)] {
        if !flags.contains(flag) {
            command.args([flag, value]);
        }
    }
    command
}

fn a_missing_folder_is_named(task: Task) {
    let place = Place::of(task);
    let [no_folder, no_data] = match task.name == SEGMENTATION.name {
        true => ["holds no images with masks"; 2],
        false => ["is not a folder", "is no data set"],
    };
    let sentence = place.refused_on(&place.folder.path().join("nowhere"), "");
    assert_says(&sentence, &["nowhere", no_folder, "give a folder"]);
    let sentence = place.refused_on(&place.data.join(task.image(0)), "");
    assert_says(&sentence, &["00.png", no_data, "give a folder", "a manifest", "shards"]);
}

fn an_unknown_data_set_is_answered_with_the_known_ones() {
    let sentence = Place::new().refused_on(Path::new("phantom"), "");
    assert_says(&sentence, &["`phantom`", "phantoms", "brain-mri-orientation"]);
}

fn a_data_set_that_was_not_fetched_is_answered_with_the_script() {
    let place = Place::new();
    let mut command = train(place.task, Path::new("brain-mri-orientation"), &place.run, "");
    let sentence = Outcome::of(command.env("KINDLING_DATA", place.folder.path())).refused();
    assert_says(&sentence, &["scripts/fetch-brain-mri-orientation.sh", place.folder.path().to_str().unwrap()]);
    assert!(!place.run.exists());
}

fn an_empty_class_is_named() {
    let place = Place::new();
    fs::create_dir(place.data.join("empty-one")).unwrap();
    fs::write(place.data.join("empty-one/notes.txt"), "to come").unwrap();
    assert_says(&place.refused(""), &["empty-one", "is empty", "PNG"]);
}

fn a_folder_with_nothing_to_tell_apart_is_refused() {
    let place = Place::new();
    for class in ["dark", "striped"] {
        fs::remove_dir_all(place.data.join(class)).unwrap();
    }
    assert_says(&place.refused(""), &["bright", "at least two"]);
    fs::remove_dir_all(place.data.join("bright")).unwrap();
    assert_says(&place.refused(""), &["no sub-folders"]);
}

fn a_class_too_small_to_be_split_is_named() {
    let place = Place::new();
    for index in 2..8 {
        fs::remove_file(place.data.join(format!("dark/{index:02}.png"))).unwrap();
    }
    assert_says(&place.refused(""), &["dark", "2 images", "at least 3"]);
}

fn an_image_that_is_no_image_is_found_before_the_run(task: Task) {
    let place = Place::of(task);
    let image = task.image(3);
    let name = image.to_str().unwrap();
    fs::write(place.data.join(&image), b"this is no picture").unwrap();
    assert_says(&place.refused(""), &[name, "replace or remove"]);
    fs::write(place.data.join(&image), b"").unwrap();
    assert_says(&place.refused(""), &[name]);
}

fn a_truncated_image_is_named_and_once_replaced_the_run_goes_on(task: Task) {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    for split in ["train", "val", "test"] {
        task.folder(&data.join(split), 4);
    }
    // Its header is whole, so it is found only when its turn comes: at the end of the first epoch.
    let image = Path::new("val").join(task.image(2));
    let (path, name) = (data.join(&image), image.to_str().unwrap());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let flags = "--batch-size 4 --epochs 2 --checkpoint-steps 2";
    let sentence = Outcome::of(&mut train(task, &data, &run, flags)).refused();
    assert_says(&sentence, &[name, "replace or remove"]);
    fs::write(&path, bytes).unwrap();
    // The run did not begin with this file, so it may be any other.
    let sentence = Outcome::of(kindling().args(["train", "--resume"]).arg(&run)).refused();
    assert_says(&sentence, &[&format!("1 changed ({name:?})"), "--accept-changed-data"]);
    let mut resume = kindling();
    resume.args(["train", "--accept-changed-data", "--resume"]).arg(&run);
    let result = Outcome::of(&mut resume).succeeded().result();
    assert_eq!(result["steps"].as_u64(), Some(6));
}

fn an_unknown_model_is_answered_with_the_nearest_names() {
    let place = Place::new();
    let sentence = place.refused("--model mobilenetv2");
    assert_says(&sentence, &["`mobilenetv2`", "did you mean", "mobilenet_v2"]);
    assert_says(&place.refused("--model vgg16"), &["`vgg16`", "kindling models"]);
    let sentence = Outcome::of(kindling().args(["models", "show", "mobilenet_v3_smal"])).refused();
    assert_says(&sentence, &["did you mean", "mobilenet_v3_small"]);
}

fn a_batch_size_of_0_is_refused(task: Task) {
    let place = Place::of(task);
    assert_says(&place.refused("--batch-size 0"), &["batch size is 0"]);
    assert_says(&place.refused("--micro-batch 0"), &["micro-batch is 0"]);
}

fn a_micro_batch_smaller_than_the_ghost_batch_is_refused_with_the_way_out(task: Task) {
    let sentence = Place::of(task).refused("--batch-size 8 --micro-batch 2");
    assert_says(&sentence, &["micro-batch of 2", "ghost batch of 8", "--ghost-batch-size 2"]);
}

fn an_image_size_the_model_cannot_take_is_refused(task: Task) {
    let place = Place::of(task);
    for size in ["0", "16", "100000"] {
        assert_says(&place.refused(&format!("--image-size {size}")), &["32 to 8192", &format!("not {size}")]);
    }
    let sentence = Outcome::of(kindling().args(["models", "show", task.other_model, "--image-size", "16"])).refused();
    assert_says(&sentence, &["32 to 8192", "not 16"]);
}

fn a_batch_larger_than_the_data_is_no_fault(task: Task) {
    // 6 images of a class to train on.
    let place = Place::of(task).trained("--batch-size 64 --epochs 1 --workers 0");
    assert_eq!(steps(&place.run), [1]);
}

fn a_device_that_is_not_there_is_answered_with_one_that_is(task: Task) {
    let place = Place::of(task);
    // Where there is a driver, it shows no GPU now.
    let mut command = train(task, &place.data, &place.run, "--device cuda");
    let sentence = Outcome::of(command.env("CUDA_VISIBLE_DEVICES", "")).refused();
    assert_says(&sentence, &["--device cuda:0", "--device cpu"]);
    assert!(!place.run.exists());
    assert_says(&place.refused("--device nonsense"), &["nonsense", "auto, cpu, cuda, cuda:N or wgpu"]);
    assert_says(&place.refused("--device cuda:x"), &["cuda:x"]);
}

fn a_folder_that_holds_a_run_or_anything_else_is_not_written_to(task: Task) {
    let place = Place::of(task).trained("--batch-size 8 --max-steps 1");
    let before = fs::read(place.run.join("metrics.json")).unwrap();
    let sentence = Outcome::of(&mut train(task, &place.data, &place.run, "")).refused();
    assert_says(&sentence, &["already holds a run", "--resume", "--out"]);
    assert_eq!(before, fs::read(place.run.join("metrics.json")).unwrap());
    let sentence = Outcome::of(&mut train(task, &place.data, &place.data, "")).refused();
    assert_says(&sentence, &["is not empty", "--out"]);
    let sentence = Outcome::of(&mut train(task, &place.data, &place.data.join(task.image(0)), "")).refused();
    assert_says(&sentence, &["is a file", "--out"]);
}

fn a_folder_that_holds_no_run_cannot_be_used_as_one(task: Task) {
    let place = Place::of(task);
    for folder in [place.data.clone(), place.folder.path().join("nowhere")] {
        for command in ["train --resume", "eval"] {
            let sentence = Outcome::of(kindling().args(command.split(' ')).arg(&folder)).refused();
            assert_says(&sentence, &[folder.to_str().unwrap(), "holds no run"]);
        }
        let image = place.data.join(task.image(0));
        let sentence = Outcome::of(kindling().arg("predict").arg(&folder).arg(image)).refused();
        assert_says(&sentence, &["holds no run"]);
    }
}

fn weights_that_are_damaged_or_another_models_are_named(task: Task) {
    let place = Place::of(task).trained("--batch-size 8 --max-steps 1");
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
    let flags = format!("--model {} --batch-size 8 --max-steps 1", task.other_model);
    Outcome::of(&mut train(task, &place.data, &other, &flags)).succeeded();
    fs::copy(other.join("weights.safetensors"), &path).unwrap();
    assert_says(&place.eval().refused(), &["weights.safetensors", task.model]);
    fs::write(&path, good).unwrap();
    place.eval().succeeded();
}

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
