//! Hours of failures in a minute: memory that a failed attempt does not give back shows as growth.
//!
//! A program of its own, because it counts the bytes of the whole process.
#![allow(clippy::unwrap_used)]

mod bench;

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bench::{Bench, config, small_network};
use burn::tensor::Device;
use kindling_memory::{CountingAllocator, host_usage};
use kindling_random::{Purpose, rng};
use kindling_runs::Event;
use kindling_trainer::{Ended, TrainConfig};
use rand::RngExt;

#[global_allocator]
static ALLOCATOR: CountingAllocator<std::alloc::System> = CountingAllocator(std::alloc::System);

/// How long it goes on, unless `KINDLING_SOAK_STEPS` says how many steps.
const LONG: Duration = Duration::from_secs(45);
const WARM: u64 = 500;
/// Batches that are made ahead come and go; the least of this many steps has none of them.
const WINDOW: usize = 40;
/// What is live differs by some 25 kB from step to step; 700 recoveries that kept 100 bytes each would be more than this.
const GROWTH: usize = 64 << 10;

#[test]
fn memory_does_not_grow_over_thousands_of_steps_with_failures_everywhere() {
    let phases = ["upload", "forward", "backward", "finite-check", "optimizer", "commit", "checkpoint", "eval"];
    let kinds = ["oom", "panic"];
    let mut rng = rng(0, Purpose::MadeUp, 0, 0);
    let mut below = |limit: usize| rng.random_range(0..limit);
    // At most one in a step, or the smallest plan would be given up; every third step on average.
    let mut faults = String::new();
    let mut step = 0;
    while step < 60_000 {
        step += 1 + below(5);
        let micro = below(3);
        faults += &format!("{}@step={step},phase={}", kinds[below(kinds.len())], phases[below(phases.len())]);
        faults += &if micro > 0 { format!(",micro={};", micro - 1) } else { ";".to_string() };
    }
    // What is told of a panic costs memory of its own, the more if the environment asks for backtraces.
    std::panic::set_hook(Box::new(|_| {}));
    let asked = std::env::var("KINDLING_SOAK_STEPS").ok().map(|steps| steps.parse::<usize>().unwrap());
    let device = Device::flex();
    let config = TrainConfig { micro_batch: Some(4), checkpoint_steps: 100, ..config(8, 4, 1_000_000) };
    let mut bench = Bench::new(1000, 16, 4);
    bench.faults = faults;
    bench.keep_events = false;

    let began = Instant::now();
    let usage = RefCell::new(Vec::<usize>::with_capacity(200_000));
    let stop = bench.stop.clone();
    let mut recovered = 0u64;
    let outcome = bench.train_watched(small_network(&device), &device, &config, |event| match event {
        Event::Step { .. } => {
            let mut usage = usage.borrow_mut();
            usage.push(host_usage().current);
            let enough = match asked {
                Some(steps) => usage.len() >= steps,
                None => began.elapsed() > LONG && usage.len() as u64 > 2 * WARM,
            };
            if enough {
                stop.store(true, Ordering::Relaxed);
            }
        }
        Event::Recovered { .. } => recovered += 1,
        _ => {}
    });
    assert!(matches!(outcome.ended, Ok(Ended::Interrupted)), "{:?}", outcome.ended);
    let usage = usage.into_inner();
    let least = |steps: &[usize]| steps.iter().copied().min().unwrap();
    let warm = least(&usage[WARM as usize - WINDOW..WARM as usize]);
    let end = least(&usage[usage.len() - WINDOW..]);
    let every_thousand: Vec<usize> = usage.chunks(1000).map(|steps| least(&steps[..steps.len().min(WINDOW)])).collect();
    println!("bytes live at every thousandth step: {every_thousand:?}");
    println!("{} steps, {recovered} recoveries: {warm} bytes live after step {WARM}, {end} at the end", usage.len());
    assert!(recovered as usize > usage.len() / 10, "there were hardly any failures");
    assert!(end <= warm + GROWTH, "{warm} bytes after step {WARM}, {end} after step {}", usage.len());
}
