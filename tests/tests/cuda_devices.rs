//! What `kindling devices` and `--device` say of NVIDIA GPUs that cannot be used, on the stand-in for CUDA.

use std::path::Path;
use std::process::{Command, ExitCode};

use kindling_tests::{
    Outcome, SHORT_STEPS, ShortRuns, Started, assert_same_bits, cuda_folder, cuda_on_cpu, json_of, kindling, on_cuda,
    run_optional,
};
use serde_json::Value;

fn main() -> ExitCode {
    run_optional(
        cuda_on_cpu(),
        &[
            ("a_second_gpu_is_used_by_its_number", a_second_gpu_is_used_by_its_number),
            ("a_run_on_the_second_gpu_has_the_bits_of_the_first", a_run_on_the_second_gpu_has_the_bits_of_the_first),
            ("a_number_too_high_is_told_what_there_is", a_number_too_high_is_told_what_there_is),
            ("cuda_visible_devices_is_honoured", cuda_visible_devices_is_honoured),
            ("memory_is_that_of_the_visible_gpu", memory_is_that_of_the_visible_gpu),
            ("an_unplugged_gpu_is_told", an_unplugged_gpu_is_told),
            ("a_busy_gpu_is_told", a_busy_gpu_is_told),
            ("a_driver_too_old_is_told", a_driver_too_old_is_told),
            ("a_compute_capability_too_low_is_told", a_compute_capability_too_low_is_told),
            ("incomplete_headers_are_told_with_their_packages", incomplete_headers_are_told_with_their_packages),
            ("missing_headers_are_told", missing_headers_are_told),
            (
                "a_kernel_that_does_not_compile_is_told_with_its_reason",
                a_kernel_that_does_not_compile_is_told_with_its_reason,
            ),
            (
                "limits_of_a_profile_are_those_of_the_gpus_data_sheet",
                limits_of_a_profile_are_those_of_the_gpus_data_sheet,
            ),
        ],
    )
}

/// The GPUs that `kindling devices` shows with these settings: name, usable, what it says.
fn devices(settings: &[(&str, &str)]) -> Vec<(String, bool, String)> {
    let mut command = kindling();
    on_cuda(&mut command, "6.1").envs(settings.iter().copied()).env("RUST_BACKTRACE", "0").args(["devices", "--json"]);
    let outcome = Outcome::of(&mut command).succeeded();
    let lines = outcome.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let of_line = |line: Value| {
        let usable = line["usable"] == true;
        (text(&line["device"]), usable, text(&line[if usable { "about" } else { "why" }]))
    };
    lines.map(of_line).filter(|(name, ..)| name.starts_with("cuda")).collect()
}

/// What is said of the only GPU, which cannot be used: one sentence, by `devices` and by a command that is to use it.
fn why_unusable(settings: &[(&str, &str)], device: &str) -> String {
    let shown = devices(settings);
    let (_, usable, why) = shown.into_iter().next().expect("a line for CUDA");
    assert!(!usable && !why.contains('\n') && !why.contains("unwrap"), "{why}");
    let sentence = refused(on_cuda(&mut kindling(), "6.1").envs(settings.iter().copied()), device);
    assert!(sentence.contains(&why), "`devices` says {why}, and --device {device}: {sentence}");
    why
}

/// The one sentence of a training that cannot begin on a device.
fn refused(command: &mut Command, device: &str) -> String {
    let out = cuda_folder().join("never");
    command
        .env("RUST_BACKTRACE", "0")
        .args(["train", "--data", "phantoms", "--max-steps", "1", "--device", device, "--out"])
        .arg(&out);
    let outcome = Outcome::of(command);
    assert!(outcome.code != Some(0), "{}", outcome.all());
    assert!(!out.exists(), "a run was left behind");
    let said: Vec<&str> = outcome.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    assert!(said.len() == 1 && said[0].starts_with("error: "), "{}", outcome.all());
    said[0].to_string()
}

fn a_second_gpu_is_used_by_its_number() {
    let both = devices(&[("CUDASIM_DEVICES", "2")]);
    let names: Vec<&str> = both.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["cuda:0", "cuda:1"]);
    assert!(both.iter().all(|(_, usable, _)| *usable), "{both:?}");
}

/// The first GPU has no room for a single page: whatever goes to it by mistake is refused.
fn a_run_on_the_second_gpu_has_the_bits_of_the_first() {
    let runs = ShortRuns::new();
    let alone = ShortRuns::finished(runs.undisturbed());
    let mut command = kindling();
    command.arg("train").arg("--data").arg(runs.path("data")).arg("--out").arg(runs.path("second"));
    let words = "--device cuda:1 --model mobilenet_v3_small --image-size 32 --batch-size 4 --workers 1 --max-steps";
    command.args(words.split(' ')).arg(SHORT_STEPS.to_string());
    on_cuda(&mut command, "6.1").env_remove("RUST_BACKTRACE");
    command.envs([("CUDASIM_DEVICES", "2"), ("CUDASIM_NAME", "First,Second"), ("CUDASIM_MEMORY", "1MiB,8GiB")]);
    let second = ShortRuns::finished(Started::new(command, &runs.path("second")));
    assert_same_bits(&alone, &second, "on the second GPU");
    let environment = json_of(&second.join("environment.json"));
    assert!(environment.to_string().contains("Second"), "{environment}");
}

fn a_number_too_high_is_told_what_there_is() {
    let one = refused(on_cuda(&mut kindling(), "6.1"), "cuda:1");
    assert!(one.contains("the driver shows one GPU, cuda:0"), "{one}");
    let two = refused(on_cuda(&mut kindling(), "6.1").env("CUDASIM_DEVICES", "2"), "cuda:2");
    assert!(two.contains("the driver shows 2 GPUs, cuda:0 to cuda:1"), "{two}");
}

fn cuda_visible_devices_is_honoured() {
    // The second of two, with less memory than the first, is the only one that is seen.
    let settings = [("CUDASIM_DEVICES", "2"), ("CUDASIM_NAME", "First,Second"), ("CUDA_VISIBLE_DEVICES", "1")];
    let shown = devices(&settings);
    assert!(matches!(&shown[..], [(name, true, about)] if name == "cuda:0" && about.contains("Second")), "{shown:?}");
    let refused = refused(on_cuda(&mut kindling(), "6.1").envs(settings), "cuda:1");
    assert!(refused.contains("CUDA_VISIBLE_DEVICES=1 shows this process one GPU, cuda:0"), "{refused}");
    let none = why_unusable(&[("CUDA_VISIBLE_DEVICES", "5")], "cuda");
    assert!(none.contains("CUDA_VISIBLE_DEVICES=5 shows this process no GPU"), "{none}");
}

/// Of two GPUs, of which the second has less memory.
fn memory_is_that_of_the_visible_gpu() {
    for (shown, most) in [("0", 8u64 << 30), ("1", 2 << 30), ("1,0", 2 << 30)] {
        let mut command = kindling();
        on_cuda(&mut command, "6.1").args(["plan", "--device", "cuda", "--format", "json"]);
        command.envs([("CUDASIM_DEVICES", "2"), ("CUDASIM_MEMORY", "8GiB,2GiB"), ("CUDA_VISIBLE_DEVICES", shown)]);
        let found = Outcome::of(&mut command).succeeded().result()["memory"].as_u64().expect("a number of bytes");
        assert!(found <= most && found > most / 2, "CUDA_VISIBLE_DEVICES={shown}: {found} bytes of {most}");
    }
}

fn an_unplugged_gpu_is_told() {
    // CUDA_ERROR_NO_DEVICE.
    let why = why_unusable(&[("CUDASIM_INIT", "100")], "cuda");
    assert!(why.contains("finds no GPU") && why.contains("unplugged"), "{why}");
}

fn a_busy_gpu_is_told() {
    let why = why_unusable(&[("CUDASIM_BUSY", "0")], "cuda");
    assert!(why.contains("exclusive") && why.contains("nvidia-smi"), "{why}");
    // The other one is free.
    let shown = devices(&[("CUDASIM_DEVICES", "2"), ("CUDASIM_BUSY", "0")]);
    assert_eq!(shown.iter().map(|(_, usable, _)| *usable).collect::<Vec<_>>(), [false, true], "{shown:?}");
}

fn a_driver_too_old_is_told() {
    let why = why_unusable(&[("CUDASIM_DRIVER", "12.2")], "cuda");
    assert!(why.contains("CUDA 12.2") && why.contains("NVRTC 12.8") && why.contains("update the driver"), "{why}");
}

fn a_compute_capability_too_low_is_told() {
    let why = why_unusable(&[("CUDASIM_CC", "3.5")], "cuda");
    assert!(why.contains("compute capability is 3.5") && why.contains("5.0"), "{why}");
}

fn incomplete_headers_are_told_with_their_packages() {
    for (header, package) in [("crt/mma.h", "nvidia-cuda-nvcc-cu12"), ("nv/target", "nvidia-cuda-cccl-cu12")] {
        let folder = tempfile::tempdir().expect("a folder");
        copy(&cuda_folder().join("include"), &folder.path().join("include"));
        std::fs::remove_file(folder.path().join("include").join(header)).expect("the header was there");
        let path = folder.path().to_str().expect("a path in UTF-8");
        let why = why_unusable(&[("CUDA_PATH", path)], "cuda");
        assert!(why.contains(&format!("{header} is missing")) && why.contains(package), "{why}");
    }
}

fn missing_headers_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path in UTF-8");
    let why = why_unusable(&[("CUDA_PATH", path)], "cuda");
    assert!(why.contains("the CUDA headers were not found") && why.contains("CUDA_PATH"), "{why}");
}

/// By the compiler, which is given an option that it does not know, and by the driver, which refuses the thirtieth module of a run: more
/// than opening a device takes, and less than a step.
fn a_kernel_that_does_not_compile_is_told_with_its_reason() {
    let cache = tempfile::tempdir().expect("a folder");
    let cache = cache.path().to_str().expect("a path in UTF-8");
    let shown = devices(&[("CUDASIM_CXXFLAGS", "-no-such-option"), ("CUDASIM_CACHE", cache)]);
    let (_, usable, why) = shown.first().expect("a line for CUDA");
    assert!(!usable && why.contains("does not work") && why.contains("no-such-option"), "{why}");

    let runs = ShortRuns::new();
    let mut command = runs.train("refused");
    let outcome = Outcome::of(command.env("CUDASIM_FAULTS", "module:30=218"));
    let sentence = outcome.refused();
    assert!(sentence.contains("CUDA_ERROR_INVALID_PTX"), "{}", outcome.all());
}

/// NVIDIA's data sheet of the A100 with 40 GB: 156 TFLOP/s in TF32 and 1555 GB/s. Its clocks are the stand-in's. Kernels do nothing
/// here, and memory that nobody has written reads as the answer to 1 + 1, with which a device is tried.
fn limits_of_a_profile_are_those_of_the_gpus_data_sheet() {
    let mut command = kindling();
    on_cuda(&mut command, "8.0").envs([("CUDASIM_SMS", "108"), ("CUDASIM_KERNELS", "none"), ("CUDASIM_FILL", "2")]);
    let words = "profile --device cuda --image-size 32 --batch-size 2 --steps 1 --roofline --format json";
    let profile = Outcome::of(command.args(words.split(' '))).succeeded().result();
    let roofline = &profile["roofline"];
    for (name, expected) in [("flops_per_second", 156e12), ("bytes_per_second", 1555e9)] {
        let found = roofline[name].as_f64().expect("a number");
        assert!((found / expected - 1.0).abs() < 0.01, "{name}: {found}, not {expected}");
    }
    let source = roofline["source"].as_str().expect("a text");
    assert!(source.contains("compute capability 8.0, 108 multiprocessors at 1410 MHz"), "{source}");
    assert!(roofline["step"]["share"].as_f64().is_some_and(|share| share > 0.0), "{roofline}");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder can be made");
    for entry in std::fs::read_dir(from).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("it can be copied");
        }
    }
}
