//! The zoo in float64: what is left of the difference to the reference when rounding is out of the way.
//!
//! Logits and MobileNetV2's gradients agree to 1e-9; some of MobileNetV3's gradients only to 5e-9, which is more than
//! float64 rounding and not yet explained.
//!
//! A device's precision can be set once a process and before its first tensor, hence a test program of its own.

mod reference;

use std::sync::OnceLock;

use burn::tensor::{Device, FloatDType};
use reference::{Tolerance, equals_the_reference};

const TOLERANCE: Tolerance = Tolerance { relative: 1e-9, gradients: 1e-7, of_reference: 0.0 };

fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    let float64 = || {
        let mut device = Device::flex();
        device.configure(FloatDType::F64).expect("no tensor was made before");
        device
    };
    DEVICE.get_or_init(float64).clone().autodiff()
}

#[test]
fn mobilenet_v2_equals_torchvision() {
    equals_the_reference("torchvision.mobilenet_v2", &device(), TOLERANCE);
}

#[test]
fn mobilenet_v3_small_equals_torchvision() {
    equals_the_reference("torchvision.mobilenet_v3_small", &device(), TOLERANCE);
}
