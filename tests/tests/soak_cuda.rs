//! Thousands of steps with failures on CUDA leave nothing behind: memory on the device and on the host, pinned memory, streams,
//! events, modules. The stand-in counts them (`tests/cuda-on-cpu`); its kernels do nothing here, or this would take days. What was counted
//! is added to the file that `KINDLING_RECORD` names, as a line of JSON.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use kindling_tests::{
    Test, cuda_on_cpu, events, json_of, picture_folder, record, run_optional_and_nightly, sizes_along, train_on_cuda,
};
use serde_json::{Value, json};
use tempfile::tempdir;

fn main() -> ExitCode {
    let nightly = vec![Test::new("memory_and_handles_stay_flat_over_ten_thousand_steps", memory_and_handles_stay_flat)];
    run_optional_and_nightly(cuda_on_cpu(), Vec::new(), nightly, "some hours")
}

/// Steps of the longer of the two runs that are compared, unless `KINDLING_SOAK_STEPS` says how many.
const MANY: u64 = 10_000;
/// How many times as many steps it has as the shorter one.
const LONGER: u64 = 10;
/// Steps in which a process grows to where it stays: some 25 recoveries.
const GROWING: u64 = 100;
/// How often the events of a run are looked at.
const TENTHS: u64 = 10;
/// What differs by when it is looked at.
const A_FEW_HANDLES: u64 = 64;
/// Of the process, in its middle size from the second to the last tenth of its time: modules that are loaded late, and pages that its
/// allocator keeps for a while. Over 10,000 steps it was 7 MB more, and between them up to 14, with eight modules more.
const HOST_GROWTH: u64 = 16 << 20;
/// Between two looks at its size.
const PAUSE: Duration = Duration::from_millis(200);
/// What is late enough to have hung.
const AT_MOST: Duration = Duration::from_hours(12);

/// What was live at the end, or at most, and how often a step failed.
struct Left {
    stats: Value,
    /// The most that the process took, and its middle size in each tenth of its time. The most is not compared: from one checkpoint to the
    /// next the allocator may keep a copy or two of the weights more, and the longer run writes more of them.
    resident_peak: u64,
    resident: Vec<u64>,
    recoveries: usize,
    /// The most bytes on the device up to each tenth of the steps, by the run's own events.
    along: Vec<u64>,
}

fn run(data: &Path, out: &Path, steps: u64) -> Left {
    let phases = ["forward", "backward", "finite-check", "optimizer"];
    let faults: Vec<String> = (3..=steps)
        .filter(|step| step % 4 == 3)
        .map(|step| format!("oom@step={step},phase={}", phases[(step / 4) as usize % phases.len()]))
        .collect();
    let flags = format!(
        "--model mobilenetv1_100 --image-size 32 --batch-size 2 --ghost-batch-size 2 --workers 1 --augment none --epochs {steps} \
         --max-steps {steps} --checkpoint-steps 1000 --quiet"
    );
    let stats = out.with_extension("stats");
    let mut command = train_on_cuda(data, out, &flags);
    // Memory that nothing was written to reads as 2, so that losses are numbers.
    command.env("CUDASIM_KERNELS", "none").env("CUDASIM_FILL", "2").env("CUDASIM_STATS", &stats);
    command.env("KINDLING_FAULT", faults.join(";")).env_remove("RUST_BACKTRACE");
    let (outcome, sizes) = sizes_along(&mut command, AT_MOST, PAUSE);
    let result = outcome.succeeded().result();
    assert_eq!(result["steps"], steps, "{result}");
    let events = events(out);
    let recoveries = events.iter().filter(|event| event["event"] == "recovered").count();
    let every = (steps / TENTHS).max(1);
    let at_a_tenth =
        |event: &&Value| event["event"] == "step" && event["step"].as_u64().is_some_and(|step| step % every == 0);
    let told = |event: &Value| event["peak_memory_bytes"].as_u64().expect("a step tells what was taken");
    let along = events.iter().filter(at_a_tenth).map(told).collect();
    let resident_peak = result["resident_peak_bytes"].as_u64().expect("a run tells what its process took");
    let tenth = sizes.len().div_ceil(TENTHS as usize).max(1);
    let resident = sizes.chunks(tenth).map(middle).collect();
    Left { stats: json_of(&stats), resident_peak, resident, recoveries, along }
}

fn middle(sizes: &[u64]) -> u64 {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

fn memory_and_handles_stay_flat() {
    let folder = tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    // Few batches an epoch would mean thousands of evaluations. The network has few kernels a step, and few weights to make room for.
    for (split, each) in [("train", 600), ("val", 1), ("test", 1)] {
        picture_folder(&data.join(split), each);
    }
    let steps = std::env::var("KINDLING_SOAK_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(MANY);
    let shorter = (steps / LONGER).max(GROWING);
    let [few, many] =
        [("few", shorter), ("many", steps)].map(|(name, steps)| run(&data, &folder.path().join(name), steps));
    assert!(many.recoveries as u64 >= steps / 5, "{} recoveries in {steps} steps", many.recoveries);
    let of =
        |left: &Left, name: &str| left.stats[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}", left.stats));
    println!("{} recoveries in {steps} steps; {}; after fewer of them {}", many.recoveries, many.stats, few.stats);
    let of_run = |left: &Left, steps: u64| {
        json!({
            "steps": steps, "recoveries": left.recoveries, "counters": left.stats,
            "process_peak_bytes": left.resident_peak, "process_bytes_in_each_tenth_of_its_time": left.resident,
            "device_peak_bytes_at_each_tenth_of_the_steps": left.along,
        })
    };
    record(&json!({ "short": of_run(&few, shorter), "long": of_run(&many, steps) }));
    println!("the process took {} bytes at most, and {}; {:?}", few.resident_peak, many.resident_peak, many.resident);
    for name in ["peak", "pinned_peak"] {
        assert!(
            of(&many, name) <= of(&few, name) * 11 / 10,
            "{name} grew from {} to {}",
            of(&few, name),
            of(&many, name)
        );
    }
    let (first, last) = (many.along.first().copied(), many.along.last().copied());
    assert!(
        first.zip(last).is_some_and(|(first, last)| first > 0 && last <= first * 11 / 10),
        "the run told that it took {:?} bytes of the device",
        many.along
    );
    for name in ["most_allocations", "live_pinned", "live_streams", "live_events", "live_modules", "live_graphs"] {
        let [before, after] = [of(&few, name), of(&many, name)];
        assert!(after <= before + A_FEW_HANDLES, "{name} grew from {before} to {after}");
    }
    let [_, second, .., last] = many.resident[..] else {
        panic!("the process was looked at too rarely: {:?}", many.resident)
    };
    assert!(last <= second + HOST_GROWTH, "the process grew from {second} to {last}: {:?}", many.resident);
}
