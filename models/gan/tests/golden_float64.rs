//! The networks in float64: what is left of the difference to PyTorch when rounding is out of the way.
//!
//! A device's precision can be set once a process and before its first tensor, hence a test program of its own.

mod reference;

use std::sync::OnceLock;

use burn::tensor::{Device, FloatDType};
use kindling_gan::Upsampling;
use reference::{Tolerance, blocks_equal_pytorchs, dcgan_equals_pytorch, fastgan_equals_pytorch};

const TOLERANCE: Tolerance = Tolerance { relative: 1e-8, gradients: 1e-7, of_reference: false };

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
    blocks_equal_pytorchs(&device(), TOLERANCE);
}
