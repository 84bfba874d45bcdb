//! What an iteration promises.

use burn::tensor::Device;
use kindling_layers::tensors::Tensors;
use kindling_layers::{Checkpointing, Precision};
use kindling_memory::Plan;
use kindling_trainer::engine::{Attempt, Checkpointable, GoodStep, ModelSnapshot, NormMomentum, Update};
use kindling_trainer::{CHECKPOINT_EVERY, TrainError};

use crate::augment::DiffAugment;
use crate::config::AdversarialConfig;
use crate::losses::AdversarialLoss;
use crate::pair::Pair;
use crate::step::{AdversarialEngine, Iteration};
use crate::testing::{LATENT, ToyDiscriminator, ToyGenerator, batch};

type Toys = Pair<ToyGenerator, ToyDiscriminator>;

/// Everything that is there: two rounds, spectral norm, average, augmentation, both regularisers.
fn config() -> AdversarialConfig {
    AdversarialConfig {
        iterations: 10,
        batch_size: 8,
        rounds: 2,
        micro_batch: None,
        activation_checkpointing: None,
        ghost_batch_size: 2,
        loss: AdversarialLoss::Hinge,
        lr: 0.01,
        lr_discriminator: 0.01,
        cooldown: 0.0,
        betas: [0.5, 0.99],
        ema: 0.9,
        spectral_norm: true,
        lecam: 0.1,
        reconstruction: 0.5,
        precision: Precision::F32,
        diff_augment: DiffAugment::ALL,
        clip_norm: Some(5.0),
        seed: 4,
        checkpoint_iterations: 5,
        checkpoint_every: CHECKPOINT_EVERY,
        sample_iterations: 5,
        extended: Vec::new(),
    }
}

fn engine(config: &AdversarialConfig, faults: &str) -> AdversarialEngine {
    AdversarialEngine {
        device: Device::flex().autodiff(),
        config: config.clone(),
        latent: LATENT,
        update: Update {
            clip_norm: config.clip_norm,
            norm_momentum: NormMomentum::Fixed(0.1),
            ema: Some(config.ema),
            faults: faults.parse().unwrap(),
        },
    }
}

fn start(config: &AdversarialConfig) -> Toys {
    let device = Device::flex();
    Pair::new(ToyGenerator::new(&device), ToyDiscriminator::new(&device), config)
}

fn plan(micro_batch: usize, checkpointing: Checkpointing) -> Plan {
    Plan { micro_batch, checkpointing }
}

type Good = GoodStep<Toys, Iteration>;

fn at(step: u64, plan: Plan) -> Attempt {
    Attempt { step, plan, loss_scale: 1.0 }
}

fn compute(pair: &Toys, step: u64, plan: Plan, faults: &str) -> Result<Good, TrainError> {
    engine(&config(), faults).compute(pair, &batch(16, step as usize), &at(step, plan))
}

fn train(steps: u64, plan: Plan) -> Toys {
    (1..=steps).fold(start(&config()), |pair, step| compute(&pair, step, plan, "").unwrap().state)
}

type Everything = (Vec<(String, Tensors)>, Vec<(String, i64)>, Vec<(String, f64)>);

/// Everything that is committed with an iteration, in host memory.
fn everything(pair: &Toys) -> Everything {
    let ModelSnapshot { files, counters, numbers } = pair.snapshot().unwrap();
    (files.into_iter().collect(), counters.into_iter().collect(), numbers.into_iter().collect())
}

#[test]
fn an_iteration_moves_everything_and_repeated_gives_the_same_bits() {
    let (before, after) = (everything(&start(&config())), everything(&train(2, plan(4, Checkpointing::None))));
    let names: Vec<&str> = after.0.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "discriminator-optimizer.safetensors",
        "discriminator-weights.safetensors",
        "generator-average.safetensors",
        "generator-optimizer.safetensors",
        "generator-weights.safetensors",
        "spectral.safetensors",
    ];
    assert_eq!(names, expected);
    assert!(before.0.iter().zip(&after.0).all(|(before, after)| before != after));
    assert_eq!(after.2.len(), 2, "LeCam's anchors");
    assert_eq!(after, everything(&train(2, plan(4, Checkpointing::None))));
}

#[test]
fn the_micro_batch_changes_no_bit_of_an_iteration() {
    let whole = everything(&train(2, plan(8, Checkpointing::None)));
    for micro in [2, 4] {
        assert_eq!(everything(&train(2, plan(micro, Checkpointing::None))), whole, "micro-batch {micro}");
    }
}

/// The loss scale cancels: a power of two changes no digit that float32 holds.
#[test]
fn an_iteration_in_a_half_format_is_float32s_to_its_digits_whatever_the_loss_scale() {
    let of = |precision: Precision, scale: f64| {
        let config = AdversarialConfig { precision, diff_augment: DiffAugment::ALL, ..config() };
        let at = Attempt { loss_scale: scale, ..at(1, plan(4, Checkpointing::None)) };
        let told = engine(&config, "").compute(&start(&config), &batch(16, 1), &at).unwrap().told;
        let Iteration { discriminator_loss, generator_loss, discriminator_norm, generator_norm, indicators } = told;
        [discriminator_loss, generator_loss, discriminator_norm, generator_norm, indicators.spread]
    };
    let near = |found: [f64; 5], expected: [f64; 5], digits: f64, what: &str| {
        let far = found.iter().zip(&expected).any(|(a, b)| (a - b).abs() > digits * b.abs().max(0.1));
        assert!(!far, "{what}: {found:?}, {expected:?} in float32");
        assert!(found != expected, "{what}: it rounds somewhere");
    };
    let full = of(Precision::F32, 1.0);
    near(of(Precision::Bf16, 1.0), full, 5e-2, "bf16");
    near(of(Precision::F16, 256.0), full, 5e-3, "f16");
    assert_eq!(of(Precision::F32, 256.0), full);
}

#[test]
fn recomputing_the_generators_maps_gives_the_same_bits() {
    let kept = everything(&train(3, plan(4, Checkpointing::None)));
    assert_eq!(kept, everything(&train(3, plan(4, Checkpointing::Stages))));
}

#[test]
fn an_oom_in_either_half_changes_nothing_and_the_iteration_tried_again_is_the_same() {
    let pair = train(2, plan(4, Checkpointing::None));
    let before = everything(&pair);
    let places = [
        "fake-images,micro=1",
        "upload,micro=0",
        "forward,micro=1",
        "backward,micro=1",
        "finite-check",
        "optimizer",
        "generator-forward,micro=1",
        "generator-backward,micro=0",
        "generator-finite-check",
        "generator-optimizer",
        "commit",
    ];
    for place in places {
        for (kind, is_too_large) in [("oom", false), ("panic", false), ("toolarge", true)] {
            let faults = format!("{kind}@step=3,phase={place}");
            let error = compute(&pair, 3, plan(4, Checkpointing::None), &faults).err().expect("it was made to fail");
            let told = matches!(
                error,
                TrainError::OutOfMemory { step: 3, micro_batch: 2, too_large, .. } if too_large == is_too_large
            );
            assert!(told, "{faults}: {error}");
            assert_eq!(everything(&pair), before, "{faults}");
        }
    }
    let good = compute(&pair, 3, plan(4, Checkpointing::None), "").unwrap();
    assert_eq!(everything(&good.state), everything(&train(3, plan(4, Checkpointing::None))));
}

#[test]
fn a_pair_goes_on_from_its_stored_state_and_another_kind_of_state_is_refused() {
    let pair = train(3, plan(8, Checkpointing::None));
    let device = Device::flex().autodiff();
    let restored = start(&config()).restored(pair.snapshot().unwrap(), &device).unwrap();
    let after = |pair: &Toys| everything(&compute(pair, 4, plan(8, Checkpointing::None), "").unwrap().state);
    assert_eq!(after(&pair), after(&restored));

    let without = AdversarialConfig { spectral_norm: false, ..config() };
    let refused = start(&without).restored(pair.snapshot().unwrap(), &device).err().expect("another kind");
    assert!(refused.contains("--spectral-norm"), "{refused}");
}

#[test]
fn a_loss_that_is_not_a_number_stops_before_anything_changes() {
    let pair = train(1, plan(8, Checkpointing::None));
    let mut poisoned = batch(16, 2);
    poisoned.images[7] = f32::NAN;
    let at = at(2, plan(8, Checkpointing::None));
    let error = engine(&config(), "").compute(&pair, &poisoned, &at).err().expect("the loss is NaN");
    assert!(matches!(error, TrainError::NotFinite { step: 2, .. }), "{error}");
}

#[test]
fn every_loss_trains_with_and_without_everything_else() {
    for loss in AdversarialLoss::ALL {
        for bare in [false, true] {
            let full = AdversarialConfig { loss, ..config() };
            let config = match bare {
                true => AdversarialConfig {
                    rounds: 1,
                    spectral_norm: false,
                    lecam: 0.0,
                    reconstruction: 0.0,
                    diff_augment: DiffAugment::NONE,
                    clip_norm: None,
                    ..full
                },
                false => full,
            };
            let pair = start(&config);
            let at = at(1, plan(8, Checkpointing::None));
            let GoodStep { state, told, .. } = engine(&config, "").compute(&pair, &batch(16, 0), &at).unwrap();
            let signs = told.indicators;
            assert!((0.0..=1.0).contains(&signs.real_believed) && (0.0..=1.0).contains(&signs.fake_believed));
            assert!(signs.spread > 0.0 && told.discriminator_norm > 0.0 && told.generator_norm > 0.0);
            assert_ne!(everything(&pair), everything(&state));
        }
    }
}
