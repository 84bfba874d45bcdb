//! Real weights on a real photograph: what `scripts/fetch-weights.sh` brings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kindling_tests::{
    Optional, Outcome, Stored, Tensors, kindling, read_tensors, run_optional, toml_value, write_tensors,
};
use serde_json::Value;
use tempfile::tempdir;

/// How probable it is that the photograph shows an espresso, and how far off we may be: computed with PyTorch 2.15 and
/// timm 1.0.31, images scaled with antialiasing in floating point.
const ESPRESSO: [(&str, f64, f64); 4] = [
    ("mobilenet_v2", 0.991040, 1e-4),
    ("tf_efficientnet_lite0", 0.951479, 2e-4),
    ("tf_efficientnet_lite1", 0.534837, 2e-4),
    ("tf_efficientnet_lite2", 0.892048, 2e-4),
];

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_DATA" };
    run_optional(
        need,
        &[
            ("a_photograph_is_what_pytorch_says_it_is", a_photograph_is_what_pytorch_says_it_is),
            ("each_name_of_the_same_network_has_its_weights", each_name_of_the_same_network_has_its_weights),
            ("pretrained_weights_are_exported_under_other_keys", pretrained_weights_are_exported_under_other_keys),
            ("a_run_starts_from_pretrained_weights", a_run_starts_from_pretrained_weights),
            (
                "a_network_for_segmentation_starts_with_a_pretrained_encoder",
                segmentation_starts_with_a_pretrained_encoder,
            ),
        ],
    )
}

/// Only data that was never fetched counts as missing; data that was fetched and is damaged must fail.
fn missing() -> Option<String> {
    let list = Outcome::of(kindling().args(["models", "--pretrained", "--format", "json"])).succeeded().stdout;
    let files = list.lines().flat_map(|line| {
        let model: Value = serde_json::from_str(line).expect("a JSON object a line");
        let known = model["pretrained"].as_array().cloned().unwrap_or_default();
        known.into_iter().filter_map(|known| known["file"].as_str().map(|file| cache().join("weights").join(file)))
    });
    let absent = files.chain([photograph()]).any(|path| !path.exists());
    absent.then(|| "pretrained weights: run scripts/fetch-weights.sh".to_string())
}

/// Where the script puts what it brings.
fn cache() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    variable("KINDLING_DATA").or_else(|| Some(user()?.join("kindling"))).unwrap_or_default()
}

fn photograph() -> PathBuf {
    cache().join("photos/coffee.png")
}

/// The most probable class of the photograph and its probability.
fn predict(model: &str) -> (String, f64) {
    let mut command = kindling();
    command.args(["predict", "--model", model, "--top", "3", "--format", "json", "--device", "cpu"]);
    let row = Outcome::of(command.arg(photograph())).succeeded().result();
    let top = row["top"].as_array().expect("the most probable classes");
    let probabilities: Vec<f64> = top.iter().filter_map(|it| it["probability"].as_f64()).collect();
    assert!(probabilities.len() == 3 && probabilities.is_sorted_by(|a, b| a >= b), "{model}: {row}");
    (top[0]["class"].as_str().unwrap_or_default().to_string(), probabilities[0])
}

fn a_photograph_is_what_pytorch_says_it_is() {
    for (model, expected, tolerance) in ESPRESSO {
        let (class, probability) = predict(model);
        assert_eq!(class, "espresso", "{model}");
        assert!((probability - expected).abs() < tolerance, "{model}: {probability} instead of {expected}");
    }
    // All classes of a row, and the same number.
    let mut command = kindling();
    command.args(["predict", "--model", "mobilenet_v2", "--device", "cpu"]).arg(photograph());
    let csv = Outcome::of(&mut command).succeeded().stdout;
    let [header, row] = csv.lines().collect::<Vec<_>>()[..] else { panic!("{csv}") };
    assert!(header.starts_with("file,class,tench,goldfish,"), "{header}");
    assert!(row.contains("coffee.png,espresso,"), "{row}");
    let mut sum = 0.0;
    for probability in row.split(',').skip(2) {
        sum += probability.parse::<f64>().expect("a probability");
    }
    assert!(row.split(',').count() == 1002 && (sum - 1.0).abs() < 1e-3, "{sum}");
}

fn each_name_of_the_same_network_has_its_weights() {
    assert_eq!(predict("mobilenetv2_100"), predict("mobilenet_v2"));
    assert_eq!(predict("torchvision.MobileNet_V2"), predict("mobilenet_v2"));
}

fn pretrained_weights_are_exported_under_other_keys() {
    let folder = tempdir().expect("a temporary folder");
    let [input, output, weights] = ["input", "output", "weights"].map(|name| folder.path().join(name));
    let pixels = Stored::floats(&[1, 3, 64, 64], (0..3 * 64 * 64).map(|index| (index as f32 * 0.01).sin()));
    write_tensors(&input, &Tensors::from([("input".to_string(), pixels)]));
    for (model, keys, stem) in [
        ("mobilenet_v2", "timm", "conv_stem.weight"),
        ("mobilenet_v2", "torchvision", "features.0.0.weight"),
        ("tf_efficientnet_lite0", "timm", "conv_stem.weight"),
        ("tf_efficientnet_lite0", "kindling", "stem.conv.weight"),
    ] {
        let mut command = kindling();
        command.args(["export", "--model", model, "--pretrained", "--keys", keys, "--output"]).arg(&weights);
        Outcome::of(&mut command).succeeded();
        assert_eq!(read_tensors(&weights)[stem].shape, [32, 3, 3, 3], "{model} for {keys}");
        let logits = |flags: &[&Path]| {
            let mut command = kindling();
            command.args(["forward", "--device", "cpu", "--model", model, "--input"]).arg(&input);
            Outcome::of(command.arg("--output").arg(&output).args(flags)).succeeded();
            fs::read(&output).expect("an output")
        };
        let [flag, pretrained] = ["--weights", "--pretrained"].map(Path::new);
        assert!(logits(&[flag, &weights]) == logits(&[pretrained]), "{model} with {keys}'s keys gives other logits");
    }
}

fn a_run_starts_from_pretrained_weights() {
    let folder = tempdir().expect("a temporary folder");
    let run = folder.path().join("run");
    let mut command = kindling();
    command.args("train --data phantoms --model mobilenet_v2 --pretrained --freeze backbone --device cpu".split(' '));
    command.args("--image-size 64 --batch-size 4 --max-steps 2".split(' ')).arg("--out").arg(&run);
    let outcome = Outcome::of(&mut command).succeeded();
    for words in [
        "starting from 260 tensors under torchvision's keys",
        "3 input channels were summed into 1",
        "the head of 1000 classes was not used",
    ] {
        assert!(outcome.stderr.contains(words), "`{words}` is not said\n{}", outcome.all());
    }
    assert_eq!(outcome.result()["steps"], 2);
    let config = run.join("config.toml");
    assert_eq!(toml_value(&config, "freeze"), "\"backbone\"");
    assert!(toml_value(&config, "pretrained").starts_with("\"b03531047ffa"), "the file's checksum is kept");
    // The images are prepared as the weights expect: the mean of torchvision's three means.
    let mean: f64 = toml_value(&config, "mean").trim_matches(['[', ']']).parse().expect("a mean");
    assert!((mean - (0.485 + 0.456 + 0.406) / 3.0).abs() < 1e-6, "{mean}");
}

/// The encoder has the weights of the classifier, and only it. At a learning rate of next to nothing they stay what they were.
fn segmentation_starts_with_a_pretrained_encoder() {
    let folder = tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let exported = |name: &str, flags: &[&str]| {
        let mut command = kindling();
        command.arg("export").args(flags).arg("--out").arg(at(name));
        Outcome::of(&mut command).succeeded();
        read_tensors(&at(name))
    };
    let of_run = |name: &str, more: &[&str]| {
        let mut command = kindling();
        command.args("train --task segmentation --data phantoms --model unet-mobilenet_v2 --device cpu".split(' '));
        command.args("--image-size 64 --batch-size 4 --max-steps 1 --lr 1e-12 --weight-decay 0".split(' ')).args(more);
        let outcome = Outcome::of(command.arg("--out").arg(at(name))).succeeded();
        let run = at(name).to_string_lossy().into_owned();
        (exported(&format!("{name}.safetensors"), &[run.as_str()]), outcome)
    };
    let classifier =
        exported("classifier.safetensors", &["--model", "mobilenet_v2", "--pretrained", "--keys", "torchvision"]);
    let (pretrained, outcome) = of_run("pretrained", &["--pretrained"]);
    for said in
        ["for the encoder; the decoder and the head start from random weights", "3 input channels were summed into 1"]
    {
        assert!(outcome.stderr.contains(said), "{}", outcome.all());
    }
    assert!(!outcome.stderr.contains("1000 classes"), "the classifier's head has no part in it: {}", outcome.all());
    let (drawn, _) = of_run("drawn", &[]);

    let last = "features.17.conv.2.weight";
    let of_encoder = format!("encoder.{last}");
    let far = |other: &Tensors| apart(&classifier[last], &other[&of_encoder]);
    assert!(far(&pretrained) < 1e-6 && far(&drawn) > 1e-3, "{} and {}", far(&pretrained), far(&drawn));
    let head = "segmentation_head.0.weight";
    assert!(apart(&pretrained[head], &drawn[head]) < 1e-6, "what is no encoder is drawn as ever");
}

/// The largest difference of two tensors.
fn apart(one: &Stored, other: &Stored) -> f32 {
    assert_eq!(one.shape, other.shape);
    let differences = one.values().into_iter().zip(other.values()).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max)
}
