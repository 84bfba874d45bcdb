//! Distances of a GAN's images from its data set, in features of the pretrained MobileNetV2.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kindling_tests::{Optional, Outcome, events, json_of, kindling, picture_folder, run_optional};
use serde_json::Value;
use tempfile::tempdir;

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_DATA" };
    run_optional(need, &[("a_run_is_compared_with_its_data_set", a_run_is_compared_with_its_data_set)])
}

/// Only data that was never fetched counts as missing; data that was fetched and is damaged must fail.
fn missing() -> Option<String> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let cache = variable("KINDLING_DATA").or_else(|| Some(user()?.join("kindling"))).unwrap_or_default();
    let there = cache.join("weights/mobilenet_v2-b0353104.pth").exists();
    (!there).then(|| "the pretrained MobileNetV2: run scripts/fetch-weights.sh mobilenet_v2".to_string())
}

fn evaluate(run: &Path, flags: &str) -> Outcome {
    let mut command = kindling();
    command.args(["gan", "evaluate", "--device", "cpu", "--format", "json"]).arg(run);
    Outcome::of(command.args(flags.split_whitespace()))
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{value} has no number `{key}`"))
}

fn a_run_is_compared_with_its_data_set() {
    let folder = tempdir().expect("a folder of the test");
    let [data, run, colour] = ["data", "run", "colour"].map(|name| folder.path().join(name));
    picture_folder(&data, 12);
    let flags = "--model dcgan_64 --features 4 --iterations 6 --batch-size 8 --ghost-batch-size 4 --sample-iterations 3 --seed 5 \
                 --compare 20 --device cpu --quiet";
    let mut command = kindling();
    command.args(["gan", "train", "--data"]).arg(&data).arg("--out").arg(&run).args(flags.split_whitespace());
    let told = Outcome::of(&mut command).succeeded().result();
    let compared: Vec<Value> = events(&run).into_iter().filter(|event| event["event"] == "compared").collect();
    assert_eq!(compared.len(), 3, "before, on the way and at the end");
    assert_eq!(number(&told, "first_frechet"), number(&compared[0], "frechet"));
    let report = fs::read_to_string(run.join("report.html")).expect("a report");
    assert!(report.contains("Frechet distance") && report.contains("MobileNetV2"));

    let found = evaluate(&run, "--samples 20 --seed 5").succeeded().result();
    // The same seed, the same number of images and the last weights: what the run's own last line says.
    let last = number(&compared[2], "frechet");
    assert!((number(&found, "frechet_distance") - last).abs() < 1e-6 * last, "{found}");
    assert!((0.0..=1.0).contains(&number(&found, "precision")) && (0.0..=1.0).contains(&number(&found, "recall")));
    let nearest = found["nearest"].as_array().expect("a list");
    assert_eq!(nearest.len(), 2, "every tenth of twenty");
    assert!(nearest.iter().all(|pair| pair["name"].as_str().is_some_and(|name| name.ends_with(".png"))));
    let picture = image::open(run.join("nearest.png")).expect("a picture");
    assert_eq!((picture.width(), picture.height()), (4 * 66 + 2, 68), "two pairs side by side");
    assert_eq!(json_of(&run.join("evaluation.json"))["frechet_distance"], found["frechet_distance"]);
    let untrained = evaluate(&run, "--samples 20 --seed 5 --untrained").succeeded().result();
    let first = number(&told, "first_frechet");
    assert!((number(&untrained, "frechet_distance") - first).abs() < 1e-6 * first);

    // Grey images against a generator of RGB ones.
    fs::create_dir_all(&colour).expect("a folder of the test");
    for index in 0..4u8 {
        let image = image::RgbImage::from_pixel(40, 40, image::Rgb([60 * index, 20, 200]));
        image.save(colour.join(format!("{index}.png"))).expect("a picture of the test");
    }
    let rgb = folder.path().join("rgb");
    let mut command = kindling();
    command.args(["gan", "train", "--data"]).arg(&colour).arg("--out").arg(&rgb);
    command.args("--features 4 --iterations 1 --batch-size 4 --compare 0 --device cpu --quiet".split(' '));
    Outcome::of(&mut command).succeeded();
    let refused = evaluate(&rgb, &format!("--samples 20 --data {}", data.display())).refused();
    assert!(refused.contains("grey") && refused.contains("RGB"), "{refused}");
}
