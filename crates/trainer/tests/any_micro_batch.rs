//! A step has the same bits whatever is computed at once, and whatever is computed again: every classifier of the zoo, in each format
//! of feature maps, whatever runs out of memory on the way. By day these are the lightest classifiers of each paper, by night all.

mod bench;

use std::process::ExitCode;

use bench::{Bench, CLASSES, Outcome, config, lightest_of_each_paper};
use burn::tensor::Device;
use kindling_data::Augment;
use kindling_layers::{Checkpointing, Precision};
use kindling_tests::{Optional, Suite, Test};
use kindling_trainer::{OptimizerConfig, TrainConfig};
use kindling_zoo::{ModelEntry, ModelOptions, find, models};

/// Batches of 8 and 5 an epoch: normalisation groups of 3, 3 and 2, and of 3 and 2.
const IMAGES: usize = 13;
const BATCH: usize = 8;
const GROUP: usize = 3;
/// Maps of more than one pixel at the end: of two numbers a normalisation gets gradients that grow with each block, in EfficientNet-B4
/// beyond float32 on some processors. Half formats need more still.
const SIZES: [(Precision, usize); 3] = [(Precision::F32, 48), (Precision::Bf16, 64), (Precision::F16, 64)];
/// One in every step: memory is short for good, a micro-batch later than the first fails, and a graph is left behind.
fn faults(precision: Precision) -> String {
    // The first updates in f16 may be left out, until the scale of the loss is low enough.
    let last = if precision == Precision::F16 { "finite-check" } else { "optimizer" };
    format!("oom@step=1,phase=backward,micro=1;toolarge@step=2,phase=forward,micro=1;panic@step=3,phase={last}")
}

fn run(model: &str, faults: &str, augment: &Augment, train: &TrainConfig) -> Outcome {
    let (drop_rate, drop_path_rate) = (Some(0.2), Some(0.2));
    let options = ModelOptions {
        in_channels: 1,
        classes: CLASSES,
        drop_rate,
        drop_path_rate,
        seed: 7,
        ..ModelOptions::imagenet()
    };
    let device = Device::flex();
    let network = find(model).expect("a name of the zoo").build(&options, &device).expect("options that are possible");
    let size = SIZES.into_iter().find(|(precision, _)| *precision == train.precision).map_or(0, |(_, size)| size);
    let bench = Bench::new(IMAGES, size, train.micro_batch.unwrap_or(BATCH)).with_faults(faults);
    let bench = bench.with_augment(augment.clone());
    bench.train(network, &device, train)
}

fn whatever_is_computed_at_once(model: &str, augment: &Augment, config: &TrainConfig) {
    let at_once = |micro_batch| TrainConfig { micro_batch: Some(micro_batch), ..config.clone() };
    let in_groups = TrainConfig { activation_checkpointing: Some(Checkpointing::None), ..at_once(GROUP) };
    let straight = run(model, "", augment, &in_groups);
    assert!(straight.levers().is_empty());
    let disturbed = run(model, &faults(config.precision), augment, &at_once(BATCH));
    assert_eq!(disturbed.levers().len(), 3);
    disturbed.assert_same_bits(&straight, "the whole batch was asked for at once, and memory ran out");
}

fn recomputation_gives_the_same_bits(model: &str) {
    let [none, stages, blocks] = Checkpointing::ALL.map(|level| {
        let config = TrainConfig { activation_checkpointing: Some(level), ..config(BATCH, GROUP, 2) };
        run(model, "", &Augment::Light, &TrainConfig { micro_batch: Some(BATCH), ..config })
    });
    stages.assert_same_bits(&none, "stages");
    blocks.assert_same_bits(&none, "blocks");
}

fn main() -> ExitCode {
    let nothing = Optional::nothing();
    let mut suite = Suite::new();
    let lightest = lightest_of_each_paper();
    let test_on = |what: &str, augment: Augment, model: &'static str, config: TrainConfig| {
        let (steps, precision) = (config.max_steps.unwrap_or(0), config.precision);
        let name =
            format!("{model}_in_{precision}_has_the_same_bits_after_{steps}_steps{what}_whatever_is_computed_at_once");
        Test::new(name, move || whatever_is_computed_at_once(model, &augment, &config))
    };
    let test = |model: &'static str, precision: Precision, optimizer: OptimizerConfig, steps: u64| {
        let config = TrainConfig { precision, optimizer, ..config(BATCH, GROUP, steps) };
        test_on("", Augment::Light, model, config)
    };
    let adamw = OptimizerConfig::AdamW { weight_decay: 0.05 };
    let sgd = OptimizerConfig::Sgd { momentum: 0.9, weight_decay: 1e-4 };
    let (by_day, by_night): (Vec<_>, Vec<_>) =
        models().map(ModelEntry::name).partition(|model| lightest.contains(model));
    let short = |model: &&'static str| test(model, Precision::F32, adamw, 3);
    suite.add(&nothing, by_day.iter().map(short).collect());
    suite.add_nightly(&nothing, by_night.iter().map(short).collect(), "minutes");
    suite.add(
        &nothing,
        vec![test("mobilenet_v3_small", Precision::Bf16, sgd, 3), test("mobilenet_v3_small", Precision::F16, adamw, 3)],
    );
    let formats = [Precision::F32, Precision::Bf16, Precision::F16];
    let longer = lightest.iter().flat_map(|model| formats.map(|precision| test(model, precision, sgd, 30))).collect();
    suite.add_nightly(&nothing, longer, "minutes");
    // Images of a batch that are mixed with each other, whatever is computed at once.
    let mixed = |model: &&'static str| {
        let config = TrainConfig { optimizer: adamw, ..config(BATCH, GROUP, 30) };
        test_on("_on_mixed_images", Augment::Heavy, model, config)
    };
    suite.add_nightly(&nothing, lightest.iter().map(mixed).collect(), "minutes");
    let again = |model: &'static str| {
        Test::new(format!("recomputation_gives_the_same_bits_of_{model}"), move || {
            recomputation_gives_the_same_bits(model)
        })
    };
    suite.add(&nothing, by_day.into_iter().map(again).collect());
    suite.add_nightly(&nothing, by_night.into_iter().map(again).collect(), "minutes");
    suite.run()
}
