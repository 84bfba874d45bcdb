//! The zoo: every model can be found, looked at, and, one of each family, trained.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use kindling_tests::{CLASSES, Outcome, assert_says, json_of, kindling, losses, picture_folder, toml_value};
use serde_json::{Value, json};
use tempfile::tempdir;

const GANS: [&str; 2] = ["dcgan_64", "fastgan_512"];

/// One of each family: the smallest, or the one with the most parts of its own.
const FAMILIES: [&str; 9] = [
    "mobilenetv1_100",
    "mobilenetv4_conv_small",
    "efficientnet_b0",
    "tf_efficientnet_lite0",
    "efficientnet_v2_s",
    "mnasnet0_5",
    "mixnet_s",
    "ghostnet_100",
    "resnet18",
];

fn say(arguments: &str) -> Outcome {
    Outcome::of(kindling().args(arguments.split_whitespace()))
}

fn refused(arguments: &str) -> String {
    say(arguments).refused()
}

fn show(arguments: &str) -> Value {
    say(&format!("models show {arguments} --format json")).succeeded().result()
}

/// What `models ... --format json` lists.
fn listed(arguments: &str) -> Vec<Value> {
    let outcome = say(&format!("models {arguments} --format json")).succeeded();
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(arguments: &str) -> Vec<String> {
    listed(arguments).iter().map(|model| text(&model["name"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_string()
}

#[test]
fn a_pattern_matches_every_name_of_a_model_in_any_case() {
    assert_eq!(names("mobilenet_v3*"), ["mobilenet_v3_small", "mobilenet_v3_large"]);
    for (pattern, own) in [
        ("mobilenetv3_small_100", "mobilenet_v3_small"),
        ("tf_*_b5", "efficientnet_b5"),
        ("timm.efficientnet_b5", "efficientnet_b5"),
        ("torchvision.*net_b5", "efficientnet_b5"),
        ("ResNet18", "resnet18"),
        ("DCGAN*", "dcgan_64"),
    ] {
        assert_eq!(names(pattern), [own], "{pattern}");
    }
    let both = names("resnet*");
    assert_eq!(both, ["resnet18", "resnet34", "resnet50"]);
    assert_eq!(names("timm.resnet*"), both);
    assert_eq!(names("unet-resnet*"), ["unet-resnet18", "unet-resnet34"]);
    let table = say("models mixnet*").succeeded().stdout;
    let rows = table.split("\n\n").next().unwrap();
    assert!(rows.lines().count() == 2 && rows.contains("mixnet_s"), "{table}");
    for pattern in ["vgg*", "mobilenet", "*.mobilenet"] {
        assert_says(&refused(&format!("models {pattern}")), &[&format!("`{pattern}`"), "kindling models"]);
    }
}

#[test]
fn models_with_pretrained_weights_are_listed_with_what_one_has_to_know() {
    let models = listed("--pretrained");
    let of: Vec<String> = models.iter().map(|model| text(&model["pretrained"][0]["model"])).collect();
    let lite = |n: u32| format!("tf_efficientnet_lite{n}");
    assert_eq!(of, ["mobilenet_v2".to_string(), lite(0), lite(1), lite(2)]);
    for model in models {
        for known in model["pretrained"].as_array().unwrap() {
            for key in ["file", "sha256", "data", "licence", "origin", "interpolation"] {
                assert!(known[key].as_str().is_some_and(|text| !text.is_empty()), "{known} has no {key}");
            }
            assert_eq!(known["sha256"].as_str().unwrap().len(), 64);
            assert_eq!(known["classes"], 1000);
        }
    }
    assert_says(&refused("models resnet* --pretrained"), &["`resnet*`", "pretrained", "models --pretrained"]);
}

#[test]
fn every_name_that_is_listed_can_be_shown() {
    let models = listed("");
    assert!(models.len() > 35, "{} models", models.len());
    assert!(GANS.iter().all(|gan| models.iter().any(|model| model["name"] == *gan)), "GANs are models too");
    let mut count = 0;
    for model in models {
        let own = text(&model["name"]);
        let aliases = model["aliases"].as_array().unwrap().iter().map(text);
        for name in aliases.chain([own.clone()]) {
            let shown = show(&name);
            assert_eq!(shown["name"], own.as_str(), "{name}");
            assert_eq!(shown["params"], model["params"], "{name}");
            for key in ["params", "macs", "activations"] {
                assert!(shown[key].as_u64() > Some(0), "{name} has no {key}: {shown}");
            }
            let input = shown["input"].as_array().unwrap();
            assert!(input.len() == 3 && input.iter().all(|side| side.as_u64() > Some(0)), "{name}: {shown}");
            assert!(shown["reference"].as_str().is_some_and(|text| !text.is_empty()), "{name}: {shown}");
            assert!(shown["pretrained"].is_array() && shown["stages"].is_array(), "{name}: {shown}");
            count += 1;
        }
    }
    assert!(count > 65, "{count} names");
}

#[test]
fn a_name_decides_whose_details_are_meant() {
    for (name, reference) in [
        ("efficientnet_b5", "torchvision.efficientnet_b5"),
        ("timm.efficientnet_b5", "timm.efficientnet_b5"),
        ("tf_efficientnet_b5", "timm.tf_efficientnet_b5"),
        ("mobilenet_v2", "torchvision.mobilenet_v2"),
        ("MobileNetV2_100", "timm.mobilenetv2_100"),
    ] {
        assert_eq!(show(&format!("{name} --image-size 64"))["reference"], reference, "{name}");
    }
}

#[test]
fn layers_add_up_to_their_model_in_every_family() {
    for model in FAMILIES {
        let shown = show(&format!("{model} --layers --image-size 96 --classes 5 --channels 1"));
        assert_eq!(shown["input"], json!([1, 96, 96]), "{model}");
        let layers = shown["layers"].as_array().unwrap();
        assert_adds_up(&shown, layers, model);
        assert_eq!(layers.last().unwrap()["output"], json!([5, 1, 1]), "{model}");
        // Feature maps halve from one stage to the next, and each is the output of a layer.
        let stages = shown["stages"].as_array().unwrap();
        let reductions: Vec<u64> = stages.iter().map(|stage| stage["reduction"].as_u64().unwrap()).collect();
        assert_eq!(reductions, [2, 4, 8, 16, 32], "{model}");
        for stage in stages {
            let map = json!([stage["channels"], stage["height"], stage["width"]]);
            assert!(layers.iter().any(|layer| layer["output"] == map), "{model}: no layer gives {stage}");
        }
    }
    for gan in GANS {
        let shown = show(&format!("{gan} --layers"));
        let parts = [&shown["generator"], &shown["discriminator"]];
        assert_adds_up(&shown, &parts.map(Value::clone), gan);
        for part in parts {
            assert_adds_up(part, part["layers"].as_array().unwrap(), gan);
        }
    }
}

/// Fails unless the counts of the rows are those of the whole.
fn assert_adds_up(whole: &Value, rows: &[Value], model: &str) {
    for key in ["params", "macs", "activations"] {
        let sum: u64 = rows.iter().map(|row| row[key].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), whole[key].as_u64(), "{key} of {model}");
    }
}

#[test]
fn the_table_of_a_model_says_the_same_as_its_json() {
    let arguments = "ghostnet_100 --layers --image-size 64 --classes 7";
    let (table, shown) = (say(&format!("models show {arguments}")).succeeded().stdout, show(arguments));
    for key in ["params", "macs", "activations", "reference", "paper"] {
        let value = text(&json!(shown[key].to_string().trim_matches('"')));
        assert!(table.lines().any(|line| line.ends_with(&format!(" {value}"))), "{key} {value} is not in\n{table}");
    }
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip_while(|line| !line.starts_with("layer "))
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), shown["layers"].as_array().unwrap().len());
    for (place, key) in [(1, "macs"), (2, "params")] {
        let number = |row: &Vec<&str>| row[row.len() - place].parse::<u64>().unwrap();
        assert_eq!(Some(rows.iter().map(number).sum()), shown[key].as_u64(), "{key}");
    }
}

#[test]
fn an_unknown_name_is_answered_with_near_ones_by_every_command() {
    for (name, near) in [
        ("mobilenetv3small", "`mobilenet_v3_small`"),
        ("resnet5", "`resnet50`"),
        ("efficientnetb0", "`efficientnet_b0`"),
        ("timm.resnet19", "`resnet18`"),
        ("torchvision.ghostnet_100", "`ghostnet_100`"),
    ] {
        let unknown = format!("there is no model `{name}`");
        for command in ["models show NAME", "train --model NAME", "forward --model NAME --input a --output b"] {
            assert_says(&refused(&command.replace("NAME", name)), &[&unknown, "did you mean", near]);
        }
        for command in ["predict --model NAME a.png", "export --model NAME --weights a --output b"] {
            assert_says(&refused(&command.replace("NAME", name)), &[&unknown, near]);
        }
    }
    assert_says(&refused("models show transformer"), &["`transformer`", "`kindling models` lists them"]);
}

#[test]
fn sizes_that_cannot_be_are_refused_in_one_sentence() {
    for model in FAMILIES {
        let sentence = refused(&format!("models show {model} --image-size 31"));
        assert_says(&sentence, &[model, "32 to 8192 pixels", "not 31"]);
    }
    for (arguments, words) in [
        ("mobilenet_v2 --image-size 0", "not 0"),
        ("mobilenet_v2 --image-size 8193", "not 8193"),
        ("resnet18 --classes 0", "at least 2 classes, not 0"),
        ("resnet18 --classes 1", "at least 2 classes, not 1"),
        ("resnet18 --classes 1000000000", "at most 100000"),
        ("resnet18 --channels 1000000000", "at most 1024"),
        ("resnet18 --channels 0", "at least 1 channel"),
        ("resnet18 --channels -1", "-1"),
        ("dcgan_64 --channels 0", "at least 1 channel"),
        ("fastgan_512 --channels 0", "at least 1 channel"),
        ("resnet18 --image-size big", "'big'"),
    ] {
        assert_says(&refused(&format!("models show {arguments}")), &[words]);
    }
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, 3);
    for (flags, words) in [
        ("--model mixnet_s --image-size 31", "32 to 8192"),
        ("--drop-path-rate 1", "--drop-path-rate"),
        ("--drop-path-rate NaN", "--drop-path-rate"),
        ("--freeze backbone", "--pretrained"),
        ("--freeze everything", "'everything'"),
    ] {
        let mut command = kindling();
        command.arg("train").arg("--data").arg(&data).arg("--out").arg(&run).args(flags.split_whitespace());
        assert_says(&Outcome::of(&mut command).refused(), &[words]);
        assert!(!run.exists(), "{flags} left a folder");
    }
}

#[test]
fn what_makes_images_is_shown_but_neither_trained_as_a_classifier_nor_run_as_one() {
    for gan in GANS {
        let table = say(&format!("models show {gan}")).succeeded().stdout;
        assert_says(&table, &["generator", "discriminator", "parameters"]);
        for command in [
            "train --model NAME",
            "forward --model NAME --input a --output b",
            "predict --model NAME a.png",
            "export --model NAME --weights a --output b",
        ] {
            let sentence = refused(&command.replace("NAME", gan));
            assert_says(&sentence, &[gan, "generates images", "not a classifier"]);
        }
    }
}

#[test]
fn a_model_of_each_family_trains_and_is_scored_and_predicts() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    picture_folder(&data, 6);
    for model in FAMILIES {
        let run = folder.path().join(model);
        let mut command = kindling();
        command.arg("train").arg("--data").arg(&data).arg("--out").arg(&run).args(["--model", model]);
        command.args("--image-size 64 --batch-size 4 --epochs 1 --max-steps 2 --device cpu".split(' '));
        if model == "efficientnet_b0" {
            command.args(["--drop-path-rate", "0.2"]);
        }
        let result = Outcome::of(&mut command).succeeded().result();
        assert_eq!(result["steps"], 2, "{model}");
        assert_eq!(losses(&run).len(), 2, "{model}");
        assert_eq!(
            toml_value(&run.join("config.toml"), "name"),
            format!("\"{model}\""),
            "the name decides the details"
        );
        assert_eq!(score(&run), json_of(&run.join("metrics.json"))["test"], "{model}");
        let mut command = kindling();
        command.arg("predict").arg(&run).arg(data.join("dark/00.png")).args(["--device", "cpu", "--format", "json"]);
        let row = Outcome::of(&mut command).succeeded().result();
        let probability = |class: &str| row["probabilities"][class].as_f64().unwrap();
        let sum: f64 = CLASSES.into_iter().map(probability).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{model}: {row}");
    }
    assert_eq!(toml_value(&folder.path().join("efficientnet_b0/config.toml"), "drop_path_rate"), "0.2");
}

/// What `kindling eval` says about the test images.
fn score(run: &Path) -> Value {
    let mut command = kindling();
    command.arg("eval").arg(run).args(["--device", "cpu", "--format", "json"]);
    Outcome::of(&mut command).succeeded().result()["score"].clone()
}
