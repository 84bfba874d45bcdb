//! Every network on CUDA gives the CPU's numbers: feature maps, logits, and the loss and all gradients of a training step.
//! CUDA is a stand-in on the CPU here (`tests/cuda-on-cpu`). CI runs a few networks that use every kind of kernel; with
//! `KINDLING_NIGHTLY=1` it is the whole registry in several sizes, formats and plans. Distances are added to the file that
//! `KINDLING_RECORD` names, a line of JSON a step.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use kindling_tests::{
    Beside, Moved, StepDistances, Test, cuda_on_cpu, forward_beside_cpu, record, registry, run_optional_and_nightly,
    step_beside_cpu, step_beside_moved,
};
use serde_json::json;
use tempfile::tempdir;

/// How far apart CPU and CUDA may be, as a share: feature maps, loss, all weights and all gradients together.
struct Limits {
    maps: f64,
    loss: f64,
    weights: f64,
    gradients: f64,
}

/// Both devices round the same sums in another order. A rounding of float32 is 6e-8 of a value; some fifty layers make some
/// ten times that of it in the maps (1e-6 was seen) and, there and back, in the gradients (6e-6 was seen). Half formats round by
/// 5e-4 and 4e-3 of a value at every map. Tensor cores (8.0 and later) round the factors of float32 products to ten bits, as
/// float16 does. Where activations have a kink see [`sensitivity_to_rounding`].
fn limits(precision: &str, capability: &str) -> Limits {
    match (precision, capability) {
        ("f32", "6.1") => Limits { maps: 1e-5, loss: 1e-5, weights: 1e-4, gradients: 1e-4 },
        ("f32", _) => Limits { maps: 2e-2, loss: 1e-2, weights: 1e-2, gradients: 3e-2 },
        ("f16", _) => Limits { maps: 2e-2, loss: 1e-2, weights: 1e-2, gradients: 0.15 },
        _ => Limits { maps: 0.1, loss: 5e-2, weights: 5e-2, gradients: 0.5 },
    }
}

const STEP: Beside = Beside { model: "", size: 64, precision: "f32", recompute: "none", capability: "6.1", gan: false };

fn main() -> ExitCode {
    run_optional_and_nightly(cuda_on_cpu(), always(), every_network(), "some hours")
}

/// Networks with every kind of kernel: slices and depthwise kernels of many sides (MixNet), squeeze-excite, residual sums with
/// maps made again, transposed convolutions.
fn always() -> Vec<Test> {
    vec![
        forward(Beside { model: "mixnet_s", ..STEP }),
        step(Beside { model: "mobilenet_v3_small", ..STEP }),
        step(Beside { model: "resnet18", size: 33, recompute: "blocks", ..STEP }),
        step(Beside { model: "dcgan_64", gan: true, ..STEP }),
        // Products on tensor cores.
        step(Beside { model: "mobilenet_v3_small", capability: "8.0", ..STEP }),
    ]
}

/// The cheapest first, so that a nightly run that is cut short has covered most of them.
fn every_network() -> Vec<Test> {
    const F32: (usize, &str, &str) = (64, "f32", "6.1");
    let (classifiers, gans) = registry();
    let mut tests = Vec::new();
    for size in [32, 65, 56, 224] {
        tests.extend(classifiers.iter().map(|model| forward(Beside { model, size, ..STEP })));
    }
    // Not at 32: the last layers normalise four numbers each there, and training multiplies rounding by thousands.
    let plans = [(F32, "none"), (F32, "blocks"), ((65, "f32", "6.1"), "stages")];
    let halves = [((65, "f16", "6.1"), "none"), ((64, "bf16", "8.0"), "blocks")];
    let cores = [((64, "f32", "8.0"), "none"), ((65, "f32", "9.0"), "none"), ((65, "bf16", "9.0"), "none")];
    for ((size, precision, capability), recompute) in plans.into_iter().chain(halves).chain(cores) {
        let of = |model| Beside { model, size, precision, recompute, capability, ..STEP };
        tests.extend(classifiers.iter().map(|model| step(of(model))));
    }
    for (precision, capability) in [("f32", "6.1"), ("f16", "6.1"), ("bf16", "8.0"), ("f32", "9.0")] {
        for recompute in ["none", "stages"] {
            let of = |model| Beside { model, precision, recompute, capability, gan: true, ..STEP };
            tests.extend(gans.iter().map(|model| step(of(model))));
        }
    }
    tests
}

fn forward(of: Beside) -> Test {
    let name = format!("maps_of_{}_at_{}_equal_the_cpus", of.model, of.size);
    let (model, size) = (of.model.to_string(), of.size);
    Test::new(name, move || {
        let folder = tempdir().expect("a temporary folder");
        let found = forward_beside_cpu(Beside { model: &model, size, ..STEP }, folder.path());
        let told: Vec<String> = found.iter().map(|(name, distance)| format!("{name} {distance:.1e}")).collect();
        println!("{model} at {size}: {}", told.join(", "));
        let limit = limits("f32", "6.1").maps;
        assert!(found.iter().all(|(_, distance)| *distance < limit), "{told:?}, more than {limit:e}");
    })
}

fn step(of: Beside<'_>) -> Test {
    let Beside { model, size, precision, recompute, capability, gan } = of;
    let told = format!("{model} at {size} in {precision}, recompute {recompute}, on {capability}");
    let words = [model, precision, recompute, capability].map(str::to_string);
    Test::new(format!("a_step_equals_the_cpus: {told}"), move || {
        let folder = tempdir().expect("a temporary folder");
        let [model, precision, recompute, capability] = words.each_ref().map(String::as_str);
        let of = Beside { model, size, precision, recompute, capability, gan };
        let found = step_beside_cpu(of, folder.path());
        println!("{told}: {found}");
        let limits = limits(precision, capability);
        let outside =
            found.loss >= limits.loss || found.gradients >= limits.gradients || found.weights >= limits.weights;
        let moved = outside.then(|| sensitivity_to_rounding(of, folder.path()));
        if let Some(moved) = moved {
            println!("{told}: {moved} when pixels move by a rounding");
        }
        record_step(of, &found, moved);
        let moved = moved.unwrap_or_default();
        let most_of_loss = limits.loss.max(KINKS * moved.loss);
        let most_of_gradients = limits.gradients.max(KINKS * moved.gradients);
        let most_of_weights = limits.weights.max(KINKS * moved.weights);
        assert!(
            found.loss < most_of_loss && found.gradients < most_of_gradients && found.weights < most_of_weights,
            "{found}, more than {most_of_loss:e} of the loss, {most_of_weights:e} of the weights or {most_of_gradients:e} of \
             the gradients"
        );
    })
}

/// See the module.
fn record_step(of: Beside, found: &StepDistances, moved: Option<Sensitivity>) {
    let Beside { model, size, precision, recompute, capability, .. } = of;
    record(&json!({
        "model": model, "image_size": size, "precision": precision, "recompute": recompute, "capability": capability,
        "loss": found.loss, "gradients": found.gradients, "worst": found.worst.1, "weights": found.weights,
        "cpu_when_pixels_move": moved.map(|moved| moved.gradients),
        "cpu_loss_when_pixels_move": moved.map(|moved| moved.loss),
        "cpu_weights_when_pixels_move": moved.map(|moved| moved.weights),
    }));
}

/// How much further CUDA's loss, gradients and weights may be from the CPU's than the CPU's from its own for other pixels.
const KINKS: f64 = 3.0;

/// The furthest that the CPU's losses, gradients and next weights of a network are apart, as a share, when little but rounding differs.
#[derive(Clone, Copy, Default)]
struct Sensitivity {
    loss: f64,
    gradients: f64,
    weights: f64,
}

impl fmt::Display for Sensitivity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loss, gradients, weights } = self;
        write!(
            formatter,
            "the CPU's own loss is {loss:.1e} apart, its gradients {gradients:.1e}, its next weights {weights:.1e}"
        )
    }
}

/// How far the CPU's loss, gradients and next weights are apart when a few pixels move by about what the device rounds: an activation with a kink
/// (ReLU, ReLU6) hands on another gradient when a value is moved over it, and a map has thousands of values that lie so near.
/// Networks of smooth activations are 1e-5 apart then, those of ReLU6 1e-2 and more. A loss moves with the logits, and those of
/// networks whose last layers normalise few numbers by more than a few roundings. Half formats round every map, so that there the CPU
/// rounds its own too: a pixel that moves makes all of them anew.
fn sensitivity_to_rounding(of: Beside, folder: &Path) -> Sensitivity {
    let moves: [(usize, u16); 3] = match (of.precision, of.capability) {
        ("f32", "6.1") => [(1000, 1), (1100, 2), (1200, 3)],
        ("bf16", _) => [(1, 128), (1, 129), (1, 130)],
        _ => [(1, 16), (1, 17), (1, 18)],
    };
    moves.into_iter().enumerate().fold(Sensitivity::default(), |most, (number, (every, by))| {
        let folder = folder.join(format!("moved-{number}"));
        let StepDistances { loss, gradients, weights, .. } = step_beside_moved(of, Moved { every, by }, &folder);
        Sensitivity {
            loss: most.loss.max(loss),
            gradients: most.gradients.max(gradients),
            weights: most.weights.max(weights),
        }
    })
}
