//! The formula of `golden/gan.py`.

use burn::tensor::TensorData;
use kindling_tests::numbers_of;

const GAIN: f64 = 4.5;

/// Numbers between minus and plus `factor`.
pub(super) fn signed(name: &str, shape: &[usize], factor: f64) -> TensorData {
    let values = numbers_of(name).take(shape.iter().product()).map(|u| factor * (2.0 * u - 1.0));
    TensorData::new(values.collect::<Vec<f64>>(), shape.to_vec())
}

/// A tensor of a network under its reference's name.
pub(super) fn fill(name: &str, shape: &[usize]) -> TensorData {
    let around = |middle: f64, factor: f64| {
        let values: Vec<f64> = signed(name, shape, factor).try_to_vec().expect("float64 values");
        TensorData::new(values.into_iter().map(|v| middle + v).collect::<Vec<f64>>(), shape.to_vec())
    };
    let fan = shape.iter().skip(1).product::<usize>() as f64;
    match shape.len() {
        _ if name.ends_with("running_var") => around(1.0, 0.5),
        _ if name.ends_with("running_mean") => around(0.0, 0.2),
        _ if shape.iter().product::<usize>() == 1 => around(0.0, 0.0),
        1 if name.ends_with("weight") => around(1.0, 0.25),
        1 if name.ends_with("bias") => around(0.0, 0.1),
        _ => around(0.0, (GAIN / fan).sqrt()),
    }
}
