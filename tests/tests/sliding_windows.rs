//! Masks drawn at the images' own resolution, in windows of the run's size.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use image::{GrayImage, Luma};
use kindling_tests::{Bench, Outcome, columns, kindling, picture_folder, rng, train};
use rand::RngExt;
use serde_json::Value;

const UNET: &str = "unet-timm-mobilenetv3_small_100";
const SIDE: u32 = 64;

/// A dark ground with noise and bright discs of a few pixels, so many for each 64 x 64 pixels; and where the discs are.
fn scene(width: u32, height: u32, index: u64) -> (GrayImage, GrayImage) {
    let mut rng = rng(index);
    let count = (width * height).div_ceil(SIDE * SIDE) * 2;
    let discs: Vec<[u32; 3]> =
        (0..count).map(|_| [rng.random_range(0..width), rng.random_range(0..height), rng.random_range(4..8)]).collect();
    let is_inside = |x: u32, y: u32| {
        discs.iter().any(|[x0, y0, radius]| x.abs_diff(*x0).pow(2) + y.abs_diff(*y0).pow(2) <= radius.pow(2))
    };
    let image = GrayImage::from_fn(width, height, |x, y| {
        Luma([(if is_inside(x, y) { 140 } else { 60 }) + rng.random_range(0..60)])
    });
    (image, GrayImage::from_fn(width, height, |x, y| Luma([u8::from(is_inside(x, y))])))
}

fn scenes(folder: &Path, sizes: &[(u32, u32)], seed: u64) {
    for part in ["images", "masks"] {
        fs::create_dir_all(folder.join(part)).unwrap();
    }
    for (number, (width, height)) in sizes.iter().enumerate() {
        let (image, mask) = scene(*width, *height, seed + number as u64);
        image.save(folder.join(format!("images/{number:02}.png"))).unwrap();
        mask.save(folder.join(format!("masks/{number:02}.png"))).unwrap();
    }
}

/// A run that has learnt discs in images of its own size, and images of other sizes with their masks.
fn run_and_scenes() -> (Bench, PathBuf, PathBuf) {
    let bench = Bench::for_model(UNET, 1);
    let (data, others, run) = (bench.path("squares"), bench.path("others"), bench.path("run"));
    scenes(&data, &[(SIDE, SIDE); 40], 0);
    scenes(&others, &[(64, 64), (200, 150), (50, 40), (64, 300), (33, 170)], 1000);
    let mut command = kindling();
    command.args(["train", "--device", "cpu", "--quiet", "--model", UNET, "--image-size", "64", "--batch-size", "4"]);
    command.args(["--epochs", "10", "--lr", "0.01", "--augment", "none", "--workers", "1", "--data"]);
    Outcome::of(command.arg(&data).arg("--out").arg(&run)).succeeded();
    (bench, run, others)
}

fn predict(run: &Path, images: &Path, out: &Path, flags: &str) -> Outcome {
    let mut command = kindling();
    command.args(["predict", "--device", "cpu"]).args([run, images]).arg("--out").arg(out);
    Outcome::of(command.args(flags.split_whitespace()))
}

fn eval(run: &Path, data: &Path, cases: &Path, flags: &str) -> (Value, Vec<[String; 2]>) {
    let mut command = kindling();
    command.args(["eval", "--device", "cpu", "--format", "json"]).arg(run).arg("--data").arg(data);
    command.arg("--predictions").arg(cases).args(flags.split_whitespace());
    (Outcome::of(&mut command).succeeded().result(), columns(cases, ["sample", "dice"]))
}

fn dice(found: &GrayImage, truth: &GrayImage) -> f64 {
    let count = |of: fn(bool, bool) -> bool| {
        let pixels = found.as_raw().iter().zip(truth.as_raw());
        pixels.filter(|(found, truth)| of(**found > 0, **truth > 0)).count() as f64
    };
    2.0 * count(|found, truth| found && truth) / (count(|found, _| found) + count(|_, truth| truth))
}

#[test]
fn windows_find_at_any_size_what_was_learnt_at_one() {
    let (bench, run, others) = run_and_scenes();
    let images = others.join("images");
    let (whole, windows) = (bench.path("whole"), bench.path("windows"));
    predict(&run, &images, &whole, "").succeeded();
    predict(&run, &images, &windows, "--sliding-window").succeeded();
    let read = |folder: &Path, name: &str| image::open(folder.join(name)).unwrap().to_luma8();
    assert_eq!(
        fs::read(whole.join("00.png")).unwrap(),
        fs::read(windows.join("00.png")).unwrap(),
        "one window is the image"
    );

    let truth = |name: &str| read(&others.join("masks"), name);
    for name in ["01.png", "02.png", "03.png", "04.png"] {
        let mask = read(&windows, name);
        assert_eq!(mask.dimensions(), truth(name).dimensions());
        assert!(dice(&mask, &truth(name)) > 0.8, "{name}: {}", dice(&mask, &truth(name)));
    }
    for name in ["01.png", "03.png"] {
        let of = |folder: &Path| dice(&read(folder, name), &truth(name));
        assert!(of(&windows) > of(&whole) + 0.1, "{name}: {} in windows, {} whole", of(&windows), of(&whole));
    }

    // `eval` counts what `predict` draws, however many windows it computes at once.
    let (scores, cases) = eval(&run, &others, &bench.path("cases.csv"), "--sliding-window --micro-batch 3");
    assert_eq!(cases.len(), 5);
    for [sample, said] in &cases {
        let name = sample.rsplit('/').next().unwrap();
        let counted = dice(&read(&windows, name), &truth(name));
        assert!((said.parse::<f64>().unwrap() - counted).abs() < 1e-12, "{name}: {said} and {counted}");
    }
    for flags in ["--micro-batch 1", "--micro-batch 64"] {
        let (others, _) = eval(&run, &others, &bench.path("again.csv"), &format!("--sliding-window {flags}"));
        assert_eq!((&others["scores"], &others["score"]), (&scores["scores"], &scores["score"]), "{flags}");
    }
    let (wider, _) = eval(&run, &others, &bench.path("wider.csv"), "--sliding-window --overlap 0");
    assert_ne!(wider["scores"]["dice"], scores["scores"]["dice"], "windows without overlap find something else");

    // Views are averaged in windows, too.
    let (flipped, _) = eval(&run, &others, &bench.path("flipped.csv"), "--sliding-window --tta flip");
    assert!(flipped["scores"]["dice"]["value"].as_f64().unwrap() > 0.8 && flipped["score"] != scores["score"]);
}

#[test]
fn mistakes_about_windows_are_one_sentence_each() {
    let (bench, run, others) = run_and_scenes();
    let (images, out) = (others.join("images"), bench.path("out"));
    for (flags, says) in [
        ("--overlap 0.5", "--sliding-window"),
        ("--sliding-window --overlap 0.95", "0.9"),
        ("--sliding-window --overlap half", "half"),
    ] {
        let outcome = predict(&run, &images, &out, flags);
        assert_ne!(outcome.code, Some(0));
        assert!(outcome.stderr.contains(says), "{flags}: {}", outcome.stderr);
        assert!(!out.exists());
    }
    let (pictures, classifier) = (bench.path("pictures"), bench.path("classifier"));
    picture_folder(&pictures, 6);
    Outcome::of(&mut train(&pictures, &classifier, "--batch-size 4 --max-steps 1")).succeeded();
    let sentence = predict(&classifier, &pictures, &bench.path("table.csv"), "--sliding-window").refused();
    assert!(sentence.contains("--sliding-window is about masks"), "{sentence}");
    let mut command = kindling();
    let sentence = Outcome::of(command.arg("eval").arg(&classifier).arg("--sliding-window")).refused();
    assert!(sentence.contains("--sliding-window is about masks"), "{sentence}");
}
