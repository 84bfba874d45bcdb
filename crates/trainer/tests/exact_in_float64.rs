//! A run that ran out of memory is the run that did not: in float64, where rounding is too small to hide a sample that
//! is counted twice or a statistic of the wrong group.
//!
//! A device's precision can be set once a process and before its first tensor, hence a test program of its own.

mod bench;

use std::process::ExitCode;

use bench::{Bench, Outcome, config};
use burn::tensor::{Device, FloatDType};
use kindling_layers::Checkpointing;
use kindling_tests::{Optional, Suite, Test};
use kindling_trainer::TrainConfig;
use kindling_zoo::{ModelOptions, Network, find};

const ALWAYS: &str = "mobilenet_v3_small";
/// For the time they take. Float64 goes through the own kernels of the CPU.
const BY_NIGHT: [&str; 2] = ["mobilenet_v2", "efficientnet_b0"];
const STEPS: u64 = 10;
/// Batches of 16, 16 and 8 an epoch.
const IMAGES: usize = 40;
/// Maps of 2 x 2 pixels at the end. At 32 pixels they are 1 x 1, normalisation sees four numbers of which a dead channel's
/// are equal, and MobileNetV2 multiplies a rounding of 1e-16 by a thousand in a step.
const SIZE: usize = 64;
const TOLERANCE: f64 = 1e-9;

fn network(model: &str, device: &Device) -> Network {
    let (drop_rate, drop_path_rate) = (Some(0.2), Some(0.2));
    let options = ModelOptions { in_channels: 1, classes: bench::CLASSES, drop_rate, drop_path_rate, seed: 7 };
    find(model).expect("a name of the zoo").build(&options, device).expect("options that are possible")
}

fn run(model: &str, device: &Device, micro_batch: usize, faults: &str) -> Outcome {
    let config = TrainConfig { micro_batch: Some(micro_batch), ..config(16, 4, STEPS) };
    Bench::new(IMAGES, SIZE, micro_batch).with_faults(faults).train(network(model, device), device, &config)
}

/// Fails unless both ended alike to rounding.
fn assert_close(found: &Outcome, straight: &Outcome, when: &str) {
    let of_losses = found.losses().into_iter().zip(straight.losses()).map(|(a, b)| (a.0 - b.0).abs() / b.0);
    let of_losses = of_losses.fold(0.0, f64::max);
    let [weights, optimizer, average] = found.distances(straight);
    println!("{when}: losses {of_losses:.1e}, weights {weights:.1e}, optimizer {optimizer:.1e}, average {average:.1e}");
    for difference in [of_losses, weights, optimizer, average] {
        assert!(difference < TOLERANCE, "{when}: {difference:e}");
    }
}

fn the_micro_batch_and_ooms_change_nothing(model: &str, device: &Device) {
    let straight = run(model, device, 16, "");
    for micro_batch in [8, 4] {
        let found = run(model, device, micro_batch, "");
        assert_eq!(found.micro_batches()[0], micro_batch);
        assert_close(&found, &straight, &format!("{model}, micro-batch {micro_batch}"));
    }
    // Two in a row in the first step, a tensor that is too large in a later one, and some that only cost a retry.
    let faults = "oom@step=1,phase=backward;oom@step=1,phase=backward;panic@step=3,phase=optimizer;oom@step=5,phase=commit;\
                  toolarge@step=7,phase=forward,micro=1;oom@step=10,phase=finite-check";
    let found = run(model, device, 16, faults);
    let sizes = found.levers().into_iter().filter(|lever| lever.starts_with("micro")).collect::<Vec<_>>();
    assert_eq!(sizes, ["micro-batch 16 -> 8", "micro-batch 8 -> 4"]);
    assert_eq!(found.levers().len(), 6);
    assert_eq!(found.micro_batches(), [8, 8, 8, 8, 8, 8, 4, 4, 4, 4]);
    assert_close(&found, &straight, &format!("{model}, disturbed"));
}

fn recomputation_gives_the_same_bits(model: &str, device: &Device) {
    let [none, stages, blocks] = Checkpointing::ALL.map(|level| {
        let config = TrainConfig { micro_batch: Some(8), activation_checkpointing: Some(level), ..config(16, 4, 3) };
        Bench::new(IMAGES, SIZE, 8).train(network(model, device), device, &config)
    });
    stages.assert_same_bits(&none, &format!("{model}, stages"));
    blocks.assert_same_bits(&none, &format!("{model}, blocks"));
}

fn main() -> ExitCode {
    let mut device = Device::flex();
    device.configure(FloatDType::F64).expect("no tensor was made before");
    let tests = |model: &'static str| {
        let [first, second] = [device.clone(), device.clone()];
        [
            Test::new(format!("the_micro_batch_and_ooms_change_nothing_about_{model}"), move || {
                the_micro_batch_and_ooms_change_nothing(model, &first);
            }),
            Test::new(format!("recomputation_gives_the_same_bits_of_{model}"), move || {
                recomputation_gives_the_same_bits(model, &second);
            }),
        ]
    };
    let nothing = Optional::nothing();
    let mut suite = Suite::new();
    suite.add(&nothing, tests(ALWAYS).into());
    suite.add_nightly(&nothing, BY_NIGHT.into_iter().flat_map(tests).collect(), "minutes");
    // The operations use all cores already.
    suite.one_at_a_time();
    suite.run()
}
