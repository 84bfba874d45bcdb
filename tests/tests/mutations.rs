//! Whether the comparisons of `tests/src/same.rs` see wrong results: each is made to compare a right run with a wrong one
//! (`KINDLING_FAULT="wrong@..."`), in the shape and with the bounds that other tests use it with, and must fail.
//!
//! What a comparison cannot see is said where it is tested, with the reason.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use kindling_tests::{Apart, Bench, Flags, GRADIENTS, ONE_STEP, STILL, gradients_apart, same_bits, steps_apart};

/// What can be wrong with a step.
const MUTATIONS: [&str; 10] = [
    "scale=0.5",
    "scale=-1",
    "scale=0.01",
    "rate=0.5",
    "lost=1",
    "doubled=0",
    "stale=network",
    "stale=statistics",
    "stale=optimizer",
    "stale=average",
];

/// The rate rises to the last step: falling to a hundredth of itself, as it does, it would leave that step without a trace.
/// 24 images to train on, three batches: each of two normalisation groups, which are two micro-batches.
const FLAGS: &str = "--model mobilenet_v3_small --image-size 64 --batch-size 8 --ghost-batch-size 4 --ema 0.9 --clip-norm 1 \
                     --augment light --drop-rate 0.2 --drop-path-rate 0.2 --seed 3 --max-steps 3 --lr 0.00001 --warmup 1";
const TWO_NETWORKS: &str = "--model dcgan_64 --features 4 --iterations 3 --batch-size 8 --ghost-batch-size 4 --ema 0.9 --lecam 0.1 \
                            --sample-iterations 3 --compare 0 --seed 5 --diff-augment translation";

/// Fails unless the comparison accepts a second right run and rejects every wrong one. `steps` are the steps that are made wrong, one
/// at a time.
fn assert_sees(
    bench: &Bench,
    flags: &Flags,
    steps: &[&str],
    mutations: &[&str],
    compare: impl Fn(&Path) -> Result<(), String>,
) {
    let flags = flags.to_string();
    let right = bench.run("right", &flags, "");
    compare(&right).unwrap_or_else(|difference| panic!("{flags}: a right run is taken for a wrong one: {difference}"));
    for step in steps {
        for mutation in mutations {
            let wrong = bench.run("wrong", &flags, &format!("wrong@step={step},{mutation}"));
            match compare(&wrong) {
                Err(difference) => {
                    eprintln!("step {step}, {mutation}: {}", &difference[..difference.len().min(200)])
                }
                Ok(()) => panic!("{flags}: nobody sees that in step {step} {mutation} was wrong"),
            }
            std::fs::remove_dir_all(wrong).unwrap();
        }
    }
    std::fs::remove_dir_all(right).unwrap();
}

#[test]
fn equal_bits_see_every_mutation_in_the_first_step_and_in_the_last() {
    let bench = Bench::new(12);
    let flags = Flags::of(FLAGS).with("--micro-batch 4");
    let straight = bench.run("straight", &flags.to_string(), "");
    assert_sees(&bench, &flags, &["1", "3"], &MUTATIONS, |run| same_bits(&straight, run));
}

#[test]
fn equal_bits_see_every_mutation_in_a_half_format() {
    let bench = Bench::new(12);
    let flags = Flags::of(FLAGS).with("--micro-batch 4 --precision bf16 --max-steps 2");
    let straight = bench.run("straight", &flags.to_string(), "");
    assert_sees(&bench, &flags, &["2"], &MUTATIONS, |run| same_bits(&straight, run));
}

#[test]
fn equal_bits_see_every_mutation_of_two_networks() {
    let bench = Bench::of_two_networks(12);
    let flags = Flags::of(TWO_NETWORKS).with("--micro-batch 4");
    let straight = bench.run("straight", &flags.to_string(), "");
    assert_sees(&bench, &flags, &["3"], &MUTATIONS, |run| same_bits(&straight, run));
}

/// The wrong run is computed in another micro-batch than the straight one, as where this comparison is used.
fn another_micro_batch_sees(flags: &str, more: &str, most: &Apart, steps: &[&str], mutations: &[&str]) {
    let bench = Bench::new(12);
    let flags = Flags::of(flags).with(more);
    let start = bench.run("start", &flags.with(STILL).to_string(), "");
    let straight = bench.run("straight", &flags.with("--micro-batch 8").to_string(), "");
    let compare = |run: &Path| Apart::of(&start, run, &straight)?.within(most);
    assert_sees(&bench, &flags.with("--micro-batch 4"), steps, mutations, compare);
}

#[test]
fn a_comparison_to_rounding_with_sgd_sees_every_mutation_in_the_first_step_and_in_the_last() {
    another_micro_batch_sees(FLAGS, "--optimizer sgd", &Apart::SGD, &["1", "3"], &MUTATIONS);
}

#[test]
fn a_comparison_to_rounding_with_adamw_sees_every_mutation_in_the_first_step_and_in_the_last() {
    another_micro_batch_sees(FLAGS, "", &Apart::ADAMW, &["1", "3"], &MUTATIONS);
}

/// AdamW makes nearly the same steps if all gradients are too small. An earlier comparison missed that: it looked at weights
/// after four steps, as a share of the largest.
#[test]
fn gradients_that_are_too_small_in_every_step_are_seen_for_every_network_and_optimizer() {
    let of = [
        ("mobilenet_v2", [Apart::RELU6; 2]),
        ("mobilenet_v3_small", [Apart::SGD, Apart::ADAMW]),
        ("efficientnet_b0", [Apart::SGD, Apart::ADAMW]),
    ];
    for (model, bounds) in of {
        for (optimizer, most) in ["sgd", "adamw"].iter().zip(&bounds) {
            let more = format!("--model {model} --max-steps 2 --optimizer {optimizer}");
            another_micro_batch_sees(FLAGS, &more, most, &["every"], &["scale=0.5", "scale=0.01"]);
        }
    }
}

#[test]
fn a_comparison_to_rounding_of_two_networks_sees_every_mutation() {
    let bench = Bench::of_two_networks(12);
    let flags = Flags::of(TWO_NETWORKS);
    let still = flags.with("--lr 1e-30 --lr-discriminator 1e-30 --iterations 1").to_string();
    let start = bench.run("start", &still, "");
    let straight = bench.run("straight", &flags.with("--micro-batch 8").to_string(), "");
    let compare = |run: &Path| Apart::of(&start, run, &straight)?.within(&Apart::GAN);
    assert_sees(&bench, &flags.with("--micro-batch 4"), &["3"], &MUTATIONS, compare);
}

/// It detects whatever changes how a network moves in one step. It cannot detect what that step leaves for later ones:
/// running statistics are not read in training, and plain SGD has no state and here no average.
#[test]
fn the_gradients_of_one_step_show_every_mutation_that_moves_the_network() {
    let bench = Bench::new(12);
    let flags = Flags::of(FLAGS).without("clip-norm").without("ema");
    let start = bench.run("start", &flags.with(STILL).to_string(), "");
    let flags = flags.with(ONE_STEP);
    let straight = bench.run("straight", &flags.with("--micro-batch 8").to_string(), "");
    let compare = |run: &Path| match gradients_apart(&start, run, &straight)? {
        apart if apart <= GRADIENTS => Ok(()),
        apart => Err(format!("gradients are {apart:.1e} apart")),
    };
    let (seen, unseen): (Vec<&str>, Vec<&str>) =
        MUTATIONS.iter().partition(|mutation| !mutation.starts_with("stale=") || **mutation == "stale=network");
    let flags = flags.with("--micro-batch 4");
    assert_sees(&bench, &flags, &["1"], &seen, compare);
    for mutation in unseen {
        let wrong = bench.run(mutation, &flags.to_string(), &format!("wrong@step=1,{mutation}"));
        assert_eq!(compare(&wrong), Ok(()), "{mutation} is seen after all: say so");
    }
}

/// Losses and norms of the steps show what changed the gradients of a step, or the network before a later one. On principle
/// they do not show what the last step did after its gradients were there, nor what no forward pass in training reads.
#[test]
fn the_numbers_of_the_steps_show_every_mutation_that_changes_gradients_or_the_network() {
    let bench = Bench::new(12);
    // Half of the first step's rate is seen in the next loss alone, by less than its rounding if the rate is very small.
    let flags = Flags::of(FLAGS).with("--optimizer sgd").with("--lr 0.01");
    let straight = bench.run("straight", &flags.with("--micro-batch 8").to_string(), "");
    let compare = |run: &Path| match steps_apart(run, &straight)? {
        (loss, norm) if loss <= Apart::SGD.loss && norm <= Apart::SGD.norm => Ok(()),
        (loss, norm) => Err(format!("losses are {loss:.1e} apart, norms {norm:.1e}")),
    };
    let flags = flags.with("--micro-batch 4");
    let seen = ["scale=0.5", "scale=-1", "scale=0.01", "rate=0.5", "lost=1", "doubled=0", "stale=network"];
    // Turning gradients round leaves their norm: the next step's loss shows it.
    assert_sees(&bench, &flags, &["1"], &seen, compare);
    for mutation in ["stale=statistics", "stale=average"] {
        let wrong = bench.run(mutation, &flags.to_string(), &format!("wrong@step=1,{mutation}"));
        assert_eq!(compare(&wrong), Ok(()), "{mutation} is seen after all: say so");
    }
}
