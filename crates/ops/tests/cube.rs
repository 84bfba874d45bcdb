//! The own operations of CubeCL's devices compute what their definitions say, on whatever device is here: a GPU, or Vulkan
//! in software. `KINDLING_TEST_DEVICE` chooses `cuda` or `wgpu` where there are both. All of it runs on CUDA made of the CPU
//! too (`tests/cuda-on-cpu`), as a GPU without tensor cores, and dense convolutions as GPUs with them.

mod device;
mod naive;

use std::process::{Command, ExitCode};

use burn::backend::{Dispatch, DispatchDevice, DispatchDeviceId};
use burn::tensor::Device;
use kindling_tests::{Optional, cuda_on_cpu, on_cuda};
use libtest_mimic::{Arguments, Failed, Trial};

use device::{
    block, dense_convolutions, dense_convolutions_on_tensor_cores, depthwise_convolutions, half_formats, large_means,
    maxima, means_and_scale, norm_act, one_channel, padded, quarters, recorded_block, slices, sums_with_a_shortcut,
    unread_convolutions,
};
use naive::state::check_many_tensors;

/// A test and its name.
type Test = (&'static str, fn(&Device));

const TESTS: [Test; 15] = [
    ("many_tensors_at_once_on_a_device_equal_the_naive_sums", check_many_tensors),
    ("maps_of_one_channel_on_a_device_and_their_gradients_are_those_of_the_cpu", one_channel),
    ("norm_act_on_a_device_and_its_gradients_equal_the_naive_sums", norm_act),
    ("means_and_scale_on_a_device_and_their_gradients_equal_the_naive_sums", means_and_scale),
    ("sums_with_a_shortcut_on_a_device_and_their_gradients_equal_the_naive_sums", sums_with_a_shortcut),
    ("maxima_on_a_device_and_their_gradients_equal_the_naive_ones", maxima),
    ("dense_convolutions_on_a_device_and_their_gradients_equal_the_naive_sums", dense_convolutions),
    ("depthwise_convolutions_on_a_device_and_their_gradients_equal_the_naive_sums", depthwise_convolutions),
    ("convolutions_on_a_device_that_normalise_and_their_gradients_equal_the_naive_sums", unread_convolutions),
    ("slices_of_larger_maps_on_a_device_and_their_gradients_equal_the_naive_sums", slices),
    ("maps_with_padded_rows_on_a_device_and_their_gradients_equal_the_naive_sums", padded),
    ("quarters_of_maps_on_a_device_are_scaled_and_averaged_as_on_the_cpu", quarters),
    ("a_block_on_a_device_has_the_gradients_of_the_cpu", block),
    ("half_formats_on_a_device_are_near_the_float32_result", half_formats),
    ("the_variance_on_a_device_survives_a_large_mean", large_means),
];

/// Runs alone: what another thread asks of the device meanwhile is recorded too, or refused. On CUDA only, where there are graphs.
const ALONE: Test = ("a_block_is_recorded_as_a_graph_and_replays_to_the_same_gradients", recorded_block);
/// Needs tensor cores, which round what they multiply.
const TENSOR_CORES: Test = (
    "dense_convolutions_on_tensor_cores_and_their_gradients_are_near_the_naive_sums",
    dense_convolutions_on_tensor_cores,
);
/// Tests that run on other devices than the stand-in by day; compiling their kernels in software takes minutes.
const BY_DAY: usize = 5;

/// What the stand-in for CUDA claims to be, and which of the kernels that could be used are (`CUDASIM_CLOCK`).
const WITHOUT_CORES: (&str, &str) = ("6.1", "fixed");
const WITH_CORES: [(&str, &str); 4] = [("8.0", "fixed"), ("9.0", "fixed"), ("8.0", "falling"), ("9.0", "falling")];
/// How many of those with tensor cores run by day.
const CORES_BY_DAY: usize = 1;
/// What this program is told when it runs on the stand-in, and how many tests pass then.
type Run = (&'static [&'static str], usize);
const EVERY_TEST: [Run; 2] =
    [(&["--skip", ALONE.0, "--skip", TENSOR_CORES.0], TESTS.len()), (&["--exact", ALONE.0], 1)];
const ON_CORES: [Run; 1] = [(&["--exact", TENSOR_CORES.0], 1)];
/// Chooses the device, where there are several.
const CHOICE: &str = "KINDLING_TEST_DEVICE";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let choice = std::env::var(CHOICE).ok();
    let device = first_device(choice.as_deref().unwrap_or_default());
    let required = choice.is_some() || is_required("KINDLING_REQUIRE_WGPU");
    let missing = "needs a GPU with a driver, or Debian's mesa-vulkan-drivers";
    let trial = |(name, test): Test| match device.clone() {
        Some(device) => Trial::test(name, move || {
            test(&device.autodiff());
            Ok(())
        }),
        None => Trial::test(name, move || Err(format!("this test {missing}").into())).with_ignored_flag(!required),
    };
    let night = is_required("KINDLING_NIGHTLY");
    let count = if choice.is_some() || night { TESTS.len() } else { BY_DAY };
    let mut trials: Vec<Trial> = TESTS.into_iter().take(count).map(trial).collect();
    if choice.as_deref() == Some("cuda") {
        trials.extend([trial(ALONE), trial(TENSOR_CORES)]);
    }
    let Optional { missing: no_compiler, required_by } = cuda_on_cpu();
    let with_cores = if night { WITH_CORES.len() } else { CORES_BY_DAY };
    if choice.is_none() {
        let left_out = no_compiler.is_some() && !is_required(required_by);
        let mut add = |what: &str, device: (&'static str, &'static str), runs: &'static [Run]| {
            let name = format!("{what}_on_cuda_made_of_the_cpu_{}_{}", device.0, device.1);
            trials.push(Trial::test(name, move || on_cuda_on_cpu(device, runs)).with_ignored_flag(left_out));
        };
        add("every_test", WITHOUT_CORES, &EVERY_TEST);
        for device in WITH_CORES.into_iter().take(with_cores) {
            add("tensor_cores", device, &ON_CORES);
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if device.is_none() && !required && !arguments.list {
        println!("not run: {} tests, each {missing}\n", TESTS.len());
    } else if count < TESTS.len() && !arguments.list {
        println!("not run: {} tests on this device, which KINDLING_NIGHTLY=1 asks for\n", TESTS.len() - count);
    }
    if let (Some(missing), true, false) = (no_compiler, choice.is_none(), arguments.list) {
        println!("not run: {} tests, each needs {missing}\n", 1 + with_cores);
    }
    conclusion.exit_code()
}

fn is_required(by: &str) -> bool {
    std::env::var(by).is_ok_and(|value| value == "1")
}

/// The first device with kernels whose name begins so.
fn first_device(name: &str) -> Option<Device> {
    let is_called = |device: &DispatchDevice| format!("{device:?}").to_lowercase().starts_with(&format!("cube({name}"));
    Dispatch::enumerate(DispatchDeviceId::Cube).into_iter().find(is_called).map(Device::new)
}

/// Runs this program again, where the loader finds the stand-in for CUDA.
fn on_cuda_on_cpu((capability, clock): (&str, &str), runs: &[Run]) -> Result<(), Failed> {
    for (words, count) in runs {
        let mut command = Command::new(std::env::current_exe()?);
        on_cuda(&mut command, capability).env("CUDASIM_CLOCK", clock).env(CHOICE, "cuda").args(*words);
        if clock != "fixed" {
            command.env("CUBECL_AUTOTUNE_SHORT_CIRCUIT", "false");
        }
        let output = command.output()?;
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // A panic on a thread of the device leaves the results right and memory allocated.
        let passed = text.contains(&format!("{count} passed")) && !errors.contains("panicked at");
        if !(output.status.success() && passed) {
            return Err(format!("{}\n{text}\n{errors}", output.status).into());
        }
    }
    Ok(())
}
