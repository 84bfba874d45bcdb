//! The formula of `golden/gan.py`.

use burn::tensor::TensorData;

const GAIN: f64 = 4.5;

/// Splitmix64 seeded by the FNV-1a hash of a name, in `[-1, 1)`.
pub(super) fn signed(name: &str, shape: &[usize], factor: f64) -> TensorData {
    let seed = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    let number = |index: u64| {
        let mut z = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        factor * (2.0 * ((z >> 40) as f64 / f64::from(1 << 24)) - 1.0)
    };
    let count = shape.iter().product::<usize>() as u64;
    TensorData::new((1..=count).map(number).collect::<Vec<f64>>(), shape.to_vec())
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
