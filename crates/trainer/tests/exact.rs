//! A run that ran out of memory is the run that did not: in float32, bit for bit.
#![allow(clippy::unwrap_used)]

mod bench;

use bench::{Bench, Outcome, config, small_network};
use burn::tensor::Device;
use kindling_layers::Checkpointing;
use kindling_trainer::{Ended, TrainConfig, TrainError};
use proptest::prelude::*;

const STEPS: u64 = 7;
/// Batches of 10, 10 and 3 an epoch; 10 has groups of 4, 3 and 3.
const IMAGES: usize = 23;
const SIZE: usize = 24;

fn ten(micro_batch: usize, activation_checkpointing: Option<Checkpointing>) -> TrainConfig {
    TrainConfig { micro_batch: Some(micro_batch), activation_checkpointing, ..config(10, 4, STEPS) }
}

fn run(config: &TrainConfig, faults: &str) -> Outcome {
    let device = Device::flex();
    Bench::new(IMAGES, SIZE, 4).with_faults(faults).train(small_network(&device), &device, config)
}

#[test]
fn a_fault_in_any_phase_of_any_kind_leaves_the_bits_in_the_first_step_and_in_the_last() {
    for micro_batch in [4, 10] {
        let config = ten(micro_batch, None);
        let straight = run(&config, "");
        assert!(straight.levers().is_empty());
        for phase in ["upload", "forward", "backward", "finite-check", "optimizer", "commit", "checkpoint", "eval"] {
            for kind in ["oom", "panic"] {
                // Step 1 is not saved and not scored by itself: 4 is, and 3 ends an epoch.
                let first = match phase {
                    "checkpoint" => 4,
                    "eval" => 3,
                    _ => 1,
                };
                let faults = format!("{kind}@step={first},phase={phase};{kind}@step={STEPS},phase={phase}");
                let disturbed = run(&config, &faults);
                disturbed.assert_same_bits(&straight, &faults);
                assert_eq!(disturbed.levers(), ["freed what was cached"; 2], "{faults}");
                assert_eq!(disturbed.micro_batches(), straight.micro_batches(), "{faults}");
            }
        }
    }
}

#[test]
fn recomputation_gives_the_same_bits() {
    let straight = run(&ten(4, Some(Checkpointing::None)), "");
    for level in [Checkpointing::Stages, Checkpointing::Blocks] {
        run(&ten(4, Some(level)), "").assert_same_bits(&straight, &level.to_string());
    }
}

#[test]
fn what_is_no_lack_of_memory_is_not_tried_again() {
    let device = Device::flex();
    let bench = Bench::new(IMAGES, SIZE, 4).with_faults("error@step=3,phase=backward");
    let outcome = bench.train_watched(small_network(&device), &device, &ten(4, None), |_| {});
    assert!(matches!(outcome.ended, Err(TrainError::Device { step: Some(3), .. })), "{:?}", outcome.ended);
    assert!(outcome.levers().is_empty());
    assert_eq!(outcome.losses().len(), 2);
}

#[test]
fn a_tensor_that_is_too_large_goes_down_the_ladder_at_once_and_a_run_that_is_stopped_is_interrupted() {
    let config = config(10, 4, STEPS);
    let device = Device::flex();
    let bench = |at_once, failures| {
        Bench::new(IMAGES, SIZE, at_once).with_faults(&vec!["toolarge@step=2,phase=forward"; failures].join(";"))
    };
    let outcome = bench(4, 2).train(small_network(&device), &device, &config);
    let [stages, blocks] = ["activation checkpointing none -> stages", "activation checkpointing stages -> blocks"];
    assert_eq!(outcome.levers(), [stages, blocks]);
    assert_eq!(outcome.micro_batches()[..2], [4, 4], "one normalisation group at a time");
    // Groups of 4, 3 and 3 samples, of which two are computed at once where there are two threads, and fail at once.
    if rayon::current_num_threads() > 1 {
        let outcome = bench(8, 3).train(small_network(&device), &device, &config);
        assert_eq!(outcome.levers(), ["micro-batch 8 -> 4", stages]);
        assert_eq!(outcome.micro_batches()[..2], [7, 4]);
    }

    let bench = Bench::new(IMAGES, SIZE, 10);
    bench.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let outcome = bench.train_watched(small_network(&device), &device, &config, |_| {});
    assert!(matches!(outcome.ended, Ok(Ended::Interrupted)));
}

const PHASES: [&str; 8] =
    ["upload", "forward", "backward", "finite-check", "optimizer", "commit", "checkpoint", "eval"];
const KINDS: [&str; 3] = ["oom", "panic", "toolarge"];

prop_compose! {
    /// A failure for lack of memory, anywhere.
    fn fault()(kind in 0..KINDS.len(), step in 1..=STEPS, phase in 0..PHASES.len(), micro in 0..4usize) -> (String, bool) {
        let (kind, phase) = (KINDS[kind], PHASES[phase]);
        let place = if micro < 3 { format!(",micro={micro}") } else { String::new() };
        (format!("{kind}@step={step},phase={phase}{place}"), kind == "toolarge")
    }
}

thread_local! {
    static STRAIGHT: Outcome = run(&ten(4, None), "");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any micro-batch and any activation checkpointing: whatever fails, and however often, the run ends, and with these bits;
    /// or it gives up where nothing is left to try, and then with its steps so far unchanged.
    #[test]
    fn any_schedule_of_failures_leaves_the_bits_or_ends_the_run(
        faults in prop::collection::vec(fault(), 0..10),
        micro_batch in 4..11usize,
    ) {
        let text = faults.iter().map(|(fault, _)| fault.as_str()).collect::<Vec<_>>().join(";");
        let device = Device::flex();
        let bench = Bench::new(IMAGES, SIZE, 4).with_faults(&text);
        let outcome = bench.train_watched(small_network(&device), &device, &ten(micro_batch, None), |_| {});
        STRAIGHT.with(|straight| match &outcome.ended {
            Ok(_) => {
                outcome.assert_same_bits(straight, &text);
                assert!(outcome.levers().len() <= faults.len(), "{text}");
            }
            Err(TrainError::DoesNotFit { .. } | TrainError::InferenceOutOfMemory { .. }) => {
                // Three rungs and what was freed: nothing gives up before.
                assert!(faults.len() >= 3, "{text}");
                let (done, all) = (outcome.losses(), straight.losses());
                assert_eq!(done[..], all[..done.len()], "{text}");
            }
            Err(other) => panic!("{text}: {other}"),
        });
    }
}
