//! Compares networks of the zoo with their references in float32, in which they run, up to rounding.
//!
//! The tolerance of gradients is larger than that of outputs: rounding flips the mask of a few inputs of ReLU6 near 0 and 6, which
//! changes a gradient by more than its own rounding. `equal_in_float64` shows that nothing else is behind the difference.

#[allow(dead_code)] // shared with the other precision
mod reference;

use burn::tensor::Device;
use libtest_mimic::{Arguments, Trial};
use reference::{Tolerance, golden};

const TOLERANCE: Tolerance = Tolerance { relative: 1e-4, gradients: 1e-3, of_reference: 10.0 };

fn main() {
    let trials = golden::all().into_iter().map(|(name, case)| {
        Trial::test(format!("{name}_equals_its_reference"), move || {
            golden::equals_the_reference(&case, &Device::flex().autodiff(), TOLERANCE);
            Ok(())
        })
    });
    // The operations use all cores already.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
