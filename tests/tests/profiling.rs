//! Ranges on the timeline of a profiler that injects itself, as Nsight Systems does, and the limits that `kindling profile` tells.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{Outcome, files_differ, kindling, picture_folder, train};
use serde_json::Value;

const TOOL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/c/count_ranges.c");

/// The counting tool, compiled. A C compiler is here wherever Rust links.
fn tool(folder: &Path) -> PathBuf {
    let library = folder.join("libcount_ranges.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&library).arg(TOOL);
    assert!(compiler.status().unwrap().success(), "the counting tool does not compile");
    library
}

/// Counts by (depth, name).
fn ranges(report: &Path) -> BTreeMap<(u32, String), u32> {
    let text = std::fs::read_to_string(report).unwrap();
    let parse = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let (depth, count) = (words.next().unwrap(), words.next().unwrap());
        ((depth.parse().unwrap(), words.next().unwrap().to_string()), count.parse().unwrap())
    };
    text.lines().map(parse).collect()
}

/// Uploads, layers, losses, gradients, the finite check, the optimizer and the commit are ranges, and all of them are opened on one
/// thread, whatever other threads load images. A CPU of one thread stands for a GPU: of several, each may begin with images of its own.
#[test]
fn all_device_work_of_a_run_is_on_one_thread() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    picture_folder(&folder.join("data"), 10);
    let library = tool(folder);
    let classifier = train(
        &folder.join("data"),
        &folder.join("classifier"),
        "--model mobilenet_v3_small --batch-size 4 --ghost-batch-size 2 --micro-batch 2 --epochs 2 --workers 3 --quiet",
    );
    let mut gan = kindling();
    gan.args("gan train --model dcgan_64 --features 4 --iterations 2 --batch-size 4 --compare 0 --device cpu --workers 3 --quiet".split(' '));
    gan.arg("--data").arg(folder.join("data")).arg("--out").arg(folder.join("gan"));
    for (name, mut command) in [("classifier", classifier), ("gan", gan)] {
        let report = folder.join(name).with_extension("txt");
        command.env("NVTX_INJECTION64_PATH", &library).env("COUNT_RANGES", &report).env("RAYON_NUM_THREADS", "1");
        Outcome::of(&mut command).succeeded();
        let ranges = ranges(&report);
        assert!(ranges.contains_key(&(0, "commit".to_string())), "{name}: {ranges:#?}");
        assert_eq!(ranges.get(&(0, "threads".to_string())), Some(&1), "{name}: {ranges:#?}");
    }
}

/// Two steps of a batch of 6 in groups of 3, so two micro-batches each, with activation checkpointing at every block.
#[test]
fn a_profiler_sees_steps_micro_batches_phases_and_layers_and_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    picture_folder(&folder.join("data"), 10);
    let report = folder.join("ranges.txt");
    let flags = "--model mobilenet_v3_small --batch-size 6 --ghost-batch-size 3 --micro-batch 3 --activation-checkpointing blocks --epochs 1 \
                 --max-steps 2 --seed 3 --workers 1 --quiet";
    let watched = folder.join("watched");
    let mut command = train(&folder.join("data"), &watched, flags);
    command.env("NVTX_INJECTION64_PATH", tool(folder)).env("COUNT_RANGES", &report);
    Outcome::of(&mut command).succeeded();

    let ranges = ranges(&report);
    let count = |depth: u32, name: &str| ranges.get(&(depth, name.to_string())).copied().unwrap_or(0);
    let all = format!("{ranges:#?}");
    assert_eq!(ranges.get(&(0, "open at the end".to_string())), Some(&0), "{all}");
    assert_eq!((count(0, "step 1"), count(0, "step 2"), count(0, "step 3")), (1, 1, 0), "{all}");
    assert_eq!((count(0, "commit"), count(1, "finite check"), count(1, "optimizer")), (2, 2, 2), "{all}");
    assert_eq!((count(1, "micro-batch 0"), count(1, "micro-batch 1")), (2, 2), "{all}");
    assert_eq!((count(2, "upload"), count(2, "forward"), count(2, "backward")), (4, 4, 4), "{all}");
    // Forward once, and once more on the way back, for each of four micro-batches: in the forward and the backward range.
    let blocks = ranges.keys().filter(|(depth, name)| *depth == 3 && name.starts_with("stages.")).count();
    assert_eq!(blocks, 11, "MobileNetV3-Small has eleven blocks (Howard et al. 2019, table 2)\n{all}");
    for layer in ["stem", "stages.0.0", "head.features"] {
        assert_eq!(count(3, layer), 8, "{layer}\n{all}");
    }
    assert_eq!(count(3, "head"), 4, "{all}");

    let alone = folder.join("alone");
    Outcome::of(&mut train(&folder.join("data"), &alone, flags)).succeeded();
    assert!(files_differ(&watched, &alone, &["weights-last.safetensors"]).is_empty());
}

/// Whether a run is watched does not decide whether it runs.
#[test]
fn a_profiler_that_cannot_be_loaded_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    picture_folder(&folder.path().join("data"), 10);
    let flags = "--model mobilenet_v3_small --batch-size 4 --epochs 1 --max-steps 1 --workers 1 --quiet";
    let mut command = train(&folder.path().join("data"), &folder.path().join("run"), flags);
    command.env("NVTX_INJECTION64_PATH", folder.path().join("not-there.so"));
    Outcome::of(&mut command).succeeded();
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn sum(values: &Value, of: impl Fn(&Value) -> f64) -> f64 {
    values.as_array().unwrap().iter().map(of).sum()
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{what}: {found}, not {expected}");
}

/// An operation takes at least as long as its arithmetic or its bytes, a part as long as its operations, and the share is of what was
/// measured. Nothing here depends on how fast the machine is: where other programs run while its peak is measured, a share is above 1.
/// The parts are those that each kind of network has.
#[test]
fn the_limits_of_a_profile_follow_from_work_and_from_what_the_machine_reaches() {
    let cases: [(&str, &str, &[&str]); 4] = [
        ("mobilenet_v3_small", "stem", &["head.features", "head"]),
        (
            "unet-mobilenet_v2",
            "encoder.stem",
            &[
                "encoder.features",
                "decoder.0.conv1",
                "decoder.0.conv2",
                "decoder.1.conv1",
                "decoder.1.conv2",
                "decoder.2.conv1",
                "decoder.2.conv2",
                "decoder.3.conv1",
                "decoder.3.conv2",
                "decoder.4.conv1",
                "decoder.4.conv2",
                "head",
            ],
        ),
        ("lraspp_mobilenet_v3_large", "encoder.stem", &["encoder.features", "decoder"]),
        ("deeplabv3plus-mobilenet_v2", "encoder.stem", &["encoder.features", "decoder"]),
    ];
    for (model, first, last) in cases {
        let words =
            "--image-size 64 --batch-size 4 --micro-batch 2 --ghost-batch-size 2 --steps 1 --roofline --format json";
        let mut command = kindling();
        command.args(["profile", "--model", model]).args(words.split(' '));
        let profile = Outcome::of(&mut command).succeeded().result();
        assert_eq!(profile["model"], model);
        let names = profile["segments"].as_array().unwrap().iter().map(|segment| segment["name"].as_str().unwrap());
        let names: Vec<&str> = names.collect();
        assert_eq!(names[0], first, "{names:?}");
        assert_eq!(names[names.len() - last.len()..], *last, "{names:?}");
        check_limits(&profile);
    }
}

fn check_limits(profile: &Value) {
    let roofline = &profile["roofline"];
    let (flops, bytes) = (number(&roofline["flops_per_second"]), number(&roofline["bytes_per_second"]));
    assert!(flops > 0.0 && bytes > 0.0, "{flops} {bytes}");
    let passes = |layer: &Value| [layer["forward"].clone(), layer["backward"].clone()];
    let of_layers =
        |name: &str| sum(&roofline["layers"], |layer| passes(layer).iter().map(|pass| number(&pass[name])).sum());
    for pass in roofline["layers"].as_array().unwrap().iter().flat_map(passes) {
        let expected = (number(&pass["flops"]) / flops).max(number(&pass["bytes"]) / bytes);
        assert!((number(&pass["bound_seconds"]) - expected).abs() <= 1e-9 * expected, "{pass}");
    }
    for name in ["flops", "bytes", "bound_seconds"] {
        assert_near(sum(&roofline["parts"], |part| number(&part[name])), of_layers(name), name);
    }
    let (parts, segments) = (roofline["parts"].as_array().unwrap(), profile["segments"].as_array().unwrap());
    assert_eq!(parts.len(), segments.len());
    for (part, segment) in parts.iter().zip(segments) {
        assert_eq!(part["name"], segment["name"]);
        let seconds = number(&segment["forward_seconds"]) + number(&segment["backward_seconds"]);
        assert_near(number(&part["seconds"]), seconds, "seconds");
    }
    let step = &roofline["step"];
    for part in parts.iter().chain([step]) {
        let share = number(&part["share"]);
        assert!(share > 0.0, "{part}");
        assert_near(share, number(&part["bound_seconds"]) / number(&part["seconds"]), "share");
        assert!(part["bound_by"] == "memory" || part["bound_by"] == "arithmetic", "{part}");
    }
    // Two images are computed at once and a step has four. Products forward are those that the trace counts.
    assert_eq!(number(&step["flops"]), 2.0 * of_layers("flops"));
    assert_near(number(&step["seconds"]), number(&profile["step_seconds"]), "a step");
    let forward = sum(&roofline["layers"], |layer| number(&layer["forward"]["flops"]));
    assert_eq!(forward, 2.0 * 2.0 * sum(&profile["segments"], |segment| number(&segment["macs"])));
}
