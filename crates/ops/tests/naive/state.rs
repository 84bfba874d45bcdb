//! Many tensors at once: their first numbers, their squares, and AdamW's updates. The sum of all numbers of one tensor.

use burn::tensor::{Device, Tensor, TensorData};
use kindling_ops::{AdamWStep, AdamWTensors, adamw, adamw_serves, first_numbers, mean, squared_norm, sum};

use super::{BESIDE, random, rng, vec};

/// As many tensors as two operations take and some more, of one number, of a few, and of more than all blocks take at once.
pub(crate) const LENGTHS: [usize; 19] =
    [1, 7, 300, 40_000, 256, 8192, 8193, 2, 65, 1, 1000, 3, 513, 9, 31, 70_001, 5, 12, 4096];

/// Numbers for tensors of these lengths, and for what lies beside them.
pub(crate) fn numbers(seed: u64) -> Vec<Vec<f32>> {
    let mut rng = rng(seed);
    LENGTHS.iter().map(|length| random(&mut rng, length + 2 * BESIDE)).collect()
}

/// Tensors that are slices of larger ones.
pub(crate) fn slices(values: &[Vec<f32>], device: &Device) -> Vec<Tensor<1>> {
    let slice = |values: &Vec<f32>| {
        let whole = Tensor::<1>::from_data(TensorData::new(values.clone(), [values.len()]), device);
        whole.narrow(0, BESIDE, values.len() - 2 * BESIDE)
    };
    values.iter().map(slice).collect()
}

/// The numbers of a slice, wide.
pub(crate) fn inside(values: &[f32]) -> impl Iterator<Item = f64> {
    values[BESIDE..values.len() - BESIDE].iter().map(|value| f64::from(*value))
}

/// What was found is what was expected, but for a few roundings.
pub(crate) fn assert_near(found: &Tensor<1>, expected: &[f64]) {
    let found = vec(found.clone()).numbers;
    assert_eq!(found.len(), expected.len());
    let far =
        found.iter().zip(expected).find(|(found, expected)| (*found - *expected).abs() > 2e-6 * expected.abs() + 1e-7);
    assert!(far.is_none(), "{far:?} of {} numbers", expected.len());
}

/// Kingma and Ba 2015, algorithm 1, with the decay of Loshchilov and Hutter 2019, algorithm 2, twice in a row.
pub(crate) fn check_updates_of_many_tensors(device: &Device) {
    const SCALE: f64 = 0.5;
    const RATE: f64 = 0.01;
    const DECAY: f64 = 0.1;
    const EPSILON: f64 = 1e-8;
    // As they are in float32.
    let betas = [0.9f32, 0.99].map(f64::from);
    let device = device.clone().without_autodiff();
    let values = [7300, 7400, 7500].map(numbers);
    for count in [1, 8, 9, LENGTHS.len()] {
        let mut weights = slices(&values[0][..count], &device);
        assert!(weights.iter().all(adamw_serves));
        let mut moments = vec![None; count];
        let mut expected: Vec<Vec<[f64; 3]>> =
            values[0][..count].iter().map(|values| inside(values).map(|weight| [weight, 0.0, 0.0]).collect()).collect();
        for (time, gradients) in [(1, &values[1]), (2, &values[2])] {
            let corrections = betas.map(|beta| 1.0 - beta.powi(time));
            let step = AdamWStep {
                scale: SCALE as f32,
                betas: betas.map(|beta| beta as f32),
                corrections: corrections.map(|correction| correction as f32),
                epsilon: EPSILON as f32,
                keep: (1.0 - RATE * DECAY) as f32,
                rate: RATE as f32,
            };
            let parameters = weights.into_iter().zip(slices(&gradients[..count], &device)).zip(moments);
            let parameters =
                parameters.map(|((weight, gradient), moments)| AdamWTensors { weight, gradient, moments }).collect();
            let new = adamw(parameters, step);
            for (known, gradient) in expected.iter_mut().zip(gradients) {
                for ([weight, first, second], gradient) in known.iter_mut().zip(inside(gradient)) {
                    let gradient = gradient * SCALE;
                    *first = betas[0] * *first + (1.0 - betas[0]) * gradient;
                    *second = betas[1] * *second + (1.0 - betas[1]) * gradient * gradient;
                    let way = *first / corrections[0] / ((*second / corrections[1]).sqrt() + EPSILON);
                    *weight -= RATE * (way + DECAY * *weight);
                }
            }
            assert_eq!(new.len(), count);
            for (new, expected) in new.iter().zip(&expected) {
                let of = |place: usize| expected.iter().map(|known| known[place]).collect::<Vec<f64>>();
                new.iter().enumerate().for_each(|(place, found)| assert_near(found, &of(place)));
            }
            (weights, moments) = new.into_iter().map(|[weight, a, b]| (weight, Some([a, b]))).unzip();
        }
    }
}

pub(crate) fn check_many_tensors(device: &Device) {
    let device = device.clone().without_autodiff();
    let values = numbers(7000);
    for count in [1, 8, 9, LENGTHS.len()] {
        let tensors = slices(&values[..count], &device);
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

/// Of slices, and of a part of a matrix whose memory is not in the order of its axes.
pub(crate) fn check_sums(device: &Device) {
    let values = numbers(7100);
    for (slice, values) in slices(&values, &device.clone().without_autodiff()).into_iter().zip(&values) {
        let slice = Tensor::from_inner(slice).require_grad();
        let length = slice.dims()[0];
        let all = sum(slice.clone());
        let expected: f64 = inside(values).sum();
        let size: f64 = inside(values).map(f64::abs).sum();
        let found = |all: &Tensor<1>| vec(all.clone().inner()).numbers[0];
        assert!((found(&all) - expected).abs() <= 1e-6 * size, "{} instead of {expected} of {length}", found(&all));
        assert_eq!(found(&all).to_bits(), found(&sum(slice.clone())).to_bits(), "another order in another call");
        let average = found(&mean(slice.clone()));
        assert!((average * length as f64 - expected).abs() <= 1e-6 * size, "mean {average} of {length}");
        let mut gradients = (all * 3.0).backward();
        let gradient = slice.grad_remove(&mut gradients).expect("a sum has a gradient");
        assert_near(&gradient, &vec![3.0; length]);
    }
    let map = Tensor::<2>::from_data([[1.0f32, 2.0, 4.0], [8.0, 16.0, 32.0]], device).swap_dims(0, 1);
    assert_eq!(vec(sum(map.narrow(0, 1, 2))).numbers, [54.0]);
}
