//! What the command exports, run by onnxruntime.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use kindling_tests::{Optional, Outcome, kindling, picture_folder, read_tensors, run_optional};
use tempfile::tempdir;

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_PYTHON" };
    let name = "an_exported_generator_makes_the_images_that_sample_makes";
    run_optional(need, &[(name, an_exported_generator_makes_the_images_that_sample_makes)])
}

fn python() -> Command {
    let mut python = Command::new(env::var_os("KINDLING_PYTHON").unwrap_or_else(|| "python3".into()));
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/onnx/tests/run_onnx.py"));
    python
}

fn missing() -> Option<String> {
    let usable = python().output().is_ok_and(|output| output.status.success());
    (!usable).then(|| "Python with numpy, onnx and onnxruntime: set KINDLING_PYTHON to one that has them".to_string())
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
