//! Compares every name of the zoo, and every network for segmentation, with its reference in float64, where rounding hides no difference, at odd and even sizes.
//!
//! The precision of a device can only be set once in a process, before its first tensor, so this is a test program of its own.

mod reference;

use std::collections::BTreeSet;

use burn::tensor::{Device, FloatDType};
use kindling_zoo::{Model, models};
use libtest_mimic::{Arguments, Trial};
use reference::{Tolerance, golden, grad_cam, model, segmentation, zoo};

const TOLERANCE: Tolerance = Tolerance { relative: 1e-9, gradients: 1e-7, of_reference: 0.0 };
/// In the deepest networks whose outputs the formula's weights make chaotic: the reference's own float32 differs by a
/// hundredth and more there.
const CHAOTIC: Tolerance = Tolerance { relative: 1e-8, ..TOLERANCE };

fn tolerance(case: &str) -> Tolerance {
    if case.contains("v2_s") { CHAOTIC } else { TOLERANCE }
}

/// Names that their library does not have, so that there is nothing to compare them with: timm has no MNASNet of this width. The
/// network under torchvision's details, `mnasnet1_3`, has a case.
const WITHOUT_REFERENCE: [&str; 1] = ["timm.mnasnet_130"];

/// A new name of the registry fails here until `golden/zoo.py` has made a case for it.
fn every_name_has_a_case() {
    let cases: BTreeSet<String> = zoo::all().into_iter().map(|(_, case)| model(&case).reference()).collect();
    let names = models().flat_map(|entry| entry.names.iter().map(move |&name| Model { entry, name }.reference()));
    let without: Vec<String> = names.filter(|name| !cases.contains(name)).collect();
    assert_eq!(without, WITHOUT_REFERENCE);
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
    let segmentation = segmentation::all().into_iter().map(|(name, case)| {
        let device = device.clone();
        Trial::test(format!("{name}_equals_its_reference"), move || {
            segmentation::equals_the_reference(&case, &device, TOLERANCE);
            Ok(())
        })
    });
    let grad_cam = grad_cam::all().into_iter().map(|(name, case)| {
        let device = device.clone();
        Trial::test(format!("grad_cam_of_{name}_equals_its_reference"), move || {
            grad_cam::equals_the_reference(&case, &device);
            Ok(())
        })
    });
    let complete = Trial::test("every_name_of_the_zoo_has_a_case", || {
        every_name_has_a_case();
        Ok(())
    });
    // The operations use all cores already.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, golden.chain(zoo).chain(segmentation).chain(grad_cam).chain([complete]).collect())
        .exit();
}
