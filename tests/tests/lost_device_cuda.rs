//! A GPU that is lost for real: the driver answers a launch in the middle of training as it does after an illegal address, and
//! every call afterwards, reading memory included. `lost_device.rs` has the same with losses that Kindling makes up. The GPU
//! is the stand-in for CUDA.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use kindling_tests::{
    Outcome, Started, Test, assert_same_bits, checkpoints, cuda_on_cpu, events, on_cuda, picture_folder, resume,
    run_optional_and_nightly, steps, toml_value, train_on_cuda,
};
use tempfile::{TempDir, tempdir};

const STEPS: u64 = 3;
/// The fault comes in the step after this one.
const BEFORE: u64 = 2;

fn main() -> ExitCode {
    let restarts: fn() = a_lost_gpu_is_saved_from_host_memory_and_a_new_process_ends_with_the_same_bits;
    let tests = [("a_lost_gpu_is_saved_from_host_memory_and_a_new_process_ends_with_the_same_bits", restarts)];
    run_optional_and_nightly(cuda_on_cpu(), &tests, || FAULTS.map(each_fault).into(), "minutes")
}

/// Pictures for three batches of four, so that no checkpoint of an epoch comes before the fault, and as many to validate and
/// to test as fit into one: kernels are chosen anew for each size.
struct Ground {
    folder: TempDir,
}

impl Ground {
    fn new() -> Self {
        let folder = tempdir().expect("a temporary folder");
        for (split, each) in [("train", 4), ("val", 1), ("test", 1)] {
            picture_folder(&folder.path().join("data").join(split), each);
        }
        Self { folder }
    }

    fn train(&self, out: &Path) -> Command {
        let flags =
            format!("--model mobilenet_v3_small --image-size 32 --batch-size 4 --max-steps {STEPS} --workers 1");
        let mut command = train_on_cuda(&self.folder.path().join("data"), out, &flags);
        command.env_remove("RUST_BACKTRACE");
        command
    }

    /// A run that loses nothing, beside another.
    fn undisturbed(&self) -> Started {
        let run = self.folder.path().join("undisturbed");
        Started::new(self.train(&run), &run)
    }

    /// A run whose next launch fails with this status once some steps are done.
    fn loses_the_gpu(&self, name: &str, status: u32, flags: &[&str]) -> (PathBuf, Outcome) {
        let (run, fault) = (self.folder.path().join(name), self.folder.path().join(format!("{name}.fault")));
        let mut command = self.train(&run);
        command.args(flags).env("CUDASIM_FAULT_FILE", &fault);
        let mut started = Started::new(command, &run);
        started.until_step(BEFORE);
        // The file is there whole or not at all.
        let half = fault.with_extension("half");
        fs::write(&half, format!("launch={status}")).expect("a file of the test can be written");
        fs::rename(&half, &fault).expect("a file of the test can be named");
        let outcome = started.end();
        assert!(!fault.exists(), "the fault never came\n{}", outcome.all());
        (run, outcome)
    }
}

fn a_lost_gpu_is_saved_from_host_memory_and_a_new_process_ends_with_the_same_bits() {
    let ground = Ground::new();
    let undisturbed = ground.undisturbed();
    let (run, outcome) = ground.loses_the_gpu("restarted", 700, &["--restart-on-device-loss", "1"]);
    let undisturbed = finished(undisturbed);
    let outcome = outcome.succeeded();
    let told = outcome.stderr.lines().find(|line| line.contains("going on in a new process")).unwrap_or_default();
    says_what_is_saved(told, "status 700 (illegal address)", &outcome);
    assert_eq!(outcome.result()["steps"], STEPS, "the last process prints the result");
    let resumed: Vec<u64> = events(&run)
        .iter()
        .filter(|event| event["event"] == "resumed")
        .filter_map(|event| event["step"].as_u64())
        .collect();
    // Reading the copy may have been what met the fault: then it is the copy before.
    assert!(matches!(resumed[..], [1..=BEFORE]), "resumed after {resumed:?}\n{}", outcome.all());
    assert_eq!(steps(&run), (1..=STEPS).collect::<Vec<_>>());
    assert_same_bits(&undisturbed, &run, "after the GPU was lost");
}

/// Faults after which a GPU is lost to the process.
const FAULTS: [(u32, &str); 4] =
    [(700, "illegal address"), (702, "launch timeout"), (716, "misaligned address"), (719, "launch failure")];

fn each_fault((status, name): (u32, &'static str)) -> Test {
    Test::new(format!("status_{status}_loses_no_saved_step_and_resume_ends_with_the_same_bits"), move || {
        let ground = Ground::new();
        let undisturbed = ground.undisturbed();
        let (run, outcome) = ground.loses_the_gpu("lost", status, &[]);
        let undisturbed = finished(undisturbed);
        says_what_is_saved(&outcome.refused(), &format!("status {status} ({name})"), &outcome);
        let saved = toml_value(&checkpoints(&run).pop().expect("a checkpoint").join("state.toml"), "step");
        assert!(outcome.stderr.contains(&format!("saved as it was after step {saved}")), "{}", outcome.all());
        Outcome::of(on_cuda(&mut resume(&run), "6.1")).succeeded();
        assert_same_bits(&undisturbed, &run, name);
    })
}

/// The folder of a run that ends well.
fn finished(started: Started) -> PathBuf {
    let run = started.run().to_path_buf();
    started.end().succeeded();
    run
}

fn says_what_is_saved(sentence: &str, status: &str, outcome: &Outcome) {
    for part in ["lost at step", status, "saved as it was after step", "--resume"] {
        assert!(sentence.contains(part), "`{sentence}` does not say `{part}`\n{}", outcome.all());
    }
}
