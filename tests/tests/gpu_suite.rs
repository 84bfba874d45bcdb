//! `scripts/gpu-suite.sh` works before a GPU meets it: every part passes in its small form, by day on the CPU, and by night on the
//! stand-in for CUDA, where kernels are executed.

use std::path::Path;
use std::process::{Command, ExitCode};

use kindling_tests::{Optional, Suite, Test, cuda_on_cpu, json_of, kindling, on_cuda};
use tempfile::tempdir;

/// Parts that take seconds on the CPU.
const BY_DAY: &str = "environment,training,planner";
const MINUTES: &str = "300";

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.add(
        &Optional::nothing(),
        vec![Test::new("parts_of_the_gpu_suite_pass_on_the_cpu", || passes("cpu", Some(BY_DAY)))],
    );
    let whole = Test::new("every_part_of_the_gpu_suite_passes_on_cuda_made_of_the_cpu", || passes("cuda", None));
    suite.add_nightly(&cuda_on_cpu(), vec![whole], "an hour where kernels are executed by the CPU");
    let on_the_cpu = Test::new("every_part_of_the_gpu_suite_passes_on_the_cpu", || passes("cpu", None));
    suite.add_nightly(&Optional::nothing(), vec![on_the_cpu], "five minutes of runs");
    suite.run()
}

/// Runs the small form of the suite, and reads the report of each part.
fn passes(device: &str, only: Option<&str>) {
    let folder = tempdir().expect("a temporary folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the project");
    let mut command = Command::new("bash");
    command.arg(root.join("scripts/gpu-suite.sh")).args(["--quick", "--device", device, "--minutes", MINUTES]);
    command.arg("--kindling").arg(kindling().get_program()).arg("--out").arg(folder.path());
    if let Some(parts) = only {
        command.args(["--only", parts]);
    }
    if device == "cuda" {
        on_cuda(&mut command, "8.0");
    }
    let output = command.env_remove("RUST_BACKTRACE").output().expect("bash and Python are there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let summary = json_of(&folder.path().join("suite.json"));
    let parts = summary["parts"].as_object().unwrap_or_else(|| panic!("no parts: {said}"));
    let not_passed: Vec<&String> =
        parts.iter().filter(|(_, part)| part["state"] != "passed").map(|(name, _)| name).collect();
    assert!(output.status.success() && not_passed.is_empty(), "{not_passed:?} of {}: {said}", parts.len());
    let wanted = only.map_or(8, |parts| parts.split(',').count());
    assert_eq!(parts.len(), wanted, "{said}");
}
