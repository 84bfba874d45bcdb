//! Feature maps in half formats: the same promises as in float32.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use kindling_tests::{Bench, Outcome, assert_same_bits, checkpoints, events, losses, toml_value};
use serde_json::Value;

const FLAGS: &str = "--image-size 64 --batch-size 10 --ghost-batch-size 4 --ema 0.9 --clip-norm 1 --augment light \
                     --drop-path-rate 0.2 --drop-rate 0.2 --max-steps 6 --seed 3 --model mobilenet_v3_small";

/// A fault in every phase of a step.
const EVERYWHERE: &str = "oom@step=1,phase=optimizer;panic@step=2,phase=upload,micro=1;oom@step=3,phase=forward;\
                          panic@step=4,phase=backward,micro=1;oom@step=5,phase=finite-check;oom@step=6,phase=commit;\
                          oom@step=6,phase=checkpoint;oom@step=6,phase=eval";

/// A run with [`FLAGS`] and others.
fn run(bench: &Bench, name: &str, flags: &str, faults: &str) -> PathBuf {
    bench.run(name, &format!("{FLAGS} {flags}"), faults)
}

#[test]
fn faults_in_every_phase_leave_the_bits_in_half_formats() {
    let bench = Bench::new(12);
    for precision in ["bf16", "f16"] {
        let flags = format!("--precision {precision} --micro-batch 4 --activation-checkpointing none");
        let straight = run(&bench, &format!("{precision}-straight"), &flags, "");
        let disturbed = run(&bench, &format!("{precision}-disturbed"), &flags, EVERYWHERE);
        assert_same_bits(&straight, &disturbed, precision);
        let recovered = events(&disturbed).iter().filter(|event| event["event"] == "recovered").count();
        assert_eq!(recovered, 8, "one for each fault");
    }
}

#[test]
fn recomputation_gives_the_same_bits_in_half_formats() {
    let bench = Bench::new(12);
    for precision in ["bf16", "f16"] {
        let run = |recompute: &str| {
            let flags = format!("--precision {precision} --micro-batch 4 --activation-checkpointing {recompute}");
            run(&bench, &format!("{precision}-{recompute}"), &flags, "")
        };
        let kept = run("none");
        for recompute in ["stages", "blocks"] {
            assert_same_bits(&kept, &run(recompute), &format!("{precision}, {recompute}"));
        }
    }
}

#[test]
fn the_first_loss_is_float32s_to_the_digits_of_the_format_and_the_weights_stay_float32() {
    let bench = Bench::new(12);
    let first = |precision: &str| {
        let run = run(&bench, precision, &format!("--precision {precision}"), "");
        let newest = checkpoints(&run).pop().unwrap();
        let bytes = std::fs::read(newest.join("weights.safetensors")).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let formats = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
        assert!(formats.clone().count() > 100);
        assert!(formats.into_iter().all(|(_, tensor)| tensor["dtype"] == "F32"), "master weights are float32");
        losses(&run)[0]
    };
    let full = first("f32");
    for (precision, digits) in [("bf16", 1e-2), ("f16", 1e-3)] {
        let half = first(precision);
        assert!(half != full, "{precision} rounds somewhere");
        assert!((half - full).abs() < digits * full, "{half} in {precision}, {full} in f32");
    }
}

#[test]
fn the_loss_scale_of_f16_is_part_of_the_checkpoint() {
    let bench = Bench::new(12);
    let run = run(&bench, "run", "--precision f16", "");
    let newest = checkpoints(&run).pop().unwrap();
    let factor = toml_value(&newest.join("state.toml"), "factor");
    let skipped = events(&run).iter().filter(|event| event["event"] == "skipped").count() as i32;
    assert_eq!(factor.parse::<f64>().unwrap(), 65536.0 / 2f64.powi(skipped), "halved once for each update left out");
}

#[test]
fn a_precision_that_is_none_is_one_sentence() {
    let bench = Bench::new(12);
    let outcome = Outcome::of(&mut bench.command("run", "--precision fp8", ""));
    assert!(outcome.refused().contains("`fp8` is no precision: choose f32, bf16 or f16"), "{}", outcome.all());
}
