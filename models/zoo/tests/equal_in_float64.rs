//! The zoo in float64: what is left of the difference to the reference when rounding is out of the way. Every name of the
//! zoo, at odd and even sizes.
//!
//! A device's precision can be set once a process and before its first tensor, hence a test program of its own.

mod reference;

use burn::tensor::{Device, FloatDType};
use libtest_mimic::{Arguments, Trial};
use reference::{Tolerance, golden, zoo};

const TOLERANCE: Tolerance = Tolerance { relative: 1e-9, gradients: 1e-7, of_reference: 0.0 };
/// In the deepest networks whose outputs the formula's weights make chaotic: the reference's own float32 differs by a
/// hundredth and more there.
const CHAOTIC: Tolerance = Tolerance { relative: 1e-8, ..TOLERANCE };

fn tolerance(case: &str) -> Tolerance {
    if case.contains("v2_s") { CHAOTIC } else { TOLERANCE }
}

fn main() {
    let mut device = Device::flex();
    device.configure(FloatDType::F64).expect("no tensor was made before");
    let device = device.autodiff();

    let golden = golden::all().into_iter().map(|(name, case)| {
        let (device, tolerance) = (device.clone(), tolerance(&name));
        Trial::test(format!("{name}_equals_its_reference"), move || {
            golden::equals_the_reference(&case, &device, tolerance);
            Ok(())
        })
    });
    let zoo = zoo::all().into_iter().map(|(name, case)| {
        let (device, tolerance) = (device.clone(), tolerance(&name));
        Trial::test(format!("{name}_equals_its_reference"), move || {
            zoo::equals_the_reference(&case, &device, tolerance);
            Ok(())
        })
    });
    // The operations use all cores already.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, golden.chain(zoo).collect()).exit();
}
