//! The zoo in float32, as it runs: within rounding of the reference.
//!
//! Gradients have more room than outputs: rounding flips the mask of a few ReLU6 inputs near 0 and 6, which moves a
//! gradient by more than its rounding. `equal_in_float64` shows that nothing else is behind the difference.

mod reference;

use burn::tensor::Device;
use reference::{Tolerance, equals_the_reference};

const TOLERANCE: Tolerance = Tolerance { relative: 1e-4, gradients: 1e-3, of_reference: 10.0 };

fn device() -> Device {
    Device::flex().autodiff()
}

#[test]
fn mobilenet_v2_equals_torchvision() {
    equals_the_reference("torchvision.mobilenet_v2", &device(), TOLERANCE);
}

#[test]
fn mobilenet_v3_small_equals_torchvision() {
    equals_the_reference("torchvision.mobilenet_v3_small", &device(), TOLERANCE);
}
