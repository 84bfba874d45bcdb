//! What training keeps between forward and backward.
#![allow(clippy::unwrap_used)]

use kindling_tests::{Outcome, kindling};

/// What PyTorch's autograd keeps for backward of one 512x512 image in float32 training mode, in MiB (torch 2.15.0, torchvision
/// 0.29.2).
const PYTORCH: [(&str, f64); 4] =
    [("mobilenet_v2", 389.8), ("mobilenet_v3_small", 80.4), ("efficientnet_b0", 439.2), ("resnet50", 428.2)];

/// The planner's figure for each layer, and the meter's, which confirms it for the whole step.
#[test]
fn at_most_half_of_what_pytorch_keeps_for_backward() {
    for (model, pytorch) in PYTORCH {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").args(["profile", "--model", model, "--image-size", "512"]);
        command.args(["--batch-size", "1", "--steps", "1", "--format", "json"]);
        let profile = Outcome::of(&mut command).succeeded().result();
        let layers = profile["layers"].as_array().unwrap();
        let kept: u64 = layers.iter().map(|layer| layer["kept_bytes"].as_u64().unwrap()).sum();
        let share = kept as f64 / (pytorch * f64::from(1 << 20));
        assert!(share <= 0.5, "{model} keeps {share:.3} of what PyTorch keeps");
        let (predicted, measured) = (&profile["predicted"]["peak"], &profile["measured"]["run_peak"]);
        let error = predicted.as_f64().unwrap() / measured.as_f64().unwrap() - 1.0;
        assert!((-0.02..=0.1).contains(&error), "{model}: {predicted} predicted, {measured} measured");
    }
}
