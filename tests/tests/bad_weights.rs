//! Weights that are another model's, damaged, or meant to do harm: one sentence that says what and where, within little
//! memory and time, and nothing is written.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kindling_tests::{
    Outcome, Stored, Tensors, assert_says, kindling, picture_folder, read_tensors, train, write_tensors,
};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

const MODEL: &str = "mobilenet_v3_small";
/// Torchvision's key of the first convolution, which has the shape [16, 1, 3, 3] here.
const STEM: &str = "features.0.0.weight";
/// That of the classifier, [3, 1024].
const HEAD: &str = "classifier.3.weight";

/// Good weights of a run, and what is needed to use others in their place.
struct Place {
    folder: TempDir,
    data: PathBuf,
    good: PathBuf,
    input: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempdir().unwrap();
        let [data, run, good, input] =
            ["data", "run", "good.safetensors", "input"].map(|name| folder.path().join(name));
        picture_folder(&data, 3);
        Outcome::of(&mut train(&data, &run, "--batch-size 4 --max-steps 1")).succeeded();
        let mut command = kindling();
        command.arg("export").arg(run).args(["--keys", "torchvision", "--output"]).arg(&good);
        Outcome::of(&mut command).succeeded();
        let pixels = Stored::floats(&[1, 1, 32, 32], (0..32 * 32).map(|index| index as f32 / 1024.0));
        write_tensors(&input, &Tensors::from([("input".to_string(), pixels)]));
        Self { folder, data, good, input }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn forward(&self, weights: &Path) -> Command {
        let mut command = kindling();
        command.args(["forward", "--device", "cpu", "--model", MODEL, "--weights"]).arg(weights);
        command.arg("--input").arg(&self.input).arg("--output").arg(self.path("output"));
        command
    }

    fn export(&self, weights: &Path) -> Command {
        let mut command = kindling();
        command.args(["export", "--model", MODEL, "--channels", "1", "--weights"]).arg(weights);
        command.arg("--output").arg(self.path("output"));
        command
    }

    fn train(&self, weights: &Path) -> Command {
        let mut command = train(&self.data, &self.path("started"), "--batch-size 4 --max-steps 1");
        command.arg("--weights").arg(weights);
        command
    }

    /// The sentence with which all commands refuse these weights, none of them having written anything.
    fn refused(&self, weights: &Path) -> String {
        let sentence = Outcome::of(&mut self.forward(weights)).refused();
        assert_eq!(Outcome::of(&mut self.export(weights)).refused(), sentence, "export says something else");
        assert!(!self.path("output").exists(), "something was written: {sentence}");
        sentence
    }

    /// The same for a changed copy of the good weights.
    fn refused_with(&self, change: impl FnOnce(&mut Tensors)) -> String {
        let path = self.path("changed.safetensors");
        let mut tensors = read_tensors(&self.good);
        change(&mut tensors);
        write_tensors(&path, &tensors);
        let sentence = self.refused(&path);
        assert_says(&sentence, &["changed.safetensors"]);
        sentence
    }
}

/// Files that `make.py` made for the tests of the zoo.
fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/zoo/tests/files").join(name)
}

fn tensor(dtype: &str, shape: &[usize], bytes: usize) -> Stored {
    Stored { dtype: dtype.to_string(), shape: shape.to_vec(), bytes: vec![0; bytes] }
}

#[test]
fn the_first_tensor_that_does_not_fit_is_named_with_both_shapes() {
    let place = Place::new();
    let sentence = place.refused_with(|tensors| drop(tensors.remove(STEM)));
    assert_says(&sentence, &[MODEL, &format!("`{STEM}` is missing")]);
    let sentence = place.refused_with(|tensors| drop(tensors.insert("extra.bias".into(), tensor("F32", &[2], 8))));
    assert_says(&sentence, &["`extra.bias` is not a tensor of this model"]);
    let sentence = place.refused_with(|tensors| tensors.get_mut(STEM).unwrap().shape = vec![16, 1, 9, 1]);
    assert_says(&sentence, &[&format!("`{STEM}` has shape [16, 1, 9, 1] where the model has [16, 1, 3, 3]")]);
    let sentence = place.refused_with(|tensors| drop(tensors.insert(STEM.into(), tensor("I64", &[16, 1, 3, 3], 1152))));
    assert_says(&sentence, &[&format!("`{STEM}` holds I64, not floating-point numbers")]);
    let sentence = place.refused_with(|tensors| drop(tensors.insert(STEM.into(), tensor("BOOL", &[16, 1, 3, 3], 144))));
    assert_says(&sentence, &[STEM, "BOOL"]);
    // Renamed weights belong to no model.
    let sentence = place.refused_with(|tensors| {
        *tensors = std::mem::take(tensors).into_iter().map(|(name, it)| (format!("net:{name}"), it)).collect();
    });
    assert_says(&sentence, &["keys like `net:classifier.0.bias`", "none like `head.classifier.bias`"]);
    // A variance cannot be negative.
    let sentence = place.refused_with(|tensors| {
        let (name, variances) = tensors.iter_mut().find(|(name, _)| name.ends_with("running_var")).unwrap();
        variances.bytes[..4].copy_from_slice(&(-0.5f32).to_le_bytes());
        assert!(!name.is_empty());
    });
    assert_says(&sentence, &["running_var` holds -0.5, and a variance is a finite number from 0 up"]);
    // The wrapper of a training script is removed.
    let wrapped = place.path("wrapped.safetensors");
    let tensors = read_tensors(&place.good).into_iter().map(|(name, it)| (format!("state_dict.module.{name}"), it));
    write_tensors(&wrapped, &tensors.collect());
    Outcome::of(&mut place.forward(&wrapped)).succeeded();
}

#[test]
fn a_head_or_stem_that_claims_too_much_or_nothing_is_refused() {
    let place = Place::new();
    // No elements, so no bytes: the file is small and the claim is not.
    let sentence = place.refused_with(|tensors| drop(tensors.insert(HEAD.into(), tensor("F32", &[1 << 40, 0], 0))));
    assert_says(&sentence, &["where the model has"]);
    let sentence = place.refused_with(|tensors| drop(tensors.insert(HEAD.into(), tensor("F32", &[], 4))));
    assert_says(&sentence, &["where the model has"]);
    let sentence = place.refused_with(|tensors| drop(tensors.insert(HEAD.into(), tensor("F32", &[0, 1024], 0))));
    assert_says(&sentence, &["at least 2 classes, not 0"]);
    let sentence = place.refused_with(|tensors| drop(tensors.insert(HEAD.into(), tensor("F32", &[3, 512], 6144))));
    assert_says(&sentence, &[&format!("`{HEAD}` has shape [3, 512] where the model has [3, 1024]")]);
    let sentence = place.refused_with(|tensors| drop(tensors.insert(STEM.into(), tensor("F32", &[16, 0, 3, 3], 0))));
    assert_says(&sentence, &["[16, 0, 3, 3]", "[16, 1, 3, 3]"]);
    assert_says(&place.refused_with(Tensors::clear), &["no tensor"]);
}

#[test]
fn training_does_not_start_from_weights_that_do_not_fit() {
    let place = Place::new();
    let path = place.path("changed.safetensors");
    let mut tensors = read_tensors(&place.good);
    tensors.remove(STEM);
    write_tensors(&path, &tensors);
    let sentence = Outcome::of(&mut place.train(&path)).refused();
    assert_says(&sentence, &["changed.safetensors", MODEL, &format!("`{STEM}` is missing")]);
    let _ = fs::remove_dir_all(place.path("started"));
    assert_says(
        &Outcome::of(&mut place.train(&made("legacy.pth"))).refused(),
        &["legacy.pth", "it has keys like `bfloat`"],
    );
    assert_says(&Outcome::of(&mut place.train(&place.path("nowhere.pth"))).refused(), &["nowhere.pth", "No such file"]);
}

#[test]
fn weights_of_another_model_are_refused() {
    let place = Place::new();
    let mut wrong = place.forward(&place.good);
    wrong.args(["--model", "mobilenet_v2"]);
    // The last --model would win if it could be given twice.
    assert_says(&Outcome::of(&mut wrong).refused(), &["--model"]);
    for model in ["mobilenet_v2", "mobilenet_v3_large", "resnet18", "ghostnet_100"] {
        let mut command = kindling();
        command.args(["export", "--model", model, "--channels", "1", "--output"]).arg(place.path("output"));
        let sentence = Outcome::of(command.arg("--weights").arg(&place.good)).refused();
        assert_says(&sentence, &["good.safetensors", "does not hold weights of", model]);
        assert!(!place.path("output").exists());
    }
}

#[test]
fn a_damaged_file_is_refused() {
    let place = Place::new();
    let good = fs::read(&place.good).unwrap();
    let bad = place.path("bad");
    let mut huge_header = good.clone();
    huge_header[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut no_json = good.clone();
    no_json[8..40].fill(b'[');
    let texts: [&[u8]; 4] = [b"", b"{", b"PK\x03\x04", b"These are no weights, but a text that somebody wrote.\n"];
    let cuts = [4, 8, 9, 1000, good.len() / 2, good.len() - 1].map(|length| &good[..length]);
    let longer = [good.as_slice(), b"more"].concat();
    for content in cuts.iter().chain(&texts).copied().chain([huge_header.as_slice(), &no_json, &longer]) {
        fs::write(&bad, content).unwrap();
        assert_says(&place.refused(&bad), &["bad is not a usable weights file"]);
    }
    for name in ["zip.pth", "deflated.pth", "legacy.pth", "checkpoint.pth"] {
        let whole = fs::read(made(name)).unwrap();
        for length in [1, 30, 300, whole.len() / 2, whole.len() - 23, whole.len() - 1] {
            fs::write(&bad, &whole[..length]).unwrap();
            assert_says(&place.refused(&bad), &["bad is not a usable weights file"]);
        }
    }
    // A folder could be a run, whose best weights are then meant.
    assert_says(&place.refused(place.folder.path()), &["holds no run"]);
    assert_says(&place.refused(&place.path("nowhere.pth")), &["cannot read", "nowhere.pth"]);
}

#[test]
fn a_safetensors_file_that_is_cut_off_is_told_apart_from_files_of_pytorch_wherever_it_was_cut() {
    let place = Place::new();
    let good = fs::read(&place.good).unwrap();
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    for (length, inside) in
        [(9, "in its header"), (1000, "in its header"), (header - 1, "in its header"), (header, ":")]
    {
        let path = place.path("cut");
        fs::write(&path, &good[..length]).unwrap();
        let sentence = place.refused(&path);
        assert_says(&sentence, &["it is cut off", inside, "copy or download it again"]);
        assert!(!sentence.contains("PyTorch"), "{sentence}");
    }
}

#[test]
fn files_that_claim_much_are_refused_within_little_memory_and_time() {
    let place = Place::new();
    let text = fs::read_to_string(made("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    for (name, words) in expected["refused"].as_object().unwrap() {
        let plain = place.forward(&made(name));
        // Where there is a shell, with less memory than any of these files claims to need.
        let mut command = if cfg!(target_os = "linux") {
            let mut limited = Command::new("sh");
            limited
                .args(["-c", "ulimit -v 4000000; exec \"$0\" \"$@\""])
                .arg(plain.get_program())
                .args(plain.get_args());
            limited
        } else {
            plain
        };
        let began = Instant::now();
        let sentence = Outcome::of(&mut command).refused();
        let took = began.elapsed();
        assert_says(&sentence, &[name, words.as_str().unwrap(), "not a usable weights file"]);
        assert!(took < Duration::from_secs(20), "{name} took {took:?}");
    }
}

#[test]
fn code_in_a_file_is_not_run() {
    let place = Place::new();
    for name in ["runs_code.pkl", "runs_code.pth", "runs_code_legacy.pth"] {
        assert!(
            fs::read(made(name)).unwrap().windows(16).any(|part| part == b"kindling-was-her"),
            "{name} holds no code"
        );
        for mut command in [place.forward(&made(name)), place.export(&made(name)), place.train(&made(name))] {
            let sentence = Outcome::of(command.current_dir(place.folder.path())).refused();
            assert_says(&sentence, &[name]);
            assert!(!place.path("kindling-was-here").exists(), "{command:?} ran the code in {name}");
            let _ = fs::remove_dir_all(place.path("started"));
        }
    }
}

#[test]
fn pretrained_weights_that_were_not_fetched_or_are_damaged_are_answered_with_the_script() {
    let place = Place::new();
    let file = "weights/mobilenet_v2-b0353104.pth";
    let commands = [
        "predict --model mobilenet_v2 a.png",
        "train --model mobilenet_v2 --data data --image-size 32 --pretrained --out started",
        "forward --model mobilenet_v2 --pretrained --input input --output output",
        "export --model mobilenet_v2 --pretrained --output output",
    ];
    let refused = |arguments: &str| {
        let mut command = kindling();
        command.args(arguments.split(' ')).current_dir(place.folder.path()).env("KINDLING_DATA", place.folder.path());
        let sentence = Outcome::of(&mut command).refused();
        assert!(!place.path("started").exists() && !place.path("output").exists(), "{arguments} wrote something");
        sentence
    };
    for command in commands {
        assert_says(&refused(command), &[file, "is not there", "scripts/fetch-weights.sh"]);
    }
    fs::create_dir(place.path("weights")).unwrap();
    fs::write(place.path(file), "half a download").unwrap();
    for command in commands {
        assert_says(&refused(command), &[file, "is damaged", "scripts/fetch-weights.sh"]);
    }
    let sentence = refused("predict --model efficientnet_lite0 a.png");
    assert_says(&sentence, &["efficientnet_lite0", "other details", "--model tf_efficientnet_lite0"]);
    assert_says(&refused("predict --model resnet18 a.png"), &["resnet18", "models --pretrained", "--weights"]);
}

#[test]
fn an_input_that_is_none_is_refused() {
    let mut place = Place::new();
    let floats = |shape: &[usize]| Stored::floats(shape, vec![0.0; shape.iter().product()]);
    let cases = [
        ("other", floats(&[1, 1, 32, 32]), "no tensor `input`"),
        ("input", floats(&[32, 32]), "[32, 32]"),
        ("input", floats(&[0, 1, 32, 32]), "n of 1 or more"),
        ("input", floats(&[1, 0, 32, 32]), "at least 1 channel"),
        ("input", floats(&[1, 1, 31, 32]), "32 to 8192 pixels a side, not 31"),
        ("input", floats(&[1, 2, 32, 32]), "[16, 1, 3, 3] where the model has [16, 2, 3, 3]"),
    ];
    place.input = place.path("wrong");
    for (name, tensor, words) in cases {
        write_tensors(&place.input, &Tensors::from([(name.to_string(), tensor)]));
        assert_says(&Outcome::of(&mut place.forward(&place.good)).refused(), &[words]);
    }
    fs::write(&place.input, "no tensors").unwrap();
    assert_says(&Outcome::of(&mut place.forward(&place.good)).refused(), &["wrong is not a safetensors file"]);
    place.input = place.path("nowhere");
    assert_says(&Outcome::of(&mut place.forward(&place.good)).refused(), &["reading", "nowhere"]);
    assert!(!place.path("output").exists());
}

#[test]
fn a_result_that_cannot_be_written_is_said() {
    let place = Place::new();
    for made in [Place::forward as fn(&Place, &Path) -> Command, Place::export] {
        fs::create_dir_all(place.path("output")).unwrap();
        assert_says(&Outcome::of(&mut made(&place, &place.good)).refused(), &["writing", "output"]);
        fs::remove_dir(place.path("output")).unwrap();
        Outcome::of(&mut made(&place, &place.good)).succeeded();
        fs::remove_file(place.path("output")).unwrap();
    }
}
