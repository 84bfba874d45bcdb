//! The networks in float32, as they run: within 1e-4 of the largest expected number.
//!
//! Gradients have more room than outputs: rounding flips the slope of a few leaky ReLUs near 0. `golden_float64` shows
//! that nothing else is behind the difference.

mod reference;

use burn::tensor::Device;
use kindling_gan::Upsampling;
use reference::{Tolerance, blocks_equal_pytorchs, dcgan_equals_pytorch, fastgan_equals_pytorch};

const TOLERANCE: Tolerance = Tolerance { relative: 1e-4, gradients: 1e-3, of_reference: true };

fn device() -> Device {
    Device::flex().autodiff()
}

#[test]
fn dcgan_equals_pytorchs_example() {
    dcgan_equals_pytorch("dcgan", Upsampling::Transposed, &device(), TOLERANCE);
}

#[test]
fn dcgan_with_resize_equals_pytorch() {
    dcgan_equals_pytorch("dcgan_resize", Upsampling::Resize, &device(), TOLERANCE);
}

#[test]
fn fastgan_of_256_equals_pytorch() {
    fastgan_equals_pytorch("fastgan_256", &device(), TOLERANCE);
}

#[test]
fn fastgan_of_512_equals_pytorch() {
    fastgan_equals_pytorch("fastgan_512", &device(), TOLERANCE);
}

#[test]
fn skip_layer_excitation_and_glu_equal_pytorchs() {
    blocks_equal_pytorchs(&Device::flex(), Tolerance { of_reference: false, ..TOLERANCE });
}
