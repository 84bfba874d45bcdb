//! The own operations of CubeCL's devices compute what their definitions say, on whatever device is here: a GPU, or Vulkan
//! in software. `KINDLING_TEST_DEVICE` chooses `cuda` or `wgpu` where there are both. All of it runs on CUDA made of the CPU
//! too (`tests/cuda-on-cpu`), as a GPU without tensor cores, and dense convolutions as GPUs with them.

mod device;
mod naive;

use std::process::{Command, ExitCode};

use burn::backend::{Dispatch, DispatchDevice, DispatchDeviceId};
use burn::tensor::{Device, FloatDType};
use kindling_ops::rounds_factors;
use kindling_tests::{Optional, Suite, Test, cuda_on_cpu, on_cuda, repeat_what_was_not_run};

use device::{
    bfloat16, block, deferred_convolutions, dense_convolutions, dense_convolutions_on_tensor_cores,
    depthwise_convolutions, doubled_bfloat16, doubled_float16, float16, large_means, maxima, moves_of_many_tensors,
    norm_act, one_channel, padded, pool_and_multiply, quarters, recorded_block, resized, slices, sums_with_a_shortcut,
    uploads,
};
use naive::FACTORS_ARE_ROUNDED;
use naive::norm::check_sums_over_groups;
use naive::state::{check_many_tensors, check_sums, check_updates_of_many_tensors};

/// A test of a device and its name.
type OnDevice = (&'static str, fn(&Device));

const TESTS: [OnDevice; 20] = [
    ("numbers_that_are_uploaded_to_a_device_arrive", uploads),
    ("sums_on_a_device_and_their_gradients_equal_the_naive_ones", check_sums),
    ("many_tensors_at_once_on_a_device_equal_the_naive_sums", check_many_tensors),
    ("moves_of_many_tensors_on_a_device_equal_the_naive_ones", moves_of_many_tensors),
    ("sums_over_groups_on_a_device_equal_the_naive_ones", check_sums_over_groups),
    ("adamws_updates_of_many_tensors_on_a_device_equal_the_papers", check_updates_of_many_tensors),
    ("maps_of_one_channel_on_a_device_and_their_gradients_are_those_of_the_cpu", one_channel),
    ("resized_maps_on_a_device_and_their_gradients_equal_the_naive_sums", resized),
    ("norm_act_on_a_device_and_its_gradients_equal_the_naive_sums", norm_act),
    ("pool_and_multiply_on_a_device_and_their_gradients_equal_the_naive_sums", pool_and_multiply),
    ("sums_with_a_shortcut_on_a_device_and_their_gradients_equal_the_naive_sums", sums_with_a_shortcut),
    ("maxima_on_a_device_and_their_gradients_equal_the_naive_ones", maxima),
    ("dense_convolutions_on_a_device_and_their_gradients_equal_the_naive_sums", dense_convolutions),
    ("depthwise_convolutions_on_a_device_and_their_gradients_equal_the_naive_sums", depthwise_convolutions),
    ("convolutions_on_a_device_that_normalise_and_their_gradients_equal_the_naive_sums", deferred_convolutions),
    ("slices_of_larger_maps_on_a_device_and_their_gradients_equal_the_naive_sums", slices),
    ("maps_with_padded_rows_on_a_device_and_their_gradients_equal_the_naive_sums", padded),
    ("quarters_of_maps_on_a_device_are_scaled_and_averaged_as_on_the_cpu", quarters),
    ("a_block_on_a_device_has_the_gradients_of_the_cpu", block),
    ("the_variance_on_a_device_survives_a_large_mean", large_means),
];

/// Those of them with matrix products, whose factors tensor cores round.
const PRODUCTS: [&str; 6] = [
    "maps_of_one_channel_on_a_device_and_their_gradients_are_those_of_the_cpu",
    "dense_convolutions_on_a_device_and_their_gradients_equal_the_naive_sums",
    "convolutions_on_a_device_that_normalise_and_their_gradients_equal_the_naive_sums",
    "slices_of_larger_maps_on_a_device_and_their_gradients_equal_the_naive_sums",
    "maps_with_padded_rows_on_a_device_and_their_gradients_equal_the_naive_sums",
    "a_block_on_a_device_has_the_gradients_of_the_cpu",
];

/// Tests of maps in formats that not every device has.
const HALVES: [(FloatDType, OnDevice); 4] = [
    (FloatDType::F16, ("float16_maps_on_a_device_are_near_the_float32_result", float16)),
    (FloatDType::BF16, ("bfloat16_maps_on_a_device_are_near_the_float32_result", bfloat16)),
    (FloatDType::F16, ("gradients_of_doubled_float16_maps_on_a_device_are_exact", doubled_float16)),
    (FloatDType::BF16, ("gradients_of_doubled_bfloat16_maps_on_a_device_are_exact", doubled_bfloat16)),
];

/// Runs alone, and only if its name is given: what another thread asks of the device meanwhile is recorded too, or refused. On CUDA
/// only, where there are graphs.
const ALONE: OnDevice = ("a_block_is_recorded_as_a_graph_and_replays_to_the_same_gradients", recorded_block);
/// Needs tensor cores, which round what they multiply.
const TENSOR_CORES: OnDevice = (
    "dense_convolutions_on_tensor_cores_and_their_gradients_are_near_the_naive_sums",
    dense_convolutions_on_tensor_cores,
);
/// Tests that run on other devices than the stand-in by day; compiling their kernels in software takes minutes.
const BY_DAY: usize = 11;

/// Compute capabilities that the stand-in for CUDA claims.
const WITHOUT_CORES: &str = "6.1";
const WITH_CORES: &str = "8.0";
const WITH_CORES_BY_NIGHT: &str = "9.0";
/// What this program is told when it runs on the stand-in, and how many tests it then has.
type Run = (&'static [&'static str], usize);
const EVERY_TEST: [Run; 2] =
    [(&["--skip", ALONE.0, "--skip", TENSOR_CORES.0], TESTS.len() + HALVES.len()), (&["--exact", ALONE.0], 1)];
const ON_CORES: [Run; 1] = [(&["--exact", TENSOR_CORES.0], 1)];
/// Chooses the device, where there are several.
const CHOICE: &str = "KINDLING_TEST_DEVICE";

fn main() -> ExitCode {
    let choice = std::env::var(CHOICE).ok();
    let device = first_device(choice.as_deref().unwrap_or_default());
    if let (Some(choice), None) = (&choice, &device) {
        panic!("{CHOICE} is {choice}, and there is no such device");
    }
    let missing = device.is_none().then(|| "a GPU with a driver, or Debian's mesa-vulkan-drivers".to_string());
    let here = Optional { missing, required_by: "KINDLING_REQUIRE_WGPU" };
    let of = |(name, test): OnDevice| {
        let device = device.clone();
        Test::new(name, move || {
            let device = device.expect("a device with kernels");
            FACTORS_ARE_ROUNDED.set(PRODUCTS.contains(&name) && rounds_factors(&device));
            test(&device.autodiff());
        })
    };
    let all = |tests: &[OnDevice]| tests.iter().copied().map(of).collect::<Vec<_>>();
    // A device that was chosen is tested whole at any time.
    let (always, by_night) = TESTS.split_at(if choice.is_some() { TESTS.len() } else { BY_DAY });
    let so_long = "minutes where kernels are compiled in software";

    let mut suite = Suite::new();
    suite.add(&here, all(always));
    suite.add_nightly(&here, all(by_night), so_long);
    for (format, test) in HALVES {
        let need = match &device {
            Some(device) if !device.supports_dtype(format) => {
                Optional { missing: Some(format!("a device with {format:?}")), ..Optional::nothing() }
            }
            _ => here.clone(),
        };
        if choice.is_some() || need.missing.is_some() {
            suite.add(&need, all(&[test]));
        } else {
            suite.add_nightly(&need, all(&[test]), so_long);
        }
    }
    if choice.is_none() {
        let stand_in = cuda_on_cpu();
        let cores = |device| on_cuda_on_cpu("tensor_cores", device, &ON_CORES);
        suite.add(&stand_in, vec![on_cuda_on_cpu("every_test", WITHOUT_CORES, &EVERY_TEST), cores(WITH_CORES)]);
        let every_test = on_cuda_on_cpu("every_test", WITH_CORES_BY_NIGHT, &EVERY_TEST);
        suite.add_nightly(&stand_in, vec![every_test, cores(WITH_CORES_BY_NIGHT)], "minutes");
    } else if choice.as_deref() == Some("cuda") {
        let alone = std::env::args().any(|word| word == ALONE.0);
        suite.add(&here, all(&[if alone { ALONE } else { TENSOR_CORES }]));
    }
    suite.run()
}

/// The first device with kernels whose name begins so.
fn first_device(name: &str) -> Option<Device> {
    let is_called = |device: &DispatchDevice| format!("{device:?}").to_lowercase().starts_with(&format!("cube({name}"));
    Dispatch::enumerate(DispatchDeviceId::Cube).into_iter().find(is_called).map(Device::new)
}

/// Runs this program again, where the loader finds the stand-in for CUDA.
fn on_cuda_on_cpu(what: &str, capability: &'static str, runs: &'static [Run]) -> Test {
    Test::new(format!("{what}_on_cuda_made_of_the_cpu_{capability}"), move || {
        for (words, count) in runs {
            let mut command = Command::new(std::env::current_exe().expect("a test knows where it lies"));
            on_cuda(&mut command, capability).env(CHOICE, "cuda").args(*words);
            let output = command.output().expect("a test can be started again");
            let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            repeat_what_was_not_run(&text, &format!("on CUDA made of the CPU, {capability}"));
            let whole = *count == counted(&text, "passed") + counted(&text, "ignored") && counted(&text, "passed") > 0;
            // A panic on a thread of the device leaves the results right and memory allocated.
            let passed = output.status.success() && whole && !errors.contains("panicked at");
            assert!(passed, "{}\n{text}\n{errors}", output.status);
        }
    })
}

/// How many tests the line `test result: ok. 14 passed; 0 failed; 1 ignored; ...` calls so.
fn counted(text: &str, what: &str) -> usize {
    let line = text.lines().find(|line| line.starts_with("test result:")).unwrap_or_default();
    let words: Vec<&str> = line.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let pair = words.windows(2).find(|pair| pair[1] == what);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}
