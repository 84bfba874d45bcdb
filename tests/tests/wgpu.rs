//! A whole run on wgpu, on whatever device it finds. On Vulkan in software, compiling the kernels takes minutes, so this is a
//! nightly test. Some of the operations are tested in every run, and all of them nightly (`crates/ops/tests/cube.rs`).

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use kindling_tests::{Optional, Outcome, Test, kindling, losses, picture_folder, run_optional_and_nightly};
use serde_json::Value;
use tempfile::tempdir;

fn main() -> ExitCode {
    let need = Optional { missing: missing(), required_by: "KINDLING_REQUIRE_WGPU" };
    let nightly = vec![Test::new("a_run_on_wgpu_follows_the_one_on_the_cpu", a_run_on_wgpu_follows_the_one_on_the_cpu)];
    run_optional_and_nightly(need, Vec::new(), nightly, "minutes")
}

fn missing() -> Option<String> {
    let folder = tempdir().expect("a temporary folder");
    let mut command = kindling();
    let outcome = Outcome::of(command.args(["devices", "--json"]).env("XDG_RUNTIME_DIR", folder.path())).succeeded();
    let devices: Vec<Value> = outcome.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let usable = devices.iter().any(|device| device["device"] == "wgpu" && device["usable"] == true);
    (!usable).then(|| "a GPU with a Vulkan, Metal or DirectX driver, or Debian's mesa-vulkan-drivers".to_string())
}

/// Two steps of four images, with as few kernels to choose from as possible: of the zoo, ResNet-18 has the fewest shapes of
/// convolutions, and each shape's kernels are compiled, which in software takes seconds.
fn train(data: &Path, out: &Path, device: &str, runtime: &Path) -> Outcome {
    let mut command = kindling();
    command.args([
        "train",
        "--model",
        "resnet18",
        "--image-size",
        "32",
        "--batch-size",
        "4",
        "--max-steps",
        "2",
        "--device",
        device,
    ]);
    command.args(["--lr", "0.0005", "--data"]).arg(data).arg("--out").arg(out);
    command.env("CUBECL_AUTOTUNE_LEVEL", "minimal").env("XDG_RUNTIME_DIR", runtime);
    Outcome::of(&mut command).succeeded()
}

fn a_run_on_wgpu_follows_the_one_on_the_cpu() {
    let folder = tempdir().expect("a temporary folder");
    let [data, cpu, wgpu] = ["data", "cpu", "wgpu"].map(|name| folder.path().join(name));
    // Every batch has four images: kernels are compiled anew for each shape, and that is what takes the time.
    for (split, each) in [("train", 4), ("val", 2), ("test", 2)] {
        picture_folder(&data.join(split), each);
        fs::remove_dir_all(data.join(split).join("striped")).expect("a folder of the test can be removed");
    }
    train(&data, &cpu, "cpu", folder.path());
    let result = train(&data, &wgpu, "wgpu", folder.path()).result();
    assert!(result["test_accuracy"].is_number(), "{result}");
    let (expected, found) = (losses(&cpu), losses(&wgpu));
    assert_eq!(found.len(), 2);
    let difference = (expected[0] - found[0]).abs() / expected[0];
    assert!(difference < 1e-3, "the first loss is {} on the CPU and {} on wgpu", expected[0], found[0]);
    // The second loss comes after a backward pass and an update, which amplify rounding.
    let difference = (expected[1] - found[1]).abs() / expected[1];
    assert!(difference < 0.05, "the second loss is {} on the CPU and {} on wgpu", expected[1], found[1]);
}
