//! A run that ran out of memory is the run that did not, bit for bit: in float64.
//!
//! A device's precision can be set once a process and before its first tensor, hence a test program of its own.

mod bench;

use std::process::ExitCode;

use bench::{Bench, Outcome, config, lightest_of_each_paper};
use burn::tensor::{Device, FloatDType};
use kindling_layers::Checkpointing;
use kindling_tests::{Optional, Suite, Test};
use kindling_trainer::TrainConfig;
use kindling_zoo::{ModelOptions, Network, find};

/// Others by night, for the time they take. Float64 goes through the own kernels of the CPU.
const ALWAYS: &str = "mobilenet_v3_small";
const STEPS: u64 = 10;
/// Batches of 16, 16 and 8 an epoch.
const IMAGES: usize = 40;
const SIZE: usize = 64;

fn network(model: &str, device: &Device) -> Network {
    let (drop_rate, drop_path_rate) = (Some(0.2), Some(0.2));
    let options = ModelOptions {
        in_channels: 1,
        classes: bench::CLASSES,
        drop_rate,
        drop_path_rate,
        seed: 7,
        ..ModelOptions::imagenet()
    };
    find(model).expect("a name of the zoo").build(&options, device).expect("options that are possible")
}

fn run(model: &str, device: &Device, micro_batch: usize, faults: &str) -> Outcome {
    let config = TrainConfig { micro_batch: Some(micro_batch), ..config(16, 4, STEPS) };
    Bench::new(IMAGES, SIZE, micro_batch).with_faults(faults).train(network(model, device), device, &config)
}

fn the_micro_batch_and_ooms_change_no_bit(model: &str, device: &Device) {
    let straight = run(model, device, 4, "");
    for micro_batch in [8, 16] {
        let found = run(model, device, micro_batch, "");
        found.assert_same_bits(&straight, &format!("{model}, micro-batch {micro_batch}"));
    }
    // Two in a row in the first step, a tensor that is too large in a later one, and some that only cost a retry.
    let faults = "oom@step=1,phase=backward;oom@step=1,phase=backward;panic@step=3,phase=optimizer;oom@step=5,phase=commit;\
                  toolarge@step=7,phase=forward,micro=1;oom@step=10,phase=finite-check";
    run(model, device, 16, faults).assert_same_bits(&straight, &format!("{model}, groups at once, disturbed"));
    let found = run(model, device, 4, faults);
    let levels = found.levers().into_iter().filter(|lever| lever.starts_with("activation")).collect::<Vec<_>>();
    assert_eq!(levels, ["activation checkpointing none -> stages", "activation checkpointing stages -> blocks"]);
    assert_eq!(found.levers().len(), 6);
    found.assert_same_bits(&straight, &format!("{model}, disturbed"));
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
            Test::new(format!("the_micro_batch_and_ooms_change_no_bit_about_{model}"), move || {
                the_micro_batch_and_ooms_change_no_bit(model, &first);
            }),
            Test::new(format!("recomputation_gives_the_same_bits_of_{model}"), move || {
                recomputation_gives_the_same_bits(model, &second);
            }),
        ]
    };
    let nothing = Optional::nothing();
    let mut suite = Suite::new();
    suite.add(&nothing, tests(ALWAYS).into());
    let by_night = lightest_of_each_paper().into_iter().filter(|model| *model != ALWAYS);
    suite.add_nightly(&nothing, by_night.flat_map(tests).collect(), "minutes");
    // The operations use all cores already.
    suite.one_at_a_time();
    suite.run()
}
