//! NVIDIA's own compiler accepts every kernel of a training step, for every generation of GPUs that Kindling is meant for.
//! Nothing is executed here: that is `cuda_networks`. `KINDLING_NVRTC` names a folder that `scripts/fetch-nvrtc.sh` made.
//! A kernel takes about a second, and a network in three formats has hundreds, most of which it shares with others. So all of this
//! is nightly (`KINDLING_NIGHTLY=1`), and what was compiled is kept in the build folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kindling_tests::{
    Optional, Outcome, Test, cuda_folder, cuda_on_cpu, kindling, on_cuda, picture_folder, registry,
    run_optional_and_nightly,
};
use tempfile::tempdir;

/// Turing (no bf16), Ampere, Ada and Hopper.
const CAPABILITIES: [&str; 4] = ["7.5", "8.0", "8.9", "9.0"];

fn main() -> ExitCode {
    run_optional_and_nightly(nvrtc(), Vec::new(), every_network(), "some hours the first time")
}

fn nvrtc() -> Optional {
    let here = cuda_on_cpu();
    let folder = std::env::var_os("KINDLING_NVRTC").map(PathBuf::from).filter(|folder| folder.join("lib").is_dir());
    let missing = here.missing.or_else(|| {
        let how = "NVRTC: make a folder with scripts/fetch-nvrtc.sh, and name it in KINDLING_NVRTC";
        folder.is_none().then(|| how.to_string())
    });
    Optional { missing, required_by: "KINDLING_REQUIRE_NVRTC" }
}

/// The cheapest first, so that a nightly run that is cut short has covered most of them.
fn every_network() -> Vec<Test> {
    let (classifiers, gans) = registry();
    let all = classifiers.into_iter().map(|model| (model, false)).chain(gans.into_iter().map(|model| (model, true)));
    let each = |(model, gan): (String, bool)| CAPABILITIES.map(|capability| compiles(capability, model.clone(), gan));
    all.flat_map(each).collect()
}

/// A step in each format.
fn compiles(capability: &'static str, model: String, gan: bool) -> Test {
    Test::new(format!("kernels_of_{model}_compile_for_{capability}"), move || {
        let folder = tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        picture_folder(&data, 12);
        let cache = cuda_folder().join("ptx").join(capability);
        fs::create_dir_all(&cache).expect("a folder in target/ can be made");
        let formats: &[&str] = if capability == "7.5" { &["f32", "f16"] } else { &["f32", "f16", "bf16"] };
        for precision in formats {
            let run = folder.path().join(precision);
            step(capability, &model, precision, gan, &data, &run, &cache);
            println!("{capability} {model} {precision}: {} kernels by now", in_folder(&cache, ".ptx").len());
        }
        let refused = in_folder(&cache, ".ptx.log");
        let first = refused.first().map(|path| fs::read_to_string(path).unwrap_or_default()).unwrap_or_default();
        assert!(refused.is_empty(), "{} kernels do not compile: {refused:?}\n{first}", refused.len());
        assert!(in_folder(&cache, ".ptx").len() > 50, "hardly any kernel was compiled");
    })
}

fn step(capability: &str, model: &str, precision: &str, gan: bool, data: &Path, run: &Path, cache: &Path) {
    let nvrtc = std::env::var_os("KINDLING_NVRTC").expect("looked at before");
    let mut command = kindling();
    if gan {
        command.args(["gan", "train", "--iterations", "1", "--compare", "0", "--features", "8"]);
    } else {
        command.args(["train", "--max-steps", "1", "--image-size", "64"]);
    }
    command.args(["--model", model, "--batch-size", "4", "--precision", precision, "--device", "cuda", "--data"]);
    command.arg(data).arg("--out").arg(run);
    on_cuda(&mut command, capability).env("CUDA_PATH", nvrtc).env("CUDASIM_KERNELS", "ptx").env("CUDASIM_CACHE", cache);
    // Memory that no kernel has written reads as the answer to 1 + 1, with which a device is tried.
    command.env("CUDASIM_FILL", "2");
    // Kernels that do nothing give numbers that mean nothing: how the run ends does not matter.
    let outcome = Outcome::of(&mut command);
    assert!(run.join("events.jsonl").exists(), "{model} did not start on {capability}: {}", outcome.all());
}

/// Files whose names end so.
fn in_folder(folder: &Path, end: &str) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the test").flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_string_lossy().ends_with(end)).collect()
}
