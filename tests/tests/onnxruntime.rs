//! Files that the command exports, run by onnxruntime.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use kindling_tests::{Optional, Outcome, kindling, picture_folder, read_tensors, rng, run_optional};
use rand::RngExt;
use tempfile::tempdir;

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_PYTHON" };
    run_optional(
        need,
        &[
            (
                "an_exported_generator_makes_the_images_that_sample_makes",
                an_exported_generator_makes_the_images_that_sample_makes,
            ),
            (
                "the_books_program_gives_the_probabilities_of_predict",
                the_books_program_gives_the_probabilities_of_predict,
            ),
            (
                "an_exported_network_answers_with_the_number_of_predict_in_its_own_unit",
                an_exported_network_answers_with_the_number_of_predict_in_its_own_unit,
            ),
        ],
    )
}

fn interpreter() -> Command {
    Command::new(env::var_os("KINDLING_PYTHON").unwrap_or_else(|| "python3".into()))
}

fn python() -> Command {
    let mut python = interpreter();
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/onnx/tests/run_onnx.py"));
    python
}

fn missing() -> Option<String> {
    let works = |mut command: Command| command.output().is_ok_and(|output| output.status.success());
    let mut pillow = interpreter();
    pillow.args(["-c", "import PIL"]);
    let missing = "Python with numpy, onnx, onnxruntime and Pillow: set KINDLING_PYTHON to one that has them";
    (!(works(python()) && works(pillow))).then(|| missing.to_string())
}

fn succeeds(what: &str, of: &[&Path], flags: &str) {
    let mut command = kindling();
    command.args(["gan", what]).args(of).args(flags.split_whitespace());
    Outcome::of(&mut command).succeeded();
}

fn an_exported_generator_makes_the_images_that_sample_makes() {
    let folder = tempdir().expect("a folder of the test");
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    picture_folder(&at("data"), 12);
    for (model, flags) in [
        ("dcgan_64", "--iterations 3 --batch-size 8 --ghost-batch-size 4"),
        ("dcgan_64", "--iterations 3 --batch-size 8 --ghost-batch-size 4 --upsampling resize"),
        ("fastgan_512", "--iterations 1 --batch-size 2 --ghost-batch-size 2"),
    ] {
        let (run, out) = (at("run"), at("out"));
        fs::create_dir_all(&out).expect("a folder");
        let flags = format!("{flags} --model {model} --features 4 --ema 0 --compare 0 --device cpu --quiet --seed 5");
        succeeds("train", &[Path::new("--data"), &at("data"), Path::new("--out"), &run], &flags);
        succeeds("export", &[&run, Path::new("--output"), &out.join("model.onnx")], "--format onnx");
        let images = out.join("images");
        let latents = out.join("latents.safetensors");
        let flags = "--count 4 --seed 7 --device cpu";
        succeeds("sample", &[&run, Path::new("--out"), &images, Path::new("--latents"), &latents], flags);
        fs::write(out.join("input.bin"), &read_tensors(&latents)["latents"].bytes).expect("a file");

        let ran = python().arg(&out).output().expect("Python starts");
        assert!(ran.status.success(), "{model}: {}", String::from_utf8_lossy(&ran.stderr));
        let made = fs::read(out.join("output.bin")).expect("the script writes its output");
        let made: Vec<f32> = made.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let shown: Vec<u8> = (0..4)
            .flat_map(|number| {
                let picture = image::open(images.join(format!("{number:05}.png"))).expect("a picture");
                picture.into_luma8().into_raw()
            })
            .collect();
        assert_eq!(made.len(), shown.len(), "{model}: grey images of the same size");
        let levels = made.iter().map(|value| (value + 1.0) * 127.5);
        let furthest = levels.zip(&shown).map(|(level, shown)| (level - f32::from(*shown)).abs()).fold(0.0, f32::max);
        let (darkest, lightest) = (shown.iter().min(), shown.iter().max());
        assert!(darkest < lightest, "{model}: images that are all one grey would agree too easily");
        assert!(furthest < 0.51, "{model}: {furthest} levels of 255 apart");
        fs::remove_dir_all(&run).expect("the run goes");
        fs::remove_dir_all(&out).expect("the files go");
    }
}

/// Lengths around 1000 are learnt around 0; the file answers around 1000 again, and so do the weights in it.
fn an_exported_network_answers_with_the_number_of_predict_in_its_own_unit() {
    let folder = tempdir().expect("a folder of the test");
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    let mut rows = String::from("path,length\n");
    for number in 0..30u32 {
        let grey = |x, y| image::Luma([(noise(x, y, number) * 255.0) as u8]);
        image::GrayImage::from_fn(64, 64, grey).save(at(&format!("{number}.png"))).expect("a picture");
        rows += &format!("{number}.png,{}\n", 900 + 7 * number);
    }
    fs::write(at("lengths.csv"), rows).expect("a manifest");
    let mut train = kindling();
    train.args([
        "train",
        "--device",
        "cpu",
        "--quiet",
        "--target",
        "length",
        "--normalise",
        "none",
        "--image-size",
        "64",
    ]);
    train.args(["--lr", "0.0001", "--max-steps", "3", "--data"]).arg(at("lengths.csv")).arg("--out").arg(at("run"));
    Outcome::of(&mut train).succeeded();
    let mut predict = kindling();
    predict.args(["predict", "--device", "cpu"]).arg(at("run")).arg(at("3.png"));
    let said = Outcome::of(&mut predict).succeeded().stdout;
    let said: f64 = said.lines().nth(1).and_then(|line| line.split(',').nth(1)?.parse().ok()).expect("a number");

    let out = at("out");
    fs::create_dir_all(&out).expect("a folder");
    Outcome::of(kindling().arg("export").arg(at("run")).arg("--out").arg(out.join("model.onnx"))).succeeded();
    let pixels = image::open(at("3.png")).expect("a picture").into_luma8().into_raw();
    let input: Vec<u8> = pixels.iter().flat_map(|pixel| (f32::from(*pixel) / 255.0).to_le_bytes()).collect();
    fs::write(out.join("input.bin"), input).expect("a file");
    let ran = python().arg(&out).output().expect("Python starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let made = fs::read(out.join("output.bin")).expect("the script writes its output");
    let made: Vec<f32> = made.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    // After three small steps it is near the mean, but not as it would be in standard deviations.
    assert!((500.0..2000.0).contains(&said), "{said} is no length");
    assert!(made.len() == 1 && (f64::from(made[0]) - said).abs() < 1e-5 * said, "{made:?} and {said}");
}

/// The program of the page about export.
fn program_of_the_book() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/how-to/inference-and-export.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let (_, after) = page.split_once("```python\n").expect("the page has a program");
    let (program, rest) = after.split_once("```\n").expect("the program ends");
    assert!(!rest.contains("```python"), "there is one program, and this test would not run another");
    program.to_string()
}

/// Noise whose rows and columns differ, so that no picture is its own mirror image.
fn noise(x: u32, y: u32, channel: u32) -> f64 {
    let seed = [x, y, channel].into_iter().fold(0, |seed, place| seed << 16 | u64::from(place));
    let slope = f64::from(x + 2 * y) / 400.0;
    (rng(seed).random_range(0.0..0.5) + slope / 2.0).min(1.0)
}

/// Pictures of every kind that both programs can read: wide, high, small and large; 8 and 16 bits; grey, colour, alpha.
fn pictures(folder: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(folder).expect("a folder");
    let byte = |x, y, channel| (noise(x, y, channel) * 255.0) as u8;
    let at = |name: &str| folder.join(name);
    let grey = |x, y| image::Luma([byte(x, y, 0)]);
    image::GrayImage::from_fn(150, 97, grey).save(at("wide.png")).expect("a picture");
    image::GrayImage::from_fn(41, 83, grey).save(at("high.png")).expect("a picture");
    image::GrayImage::from_fn(20, 13, grey).save(at("small.png")).expect("a picture");
    image::GrayImage::from_fn(64, 64, grey).save(at("same.png")).expect("a picture");
    let word = |x, y| image::Luma([(noise(x, y, 0) * 65_535.0) as u16]);
    image::ImageBuffer::<image::Luma<u16>, Vec<u16>>::from_fn(90, 120, word).save(at("deep.png")).expect("a picture");
    let colour = |x, y| image::Rgb([0, 1, 2].map(|channel| byte(x, y, channel)));
    image::RgbImage::from_fn(133, 60, colour).save(at("colour.png")).expect("a picture");
    let alpha = |x, y| image::Rgba([0, 1, 2, 3].map(|channel| byte(x, y, channel)));
    image::RgbaImage::from_fn(60, 133, alpha).save(at("alpha.png")).expect("a picture");
    let both = |x, y| image::LumaA([byte(x, y, 0), byte(x, y, 1)]);
    image::GrayAlphaImage::from_fn(77, 50, both).save(at("grey-alpha.png")).expect("a picture");
    ["wide", "high", "small", "same", "deep", "colour", "alpha", "grey-alpha"]
        .map(|name| at(&format!("{name}.png")))
        .into()
}

/// Probabilities of each file, by class.
fn probabilities(output: &str) -> Vec<(String, serde_json::Value)> {
    let lines = output.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON"));
    lines.map(|line| (line["file"].to_string(), line["probabilities"].clone())).collect()
}

fn the_books_program_gives_the_probabilities_of_predict() {
    let folder = tempdir().expect("a folder of the test");
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    fs::write(at("program.py"), program_of_the_book()).expect("a file");
    let files = pictures(&at("pictures"));
    // Grey images in folders; colour comes from a copy of them with three channels.
    picture_folder(&at("grey"), 12);
    for entry in fs::read_dir(at("grey")).expect("classes").flatten() {
        let class = at("colour").join(entry.file_name());
        fs::create_dir_all(&class).expect("a folder");
        for file in fs::read_dir(entry.path()).expect("pictures").flatten() {
            let picture = image::open(file.path()).expect("a picture").to_rgb8();
            picture.save(class.join(file.file_name())).expect("a picture");
        }
    }
    // Labels of which a picture may have several.
    let rows = ["bright", "dark", "striped"].into_iter().flat_map(|class| {
        let label = if class == "dark" { "dark" } else { "bright;striped" };
        (0..12).map(move |index| format!("grey/{class}/{index:02}.png,{label}\n"))
    });
    fs::write(at("labels.csv"), "path,label\n".to_string() + &rows.collect::<String>()).expect("a manifest");
    for (number, (data, flags, interpolation)) in [
        ("grey", "", "bilinear"),
        ("grey", "--fit crop --normalise percentiles", "bicubic"),
        ("labels.csv", "", "bicubic"),
        ("colour", "--normalise imagenet", "bicubic"),
        ("colour", "--fit crop", "bilinear"),
        ("colour", "--normalise percentiles", "bilinear"),
    ]
    .into_iter()
    .enumerate()
    {
        let (run, file) = (at(&format!("run-{number}")), at(&format!("{number}.onnx")));
        let mut command = kindling_tests::train(&at(data), &run, "--batch-size 4 --max-steps 6 --quiet --lr 0.01");
        command.args(flags.split_whitespace());
        Outcome::of(&mut command).succeeded();
        // The cubic kernel belongs to pretrained weights, and no flag asks for it.
        let config = fs::read_to_string(run.join("config.toml")).expect("a configuration");
        fs::write(run.join("config.toml"), config.replace("\"bilinear\"", &format!("{interpolation:?}")))
            .expect("a file");
        let mut command = kindling();
        command.args(["export", "--format", "onnx"]).arg(&run).arg("--output").arg(&file);
        Outcome::of(&mut command).succeeded();

        let mut command = kindling();
        command.args(["predict", "--format", "json", "--device", "cpu"]).arg(&run).args(&files);
        let expected = probabilities(&Outcome::of(&mut command).succeeded().stdout);
        let mut command = interpreter();
        let found = Outcome::of(command.arg(at("program.py")).arg(&file).args(&files)).succeeded().stdout;
        let found = probabilities(&found);
        assert_eq!((found.len(), expected.len()), (files.len(), files.len()), "{data} {flags}");
        let (mut furthest, mut spread) = (0.0_f64, [1.0_f64, 0.0]);
        for ((name, found), (_, expected)) in found.iter().zip(&expected) {
            for (class, expected) in expected.as_object().expect("by class") {
                let (found, expected) =
                    (found[class].as_f64().expect("a number"), expected.as_f64().expect("a number"));
                let apart = (found - expected).abs();
                // On some processors six steps make networks of large slopes; another preprocessing is apart by hundredths.
                assert!(apart < 1e-4, "{data} {flags}: {class} of {name} is {found}, not {expected}");
                furthest = furthest.max(apart);
                spread = [spread[0].min(expected), spread[1].max(expected)];
            }
        }
        eprintln!("{data} {flags}: at most {furthest:e} apart");
        assert!(spread[1] - spread[0] > 0.05, "{data} {flags}: networks that answer the same to all agree too easily");
    }
}
