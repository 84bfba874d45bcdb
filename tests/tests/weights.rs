//! Importing and exporting weights: with any library's keys the network computes the same. And what a run starts from, and keeps.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use image::{Rgb, RgbImage};
use kindling_tests::{
    CLASSES, Outcome, Stored, Tensors, assert_same_bits, checkpoints, kindling, picture, picture_folder, read_tensors,
    resume, train, write_tensors,
};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

const MODEL: &str = "mobilenet_v3_small";
const KEYS: [&str; 3] = ["torchvision", "timm", "kindling"];

/// A tensor's key and shape.
type Expected = (&'static str, &'static [usize]);

/// A short run on grey pictures, in a folder of its own.
struct Trained {
    folder: TempDir,
    data: PathBuf,
    run: PathBuf,
}

impl Trained {
    fn new() -> Self {
        Self::on(|data| picture_folder(data, 6))
    }

    fn on(pictures: fn(&Path)) -> Self {
        let folder = tempdir().unwrap();
        let (data, run) = (folder.path().join("data"), folder.path().join("run"));
        pictures(&data);
        Outcome::of(&mut train(&data, &run, "--batch-size 4 --max-steps 2")).succeeded();
        Self { folder, data, run }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the run's weights into a file of the folder.
    fn export(&self, flags: &str, name: &str) -> PathBuf {
        export(&self.run, flags, &self.path(name))
    }

    /// Trains another run from a weights file and returns its folder and its output.
    fn train_from(&self, weights: &Path, name: &str, flags: &str) -> (PathBuf, Outcome) {
        let run = self.path(name);
        let mut command = train(&self.data, &run, flags);
        let outcome = Outcome::of(command.arg("--weights").arg(weights)).succeeded();
        (run, outcome)
    }

    /// Runs the model with a weights file and returns what it wrote.
    fn forward(&self, weights: &Path, input: &Path, flags: &str) -> Tensors {
        let output = self.path("output.safetensors");
        let mut command = forward(input, &output, flags);
        Outcome::of(command.arg("--weights").arg(weights)).succeeded();
        read_tensors(&output)
    }
}

fn export(run: &Path, flags: &str, output: &Path) -> PathBuf {
    let mut command = kindling();
    command.arg("export").arg(run).args(flags.split_whitespace()).arg("--output").arg(output);
    Outcome::of(&mut command).succeeded();
    output.to_path_buf()
}

fn forward(input: &Path, output: &Path, flags: &str) -> std::process::Command {
    let mut command = kindling();
    command.args(["forward", "--device", "cpu", "--model", MODEL]).args(flags.split_whitespace());
    command.arg("--input").arg(input).arg("--output").arg(output);
    command
}

/// Two images of 40 x 32 pixels in a file; each channel is the first one if `same`.
fn images(path: &Path, channels: usize, same: bool) {
    let plane = 40 * 32;
    let value = |index: usize| {
        let (image, channel, pixel) = (index / (channels * plane), index / plane % channels, index % plane);
        let channel = if same { 0 } else { channel };
        ((pixel * (3 + image) + 7 * channel) as f32 * 0.37).sin()
    };
    let shape = [2, channels, 40, 32];
    let input = Stored::floats(&shape, (0..shape.iter().product()).map(value));
    write_tensors(path, &Tensors::from([("input".to_string(), input)]));
}

/// The pictures of [`picture_folder`] with a tint.
fn colour_folder(data: &Path) {
    for class in CLASSES {
        fs::create_dir_all(data.join(class)).unwrap();
        for index in 0..6 {
            let grey = picture(class, index);
            let tint = |x, y| {
                let value = grey.get_pixel(x, y)[0];
                Rgb([value, value / 2, 255 - value])
            };
            let image = RgbImage::from_fn(grey.width(), grey.height(), tint);
            image.save(data.join(class).join(format!("{index}.png"))).unwrap();
        }
    }
}

/// Names of the tensors that are not the same in both.
fn changed<'a>(before: &'a Tensors, after: &Tensors) -> Vec<&'a str> {
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    before.iter().filter(|(name, tensor)| after[*name] != **tensor).map(|(name, _)| name.as_str()).collect()
}

fn names_where(tensors: &Tensors, wanted: impl Fn(&str) -> bool) -> Vec<&str> {
    let names: Vec<&str> = tensors.keys().map(String::as_str).filter(|name| wanted(name)).collect();
    assert!(!names.is_empty(), "no tensor has such a name");
    names
}

#[test]
fn weights_under_any_librarys_keys_give_the_same_logits_to_the_last_bit() {
    let trained = Trained::new();
    let input = trained.path("input.safetensors");
    images(&input, 1, false);
    let own = trained.forward(&trained.run.join("weights.safetensors"), &input, "--features");
    assert_eq!(own["logits"].shape, [2, 3]);
    assert!(own["logits"].values().iter().all(|logit| logit.is_finite()));
    for keys in KEYS {
        let file = trained.export(&format!("--keys {keys}"), keys);
        assert_eq!(trained.forward(&file, &input, "--features"), own, "{keys}");
        // The network that was filled from the file is the network that wrote it.
        let again = trained.path("again");
        let mut command = kindling();
        command.args(["export", "--model", MODEL, "--channels", "1", "--keys", keys, "--weights"]).arg(&file);
        Outcome::of(command.arg("--output").arg(&again)).succeeded();
        assert_eq!(fs::read(&again).unwrap(), fs::read(&file).unwrap(), "{keys}");
    }
}

#[test]
fn weights_of_another_precision_are_converted() {
    let trained = Trained::new();
    let (input, double) = (trained.path("input.safetensors"), trained.path("double.safetensors"));
    images(&input, 1, false);
    let weights = trained.export("", "weights");
    let widen = |tensor: Stored| match tensor.dtype.as_str() {
        "F32" => {
            let bytes = tensor.values().into_iter().flat_map(|value| f64::from(value).to_le_bytes()).collect();
            Stored { dtype: "F64".to_string(), shape: tensor.shape, bytes }
        }
        _ => tensor,
    };
    write_tensors(&double, &read_tensors(&weights).into_iter().map(|(name, it)| (name, widen(it))).collect());
    assert_eq!(trained.forward(&double, &input, ""), trained.forward(&weights, &input, ""));
}

#[test]
fn exported_tensors_have_the_librarys_keys_shapes_and_types() {
    let trained = Trained::new();
    let expected: [(&str, usize, &[Expected]); 2] = [
        (
            "torchvision",
            244,
            &[
                ("features.0.0.weight", &[16, 1, 3, 3]),
                ("features.0.1.running_var", &[16]),
                ("features.1.block.1.fc1.weight", &[8, 16, 1, 1]),
                ("features.1.block.1.fc2.bias", &[16]),
                ("features.12.0.weight", &[576, 96, 1, 1]),
                ("classifier.0.weight", &[1024, 576]),
                ("classifier.3.weight", &[3, 1024]),
            ],
        ),
        (
            "timm",
            244,
            &[
                ("conv_stem.weight", &[16, 1, 3, 3]),
                ("bn1.running_var", &[16]),
                ("blocks.0.0.se.conv_reduce.weight", &[8, 16, 1, 1]),
                ("blocks.0.0.se.conv_expand.bias", &[16]),
                ("blocks.5.0.conv.weight", &[576, 96, 1, 1]),
                ("conv_head.weight", &[1024, 576, 1, 1]),
                ("classifier.weight", &[3, 1024]),
            ],
        ),
    ];
    for (keys, count, shapes) in expected {
        let tensors = read_tensors(&trained.export(&format!("--keys {keys}"), keys));
        assert_eq!(tensors.len(), count, "{keys}");
        for (name, shape) in shapes {
            let tensor = tensors.get(*name).unwrap_or_else(|| panic!("{keys}: no `{name}`"));
            assert_eq!((tensor.dtype.as_str(), tensor.shape.as_slice()), ("F32", *shape), "{keys}: {name}");
        }
        // One counter beside each mean, as `load_state_dict(strict=True)` wants it.
        let counters = names_where(&tensors, |name| name.ends_with(".num_batches_tracked"));
        let means = names_where(&tensors, |name| name.ends_with(".running_mean"));
        assert_eq!(counters.len(), means.len(), "{keys}");
        for name in counters {
            let counter = &tensors[name];
            assert_eq!(*counter, Stored { dtype: "I64".into(), shape: vec![], bytes: vec![0; 8] }, "{keys}: {name}");
        }
    }
    // Its own keys are those of a run's weights, and without --keys the name of the model decides.
    let own = read_tensors(&trained.export("--keys kindling", "own"));
    assert_eq!(own, read_tensors(&trained.run.join("weights.safetensors")));
    assert!(own.contains_key("stem.conv.weight") && !own.keys().any(|name| name.contains("num_batches")));
    let same = |a: &str, b: &str| fs::read(trained.path(a)).unwrap() == fs::read(trained.path(b)).unwrap();
    trained.export("", "default");
    assert!(same("default", "torchvision"), "{MODEL} is torchvision's name");
    let sentence = Outcome::of(
        kindling()
            .args(["export", "--model", "mixnet_s", "--keys", "torchvision", "--output", "a", "--weights"])
            .arg(trained.path("own")),
    )
    .refused();
    assert!(sentence.contains("mixnet_s") && !Path::new("a").exists(), "{sentence}");
}

#[test]
fn equal_inputs_give_equal_bytes() {
    let trained = Trained::new();
    for flags in ["--keys timm", "--keys kindling", "--format onnx", "--format onnx --image-size 64 --last"] {
        let files = ["one", "other"].map(|name| fs::read(trained.export(flags, name)).unwrap());
        assert!(files[0] == files[1], "two files of {flags}");
        assert!(files[0].len() > 4 * 1_500_000, "{flags}: {} bytes for 1.5 million numbers", files[0].len());
    }
    let input = trained.path("input.safetensors");
    images(&input, 3, false);
    let initial = |flags: &str| {
        let output = trained.path("output.safetensors");
        Outcome::of(&mut forward(&input, &output, flags)).succeeded();
        fs::read(output).unwrap()
    };
    let logits = initial("--seed 3");
    assert!(logits == initial("--seed 3"), "the same seed gives the same weights and the same logits");
    for other in ["--seed 4", "--seed 3 --train-mode", "--seed 3 --features"] {
        assert!(logits != initial(other), "{other} gives the same file");
    }
}

#[test]
fn forward_writes_logits_and_the_maps_that_show_describes() {
    let folder = tempdir().unwrap();
    let (input, output) = (folder.path().join("input"), folder.path().join("output"));
    images(&input, 2, false);
    let square = Stored::floats(&[2, 2, 64, 64], (0..2 * 2 * 64 * 64).map(|index| (index as f32 * 0.37).sin()));
    write_tensors(&input, &Tensors::from([("input".to_string(), square)]));
    for model in [MODEL, "resnet18", "ghostnet_100"] {
        let mut command = kindling();
        command.args(["forward", "--device", "cpu", "--features", "--model", model]).arg("--input").arg(&input);
        Outcome::of(command.arg("--output").arg(&output)).succeeded();
        let found = read_tensors(&output);
        let shown = Outcome::of(kindling().args([
            "models",
            "show",
            model,
            "--channels",
            "2",
            "--image-size",
            "64",
            "--format",
            "json",
        ]));
        let stages: Vec<Value> = shown.succeeded().result()["stages"].as_array().unwrap().clone();
        assert_eq!(found.len(), 1 + stages.len(), "{model}: {:?}", found.keys());
        assert_eq!(found["logits"].shape, [2, 1000], "{model}");
        for (index, stage) in stages.iter().enumerate() {
            let shape = json!([2, stage["channels"], stage["height"], stage["width"]]);
            assert_eq!(json!(found[&format!("features.{index}")].shape), shape, "{model}: {stage}");
        }
    }
}

#[test]
fn a_network_for_grey_images_takes_the_weights_of_one_for_colour() {
    let trained = Trained::on(colour_folder);
    let (grey, colour) = (trained.path("grey"), trained.path("colour"));
    images(&grey, 1, true);
    images(&colour, 3, true);
    for keys in KEYS {
        let weights = trained.export(&format!("--keys {keys}"), keys);
        let stem = read_tensors(&weights).into_values().find(|tensor| tensor.shape == [16, 3, 3, 3]);
        assert!(stem.is_some(), "the run learnt colours");
        let expected = trained.forward(&weights, &colour, "")["logits"].values();
        let found = trained.forward(&weights, &grey, "")["logits"].values();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            let difference = (found - expected).abs();
            assert!(difference < 1e-4 * expected.abs().max(1.0), "{keys}: {found} instead of {expected}");
        }
        let output = trained.path("output.safetensors");
        let said = Outcome::of(forward(&grey, &output, "").arg("--weights").arg(&weights)).succeeded().stderr;
        assert!(said.contains("3 input channels were summed into 1"), "{said}");
    }
    // In the other direction nothing says which keys are meant.
    let weights = Trained::new();
    let file = weights.export("", "file");
    let sentence = Outcome::of(forward(&colour, &grey, "").arg("--weights").arg(file)).refused();
    assert!(sentence.contains("[16, 1, 3, 3]") && sentence.contains("[16, 3, 3, 3]"), "{sentence}");
}

#[test]
fn a_run_says_what_it_starts_from_and_that_a_head_of_other_classes_is_new() {
    let trained = Trained::new();
    let weights = trained.export("--keys timm", "weights");
    let (_, outcome) = trained.train_from(&weights, "same", "--batch-size 4 --max-steps 1");
    assert!(outcome.stderr.contains("starting from 210 tensors under timm's keys"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("head"), "{}", outcome.stderr);

    fs::remove_dir_all(trained.data.join("striped")).unwrap();
    let (run, outcome) = trained.train_from(&weights, "fewer", "--batch-size 4 --max-steps 1 --freeze backbone");
    assert!(outcome.stderr.contains("the head of 3 classes was not used"), "{}", outcome.stderr);
    let (before, after) = (read_tensors(&weights), read_tensors(&export(&run, "--keys timm", &trained.path("after"))));
    assert_eq!(after["classifier.weight"].shape, [2, 1024]);
    assert_eq!(after["conv_stem.weight"], before["conv_stem.weight"], "all else is taken");

    // The configuration records what the run started from, and repeats it.
    let repeated = trained.path("repeated");
    let mut command = kindling();
    command.arg("train").arg("--config").arg(run.join("config.toml")).arg("--out").arg(&repeated);
    let outcome = Outcome::of(&mut command).succeeded();
    assert!(outcome.stderr.contains("the head of 3 classes was not used"), "{}", outcome.stderr);
    assert_same_bits(&run, &repeated, "repeated");
}

#[test]
fn a_frozen_backbone_keeps_every_bit_and_the_head_learns() {
    let trained = Trained::new();
    let weights = trained.export("--keys kindling --last", "before");
    let (run, _) = trained.train_from(&weights, "frozen", "--batch-size 4 --max-steps 3 --freeze backbone");
    let (before, after) =
        (read_tensors(&weights), read_tensors(&export(&run, "--keys kindling --last", &trained.path("after"))));
    let head = names_where(&before, |name| name.starts_with("head.hidden") || name.starts_with("head.classifier"));
    assert_eq!(changed(&before, &after), head);
}

#[test]
fn frozen_stages_keep_every_bit_and_the_others_learn() {
    let trained = Trained::new();
    let weights = trained.export("--keys kindling --last", "before");
    let (run, _) = trained.train_from(&weights, "frozen", "--batch-size 4 --max-steps 3 --freeze 2");
    let (before, after) =
        (read_tensors(&weights), read_tensors(&export(&run, "--keys kindling --last", &trained.path("after"))));
    let frozen = |name: &str| ["stem.", "stages.0.", "stages.1."].iter().any(|start| name.starts_with(start));
    assert_eq!(names_where(&before, frozen).len(), 5 + 14 + 30);
    assert_eq!(changed(&before, &after), names_where(&before, |name| !frozen(name)));
}

#[test]
fn a_frozen_run_is_resumed_as_it_was_and_ends_with_the_same_bits() {
    let trained = Trained::new();
    let weights = trained.export("", "weights");
    let flags = "--batch-size 4 --epochs 2 --checkpoint-steps 1 --freeze backbone";
    let (straight, _) = trained.train_from(&weights, "straight", flags);
    let (run, _) = trained.train_from(&weights, "resumed", flags);
    // As if it had been killed after the checkpoint before the last.
    let newest = checkpoints(&run).pop().unwrap();
    fs::remove_dir_all(newest).unwrap();
    for (flag, words) in [
        ("--freeze 2", "--freeze is 2, the run has backbone"),
        ("--freeze none", "--freeze is none, the run has backbone"),
        ("--pretrained", "--pretrained"),
        ("--weights elsewhere.pth", "--weights"),
    ] {
        let sentence = Outcome::of(resume(&run).args(flag.split(' '))).refused();
        assert!(sentence.contains(words) && sentence.contains("cannot be resumed"), "{flag}: {sentence}");
    }
    Outcome::of(resume(&run).args(["--freeze", "backbone"])).succeeded();
    assert_same_bits(&straight, &run, "resumed");
}
