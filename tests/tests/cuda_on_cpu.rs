//! The command on the stand-in for CUDA: that the path to the device works at all.

use std::process::ExitCode;

use kindling_tests::{Outcome, cuda_on_cpu, kindling, on_cuda, run_optional};
use serde_json::Value;

fn main() -> ExitCode {
    run_optional(cuda_on_cpu(), &[("the_stand_in_is_a_usable_device", the_stand_in_is_a_usable_device)])
}

fn the_stand_in_is_a_usable_device() {
    for capability in ["6.1", "8.0", "9.0"] {
        let outcome = Outcome::of(on_cuda(&mut kindling(), capability).args(["devices", "--json"])).succeeded();
        let devices: Vec<Value> = outcome.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let cuda = devices.iter().find(|device| device["device"].as_str().is_some_and(|name| name.starts_with("cuda")));
        assert!(cuda.is_some_and(|device| device["usable"] == true), "{capability}: {}", outcome.all());
    }
}
