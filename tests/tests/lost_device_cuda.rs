//! A GPU that is really lost: the driver answers a launch in the middle of training as it does after an illegal address, and
//! every call afterwards, reading memory included. `lost_device.rs` has the same with losses that Kindling makes up. The GPU
//! is the stand-in for CUDA.

use std::fs;
use std::process::ExitCode;

use kindling_tests::{
    Outcome, SHORT_STEPS, ShortRuns, Started, Test, assert_same_bits, checkpoints, cuda_on_cpu, events, on_cuda,
    resume, run_optional_and_nightly, steps, toml_value,
};

/// The fault comes after this step.
const BEFORE: u64 = 2;

fn main() -> ExitCode {
    let tests = vec![Test::new(
        "a_lost_gpu_is_saved_from_host_memory_and_a_new_process_ends_with_the_same_bits",
        a_lost_gpu_is_saved_from_host_memory_and_a_new_process_ends_with_the_same_bits,
    )];
    run_optional_and_nightly(cuda_on_cpu(), tests, FAULTS.map(each_fault).into(), "minutes")
}

/// A run whose next launch fails with this status once some steps are done.
fn loses_the_gpu(runs: &ShortRuns, name: &str, status: u32, flags: &[&str]) -> Outcome {
    let fault = runs.path("fault");
    let mut command = runs.train(name);
    command.args(flags).env("CUDASIM_FAULT_FILE", &fault);
    let mut started = Started::new(command, &runs.path(name));
    started.until_step(BEFORE);
    // The file is there whole or not at all.
    let half = runs.path("half");
    fs::write(&half, format!("launch={status}")).expect("a file of the test can be written");
    fs::rename(&half, &fault).expect("a file of the test can be named");
    let outcome = started.end();
    assert!(!fault.exists(), "the fault never came\n{}", outcome.all());
    outcome
}

fn a_lost_gpu_is_saved_from_host_memory_and_a_new_process_ends_with_the_same_bits() {
    let runs = ShortRuns::new();
    let undisturbed = runs.undisturbed();
    let outcome = loses_the_gpu(&runs, "restarted", 700, &["--restart-on-device-loss", "1"]).succeeded();
    let (undisturbed, run) = (ShortRuns::finished(undisturbed), runs.path("restarted"));
    let told = outcome.stderr.lines().find(|line| line.contains("going on in a new process")).unwrap_or_default();
    says_what_is_saved(told, "status 700 (illegal address)", &outcome);
    assert_eq!(outcome.result()["steps"], SHORT_STEPS, "the last process prints the result");
    let events = events(&run);
    let resumed = events.iter().filter(|event| event["event"] == "resumed").filter_map(|event| event["step"].as_u64());
    let resumed: Vec<u64> = resumed.collect();
    // Reading the copy may have been what met the fault: then it is the copy before.
    assert!(matches!(resumed[..], [1..=BEFORE]), "resumed after {resumed:?}\n{}", outcome.all());
    assert_eq!(steps(&run), (1..=SHORT_STEPS).collect::<Vec<_>>());
    assert_same_bits(&undisturbed, &run, "after the GPU was lost");
}

/// Faults after which a GPU is lost to the process.
const FAULTS: [(u32, &str); 4] =
    [(700, "illegal address"), (702, "launch timeout"), (716, "misaligned address"), (719, "launch failure")];

fn each_fault((status, name): (u32, &'static str)) -> Test {
    Test::new(format!("status_{status}_loses_no_saved_step_and_resume_ends_with_the_same_bits"), move || {
        let runs = ShortRuns::new();
        let undisturbed = runs.undisturbed();
        let outcome = loses_the_gpu(&runs, "lost", status, &[]);
        says_what_is_saved(&outcome.refused(), &format!("status {status} ({name})"), &outcome);
        let (undisturbed, run) = (ShortRuns::finished(undisturbed), runs.path("lost"));
        let saved = toml_value(&checkpoints(&run).pop().expect("a checkpoint").join("state.toml"), "step");
        assert!(outcome.stderr.contains(&format!("saved as it was after step {saved}")), "{}", outcome.all());
        Outcome::of(on_cuda(&mut resume(&run), "6.1")).succeeded();
        assert_same_bits(&undisturbed, &run, name);
    })
}

fn says_what_is_saved(sentence: &str, status: &str, outcome: &Outcome) {
    for part in ["lost at step", status, "saved as it was after step", "--resume"] {
        assert!(sentence.contains(part), "`{sentence}` does not say `{part}`\n{}", outcome.all());
    }
}
