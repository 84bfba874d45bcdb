//! What can be done with a finished run: scoring it again, and predicting.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use image::{DynamicImage, ImageBuffer, Luma};
use kindling_tests::{CLASSES, Outcome, json_of, kindling, picture, picture_folder, train};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

/// A short run in a folder of its own, and the images it was trained on.
fn finished_run() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    picture_folder(&data, 12);
    Outcome::of(&mut train(&data, &run, "--batch-size 4 --epochs 2")).succeeded();
    (folder, data, run)
}

fn predict(run: &Path, format: &str, images: &[PathBuf]) -> Outcome {
    Outcome::of(kindling().arg("predict").arg(run).args(images).args(["--device", "cpu", "--format", format]))
}

/// File, class and probabilities of each line.
fn predictions(outcome: &Outcome) -> Vec<(String, String, Vec<f64>)> {
    let of_line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| value[key].as_str().unwrap().to_string();
        let probabilities = CLASSES.map(|class| value["probabilities"][class].as_f64().unwrap());
        (text("file"), text("class"), probabilities.to_vec())
    };
    outcome.stdout.lines().map(of_line).collect()
}

fn largest(probabilities: &[f64]) -> &'static str {
    let best = (0..probabilities.len()).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
    CLASSES[best.unwrap()]
}

#[test]
fn eval_gives_the_score_the_run_ended_with() {
    let (_folder, _, run) = finished_run();
    let metrics = json_of(&run.join("metrics.json"));
    for (split, stored) in [("test", "test"), ("val", "validation")] {
        let mut command = kindling();
        command.arg("eval").arg(&run).args(["--device", "cpu", "--format", "json", "--split", split]);
        let score = Outcome::of(&mut command).succeeded().result()["score"].clone();
        assert_eq!(score, metrics[stored], "{split}");
    }
    let table = Outcome::of(kindling().arg("eval").arg(&run).args(["--device", "cpu"])).succeeded().stdout;
    for class in CLASSES {
        assert!(table.lines().any(|line| line.starts_with(class)), "{table}");
    }
}

#[test]
fn eval_takes_another_folder_with_the_same_classes_and_no_other() {
    let (folder, _, run) = finished_run();
    let other = folder.path().join("other");
    for split in ["train", "test"] {
        picture_folder(&other.join(split), 3);
    }
    let eval =
        |data: &Path| Outcome::of(kindling().arg("eval").arg(&run).args(["--format", "json", "--data"]).arg(data));
    let outcome = eval(&other).succeeded();
    assert_eq!(outcome.result()["score"]["samples"].as_u64(), Some(18), "all of it");
    fs::rename(other.join("train/dark"), other.join("train/dim")).unwrap();
    fs::rename(other.join("test/dark"), other.join("test/dim")).unwrap();
    let sentence = eval(&other).refused();
    assert!(sentence.contains("dim") && sentence.contains("dark"), "{sentence}");
}

#[test]
fn predict_writes_a_csv_whose_probabilities_sum_to_one() {
    let (folder, data, run) = finished_run();
    let awkward = folder.path().join("a, \"b\".png");
    fs::copy(data.join("dark/00.png"), &awkward).unwrap();
    let images = [data.join("bright/00.png"), data.join("striped/01.png"), awkward];
    let outcome = predict(&run, "csv", &images).succeeded();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "file,class,bright,dark,striped");
    assert_eq!(lines.len(), 4);
    assert!(lines[3].starts_with('"') && lines[3].contains("a, \"\"b\"\".png\","), "{}", lines[3]);
    for line in &lines[1..] {
        let mut fields = line.rsplitn(5, ',');
        let mut probabilities: Vec<f64> = fields.by_ref().take(3).map(|field| field.parse().unwrap()).collect();
        probabilities.reverse();
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{line}");
        assert_eq!(fields.next(), Some(largest(&probabilities)), "{line}");
    }
}

#[test]
fn predict_writes_json_with_the_same_numbers_as_csv() {
    let (folder, data, run) = finished_run();
    let images = [data.join("bright/00.png"), data.join("dark/05.png")];
    let rows = predictions(&predict(&run, "json", &images).succeeded());
    assert_eq!(rows.len(), 2);
    let csv = folder.path().join("out.csv");
    let mut command = kindling();
    command.arg("predict").arg(&run).args(&images).args(["--device", "cpu", "--out"]).arg(&csv);
    assert_eq!(Outcome::of(&mut command).succeeded().stdout, "", "with --out nothing goes to standard output");
    let csv = fs::read_to_string(csv).unwrap();
    for ((file, class, probabilities), line) in rows.iter().zip(csv.lines().skip(1)) {
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        assert_eq!(class, largest(probabilities));
        let numbers: Vec<String> = probabilities.iter().map(|p| format!("{p:.6}")).collect();
        assert_eq!(line, format!("{file},{class},{}", numbers.join(",")));
    }
}

#[test]
fn an_unreadable_image_is_named_and_the_others_are_predicted() {
    let (folder, data, run) = finished_run();
    let bad = folder.path().join("broken.png");
    fs::write(&bad, b"\x89PNG\r\n\x1a\n and no more").unwrap();
    let outcome = predict(&run, "json", &[data.join("bright/00.png"), bad, data.join("dark/00.png")]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.refused().contains("broken.png"), "{}", outcome.stderr);
    let files: Vec<_> = predictions(&outcome).into_iter().map(|(file, ..)| file).collect();
    assert!(files.len() == 2 && files[0].ends_with("bright/00.png") && files[1].ends_with("dark/00.png"), "{files:?}");
}

#[test]
fn one_picture_is_the_same_to_the_model_in_every_file_format() {
    let (folder, _, run) = finished_run();
    let grey = picture("striped", 3);
    let deep: ImageBuffer<Luma<u16>, Vec<u16>> =
        ImageBuffer::from_fn(grey.width(), grey.height(), |x, y| Luma([u16::from(grey.get_pixel(x, y)[0]) * 257]));
    let rgb = DynamicImage::ImageLuma8(grey.clone()).to_rgb8();
    let save = |name: &str, image: DynamicImage| {
        let path = folder.path().join(name);
        image.save(&path).unwrap();
        path
    };
    let images = [
        save("grey.png", grey.clone().into()),
        save("grey16.png", deep.clone().into()),
        save("grey16.tiff", deep.into()),
        save("grey.tif", grey.into()),
        save("rgb.png", rgb.clone().into()),
        save("rgb.tiff", rgb.clone().into()),
        save("rgb.jpg", rgb.into()),
    ];
    let rows = predictions(&predict(&run, "json", &images).succeeded());
    let (_, _, first) = &rows[0];
    for (file, _, probabilities) in &rows[1..] {
        // JPEG changes the pixels a little.
        let tolerance = if file.ends_with("jpg") { 0.1 } else { 1e-4 };
        let difference = first.iter().zip(probabilities).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(difference < tolerance, "{file}: {probabilities:?} instead of {first:?}");
    }
}

#[test]
fn a_folder_of_mixed_formats_and_depths_is_trained_on() {
    let folder = tempdir().unwrap();
    let (data, run) = (folder.path().join("data"), folder.path().join("run"));
    for class in ["bright", "dark"] {
        fs::create_dir_all(data.join(class)).unwrap();
        for (index, name) in ["a.png", "b.PNG", "c.tif", "d.tiff", "e.jpg", "f.jpeg"].into_iter().enumerate() {
            let grey = DynamicImage::ImageLuma8(picture(class, index));
            let image = match index {
                0 | 2 => DynamicImage::ImageLuma16(grey.to_luma16()),
                1 | 3 => DynamicImage::ImageRgb16(grey.to_rgb16()),
                4 => DynamicImage::ImageRgb8(grey.to_rgb8()),
                _ => grey,
            };
            image.save(data.join(class).join(name)).unwrap();
        }
    }
    let outcome = Outcome::of(kindling().args(["data", "describe", "--json"]).arg(&data)).succeeded();
    let about = outcome.result();
    assert_eq!(about["channels"].as_u64(), Some(3), "one image in colour makes all of them so");
    assert_eq!(about["samples"]["train"], serde_json::json!([4, 4]));
    let result = Outcome::of(&mut train(&data, &run, "--batch-size 4 --epochs 1")).succeeded().result();
    assert_eq!(result["steps"].as_u64(), Some(2));
}
