//! The commands that only show something: models, data, devices.
#![allow(clippy::unwrap_used)]

use std::fs;

use kindling_tests::{CLASSES, Outcome, kindling, picture_folder};
use serde_json::{Value, json};
use tempfile::tempdir;

fn say(arguments: &str) -> Outcome {
    Outcome::of(kindling().args(arguments.split_whitespace())).succeeded()
}

fn objects(outcome: &Outcome) -> Vec<Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn models_are_listed_by_pattern() {
    let names = |pattern: &str| -> Vec<String> {
        let models = objects(&say(&format!("models {pattern} --format json")));
        models.iter().map(|model| model["name"].as_str().unwrap().to_string()).collect()
    };
    let all = names("*");
    assert!(
        ["mobilenet_v2", "mobilenet_v3_small"].iter().all(|name| all.iter().any(|listed| listed == name)),
        "{all:?}"
    );
    assert_eq!(names("mobilenet_v3*"), ["mobilenet_v3_small", "mobilenet_v3_large"]);
    assert_eq!(names("*_v2"), ["mobilenet_v2", "unet-mobilenet_v2", "deeplabv3plus-mobilenet_v2"]);
    let table = say("models").stdout;
    assert!(all.iter().all(|name| table.lines().any(|line| line.starts_with(name.as_str()))), "{table}");

    let sentence = Outcome::of(kindling().args(["models", "vgg*"])).refused();
    assert!(sentence.contains("vgg*"), "{sentence}");
}

#[test]
fn a_model_is_shown_with_the_counts_of_its_reference_implementation() {
    // torchvision's, with its 1000 classes, at 512 x 512 in colour.
    for (name, params, macs, activations) in [
        ("mobilenet_v2", 3_504_872, 1_565_984_768, 34_890_728_u64),
        ("mobilenet_v3_small", 2_542_856, 286_482_432, 7_385_904),
    ] {
        let shown = say(&format!("models show {name} --format json")).result();
        assert_eq!(shown["name"], name);
        assert_eq!(shown["input"], json!([3, 512, 512]));
        let counts = ["params", "macs", "activations"].map(|key| shown[key].as_u64());
        assert_eq!(counts, [Some(params), Some(macs), Some(activations)], "{name}");
    }
}

#[test]
fn the_layers_of_a_model_add_up_to_the_model() {
    let shown =
        say("models show mobilenet_v2 --layers --format json --image-size 64 --classes 3 --channels 1").result();
    let layers = shown["layers"].as_array().unwrap();
    for key in ["params", "macs", "activations"] {
        let sum: u64 = layers.iter().map(|layer| layer[key].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), shown[key].as_u64(), "{key}");
    }
    assert_eq!(layers.last().unwrap()["output"], json!([3, 1, 1]));
}

#[test]
fn the_data_sets_with_a_name_are_listed() {
    let list = say("data list").stdout;
    for name in [
        "phantoms",
        "brain-mri-orientation",
        "scripts/fetch-brain-mri-orientation.sh",
        "brain-parts",
        "scripts/fetch-brain-parts.sh",
        "--data DIR",
    ] {
        assert!(list.contains(name), "{list}");
    }
}

#[test]
fn the_embedded_data_set_needs_nothing_and_is_balanced() {
    let about = say("data describe phantoms --json").result();
    assert_eq!(about["classes"], json!(["none", "round", "spiculated"]));
    for split in ["train", "val", "test"] {
        let counts = about["samples"][split].as_array().unwrap();
        assert!(counts.len() == 3 && counts[0].as_u64() > Some(0), "{about}");
        assert!(counts.iter().all(|count| count == &counts[0]), "{about}");
    }
}

#[test]
fn an_image_folder_is_described() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("scans");
    picture_folder(&data, 12);
    let about = Outcome::of(kindling().args(["data", "describe", "--json"]).arg(&data)).succeeded().result();
    assert_eq!((&about["name"], &about["classes"], &about["channels"]), (&json!("scans"), &json!(CLASSES), &json!(1)));
    assert_eq!(about["samples"], json!({ "train": [8, 8, 8], "val": [2, 2, 2], "test": [2, 2, 2] }));
    let table = Outcome::of(kindling().args(["data", "describe"]).arg(&data)).succeeded().stdout;
    assert!(table.contains("33.3 %") && CLASSES.iter().all(|class| table.contains(class)), "{table}");
}

#[test]
fn a_sheet_shows_samples_of_every_class() {
    let folder = tempdir().unwrap();
    let (data, png) = (folder.path().join("scans"), folder.path().join("sheet.png"));
    picture_folder(&data, 12);
    let mut command = kindling();
    command.args(["data", "sheet", "--per-class", "4", "--side", "64", "--out"]).arg(&png).arg(&data);
    Outcome::of(&mut command).succeeded();
    let sheet = image::open(&png).unwrap().to_luma8();
    let (width, height) = sheet.dimensions();
    assert!(width >= 4 * 64 && height >= 3 * 64, "{width} x {height}");
    let share = |bright: bool| {
        let matching = sheet.pixels().filter(|pixel| (pixel[0] > 180) == bright).count();
        matching as f64 / f64::from(width * height)
    };
    assert!(share(true) > 0.2 && share(false) > 0.2, "bright and dark pictures are on it");
}

#[test]
fn the_cpu_is_always_a_device_and_every_other_says_what_it_is_or_lacks() {
    let folder = tempdir().unwrap();
    let mut command = kindling();
    command.args(["devices", "--json"]).env("XDG_RUNTIME_DIR", folder.path());
    let devices = objects(&Outcome::of(&mut command).succeeded());
    let cpu = devices.iter().find(|device| device["device"] == "cpu").unwrap();
    assert_eq!(cpu["usable"], true);
    for name in ["cuda:0", "wgpu"] {
        let device = devices.iter().find(|device| device["device"] == name).unwrap();
        let words = if device["usable"] == true { &device["about"] } else { &device["why"] };
        assert!(words.as_str().is_some_and(|words| !words.is_empty() && !words.contains('\n')), "{device}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_machine_without_a_driver_of_a_graphics_api_is_told_so_and_no_panic_is_shown() {
    let folder = tempdir().unwrap();
    // The system's loader takes the first file with the right name, and these files are no libraries.
    for name in ["libvulkan.so.1", "libvulkan.so", "libEGL.so.1", "libEGL.so"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let mut command = kindling();
    command.env_remove("RUST_BACKTRACE").env("LD_LIBRARY_PATH", folder.path());
    let outcome = Outcome::of(command.args(["devices", "--format", "json"])).succeeded();
    let wgpu = objects(&outcome).into_iter().find(|device| device["device"] == "wgpu").unwrap();
    let why = wgpu["why"].as_str().unwrap();
    assert!(why.contains("no driver of Vulkan") && why.contains("libvulkan.so.1"), "{why}");
    assert_eq!(outcome.stderr, "");
}

/// The commands that `kindling --help` lists.
fn listed_commands() -> Vec<String> {
    let help = say("--help").stdout;
    let lines =
        help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_string).filter(|name| name != "help").collect()
}

#[test]
fn every_shell_completes_every_command() {
    let commands = listed_commands();
    assert!(commands.iter().any(|name| name == "train"), "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = say(&format!("completions {shell}")).stdout;
        for name in &commands {
            assert!(script.contains(name.as_str()), "{shell} does not complete {name}");
        }
        assert!(script.contains("memory-budget"), "{shell} completes no flags");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempdir().unwrap();
    let pages = folder.path().join("man1");
    Outcome::of(kindling().arg("man").arg(&pages)).succeeded();
    for name in listed_commands() {
        let page = std::fs::read_to_string(pages.join(format!("kindling-{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let sentence = Outcome::of(kindling().arg("man").arg(&file)).refused();
    assert!(sentence.contains("manual pages cannot be written"), "{sentence}");
}
