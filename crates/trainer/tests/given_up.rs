//! When a run gives up for lack of memory, the graph of the last try is freed before the steps that were done are saved: saving them needs
//! the memory that it holds.
//!
//! One test alone in its process, because it counts the bytes of the process. Without the call of `make_room` in `Planned::give_up`, or
//! the backward pass in `abandon_graph` (both `recovery.rs`), it fails.
#![allow(clippy::unwrap_used)]

mod bench;

use bench::{Bench, config, small_network};
use burn::tensor::Device;
use kindling_layers::Checkpointing;
use kindling_memory::{CountingAllocator, HostUsage, host_usage, reset_host_peak};
use kindling_runs::Event;
use kindling_trainer::{TrainConfig, TrainError};

#[global_allocator]
static ALLOCATOR: CountingAllocator<std::alloc::System> = CountingAllocator(std::alloc::System);

const BATCH: usize = 8;
const SIZE: usize = 128;
/// Bytes of a batch of grey pictures. One or more of them are there when a step ends, and none when the run ends; a step keeps more than
/// ten of them for its backward pass.
const BATCH_BYTES: usize = BATCH * SIZE * SIZE * size_of::<f32>();

/// One group, and two at once, each with a graph of its own. One after the other, because both count the bytes of the process.
#[test]
fn the_graphs_of_a_step_that_is_given_up_are_freed_before_the_steps_before_it_are_saved() {
    graphs_are_freed(BATCH, 2, &["freed what was cached"]);
    if rayon::current_num_threads() > 1 {
        graphs_are_freed(BATCH / 2, 5, &["freed what was cached", "micro-batch 8 -> 4"]);
    }
}

/// Groups of so many samples, of which so many fail.
fn graphs_are_freed(group: usize, failures: usize, levers: &[&str]) {
    // What is told of a panic costs memory of its own, the more if the environment asks for backtraces.
    std::panic::set_hook(Box::new(|_| {}));
    let device = Device::flex();
    // A step that cannot be made smaller is tried once more, and given up. What saves it would free a graph as well, but only if it
    // failed itself.
    let config = TrainConfig {
        micro_batch: Some(BATCH),
        activation_checkpointing: Some(Checkpointing::None),
        checkpoint_steps: 100,
        ..config(BATCH, group, 5)
    };
    let faults = vec!["oom@step=3,phase=backward"; failures].join(";");
    let bench = Bench::new(5 * BATCH, SIZE, BATCH).with_faults(&faults);
    let (mut before, mut saved) = (HostUsage::default(), None);
    let outcome = bench.train_watched(small_network(&device), &device, &config, |event| match event {
        Event::Step { step: 2, .. } => {
            reset_host_peak();
            before = host_usage();
        }
        Event::Checkpoint { step, .. } => saved = Some((*step, host_usage())),
        _ => {}
    });
    assert!(matches!(outcome.ended, Err(TrainError::DoesNotFit { .. })), "{:?}", outcome.ended);
    assert_eq!(outcome.levers(), levers, "nothing was freed on the way to the checkpoint");
    let (step, after) = saved.expect("the steps that were done are saved");
    assert_eq!(step, 2);
    let (before, peak, after) = (before.current, after.peak, after.current);
    println!("{before} bytes live after step 2, at most {peak} in step 3, {after} when it was given up");
    assert!(peak > before + 8 * BATCH_BYTES, "the step keeps too little to tell: {before} bytes, then {peak}");
    assert!(after < before + BATCH_BYTES, "{before} bytes after the last good step, {after} when it was saved");
}
