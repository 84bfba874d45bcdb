//! Reductions over many tensors: their first numbers, and the sum of their squares.

use burn::tensor::{Device, Tensor, TensorData};
use kindling_ops::{first_numbers, squared_norm};

use super::{BESIDE, random, rng, vec};

/// Checks both with more tensors than two launches take. They have one number, a few, or more than all blocks take at once, and some
/// are slices of larger tensors.
pub(crate) fn check_many_tensors(device: &Device) {
    let device = device.clone().without_autodiff();
    let lengths = [1, 7, 300, 40_000, 256, 8192, 8193, 2, 65, 1, 1000, 3, 513, 9, 31, 70_001, 5, 12, 4096];
    let mut rng = rng(7000);
    let values: Vec<Vec<f32>> = lengths.iter().map(|length| random(&mut rng, length + 2 * BESIDE)).collect();
    for count in [1, 8, 9, lengths.len()] {
        let tensors: Vec<Tensor<1>> = values[..count]
            .iter()
            .map(|values| Tensor::<1>::from_data(TensorData::new(values.clone(), [values.len()]), &device))
            .map(|whole| {
                let length = whole.dims()[0];
                whole.narrow(0, BESIDE, length - 2 * BESIDE)
            })
            .collect();
        let parts = || values[..count].iter().map(|values| &values[BESIDE..values.len() - BESIDE]);
        let firsts = vec(first_numbers(tensors.clone()).expect("some")).numbers;
        assert_eq!(firsts, parts().map(|values| f64::from(values[0])).collect::<Vec<f64>>());
        let expected: f64 = parts().flatten().map(|value| f64::from(*value).powi(2)).sum();
        let norm = || vec(squared_norm(&tensors).expect("some")).numbers[0];
        assert!((norm() - expected).abs() <= 1e-6 * expected, "{} instead of {expected} of {count} tensors", norm());
        assert_eq!(norm().to_bits(), norm().to_bits());
    }
    assert!(first_numbers(Vec::new()).is_none() && squared_norm(&[]).is_none());
}
