//! A score depends on the weights and the images alone. How many images are computed at once, and whether memory ran out on the
//! way, does not change a bit of it.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use kindling_tests::{Bench, Outcome, assert_same_bits, events, json_of, kindling, same_scores};
use serde_json::Value;

/// Networks with matrix products behind the mean over pixels: squeeze-and-excitation and hidden layers.
const MODELS: [&str; 4] = ["efficientnet_b0", "mixnet_s", "mobilenet_v3_small", "ghostnet_100"];

/// The score of a run's weights on 24 images, so many of them computed at once.
fn score(run: &Path, at_once: usize) -> Value {
    let mut command = kindling();
    command.arg("eval").arg(run).args(["--split", "train", "--device", "cpu", "--format", "json", "--micro-batch"]);
    Outcome::of(command.arg(at_once.to_string())).succeeded().result()["score"].clone()
}

#[test]
fn a_score_does_not_depend_on_how_many_images_are_computed_at_once() {
    let bench = Bench::new(12);
    for model in MODELS {
        let flags = format!("--model {model} --image-size 32 --batch-size 12 --max-steps 1");
        let run = bench.run(model, &flags, "");
        let all = score(&run, 12);
        assert_eq!(all["samples"], 24, "{all}");
        for at_once in [1, 3, 8] {
            assert_eq!(score(&run, at_once), all, "{model}, {at_once} at once");
        }
    }
}

#[test]
fn an_evaluation_that_has_to_shrink_scores_as_one_that_has_not() {
    let bench = Bench::new(12);
    for model in ["efficientnet_b0", "mixnet_s"] {
        let flags = format!(
            "--model {model} --image-size 32 --batch-size 8 --max-steps 6 --micro-batch 8 --activation-checkpointing none"
        );
        let straight = bench.run(&format!("{model}-straight"), &flags, "");
        let faults =
            "oom@step=3,phase=eval;oom@step=3,phase=eval;toolarge@step=6,phase=eval;toolarge@step=6,phase=eval";
        let disturbed = bench.run(&format!("{model}-disturbed"), &flags, faults);
        let levers: Vec<Value> = events(&disturbed)
            .into_iter()
            .filter(|event| event["event"] == "recovered")
            .map(|it| it["lever"].clone())
            .collect();
        let expected =
            ["freed what was cached", "6 -> 3 images at once", "6 -> 3 images at once", "3 -> 1 images at once"];
        assert_eq!(levers, expected, "{model}");
        assert_same_bits(&straight, &disturbed, model);
    }
}

/// The weights stay where they are, so that nothing but the evaluation could differ: a step of no length to speak of, and
/// statistics that are frozen with the backbone.
#[test]
fn runs_of_other_micro_batches_score_alike_and_so_does_one_whose_plan_had_to_change() {
    let bench = Bench::new(12);
    let source = bench.run("source", "--model efficientnet_b0 --image-size 32 --batch-size 8 --max-steps 2", "");
    let weights = source.join("weights.safetensors");
    let flags = format!(
        "--model efficientnet_b0 --image-size 32 --weights {} --freeze backbone --optimizer sgd --momentum 0 \
         --weight-decay 0 --lr 1e-30 --batch-size 8 --ghost-batch-size 2 --epochs 2",
        weights.display()
    );
    let whole = bench.run("whole", &format!("{flags} --micro-batch 8"), "");
    assert_eq!(events(&whole).iter().filter(|event| event["event"] == "evaluated").count(), 3, "2 epochs and the test");
    let smaller =
        [("four", "4"), ("two", "2")].map(|(name, size)| bench.run(name, &format!("{flags} --micro-batch {size}"), ""));
    let shrunk = bench.run(
        "shrunk",
        &format!("{flags} --micro-batch 8"),
        "oom@step=2,phase=backward;oom@step=2,phase=backward;toolarge@step=5,phase=forward",
    );
    for run in [&smaller[0], &smaller[1], &shrunk] {
        let name = run.display();
        same_scores(&whole, run).unwrap_or_else(|difference| panic!("{name}: {difference}"));
        for split in ["validation", "test"] {
            let score = |run: &Path| json_of(&run.join("metrics.json"))[split].clone();
            assert_eq!(score(run), score(&whole), "{name}: {split}");
        }
    }
}
