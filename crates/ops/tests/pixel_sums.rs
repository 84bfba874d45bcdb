//! Sums over pixels are their definition, in value and gradient, whatever the threads and the format.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use burn::tensor::{DType, Device, FloatDType, Tensor, TensorData};
use kindling_ops::{PIXEL_SUMS, pixel_sums, sums_pixels};

const CLASSES: usize = 3;
/// More pixels than a thread takes at a time, and not a multiple of that.
const SHAPE: [usize; 4] = [2, CLASSES, 50, 83];

/// Numbers between -4 and 4 that look like chance.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64 * 8.0 - 4.0
    };
    (0..count).map(|_| next()).collect()
}

/// A class for each pixel, among them one that counts nowhere.
fn truth() -> Arc<[u8]> {
    let [images, _, height, width] = SHAPE;
    (0..images * height * width)
        .map(|pixel| if pixel % 7 == 3 { 255 } else { (pixel * pixel % 11 % CLASSES) as u8 })
        .collect()
}

/// The definition, pixel after pixel: the sums, and the gradient of the sum of their products with `weights`.
fn naive(logits: &[f64], truth: &[u8], weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let [images, classes, height, width] = SHAPE;
    let pixels = height * width;
    let (mut sums, mut gradient) = (vec![0.0; images * PIXEL_SUMS * classes], vec![0.0; logits.len()]);
    for (pixel, class) in truth.iter().enumerate() {
        let (image, pixel, truth) = (pixel / pixels, pixel % pixels, usize::from(*class));
        if truth >= classes {
            continue;
        }
        let at = |class: usize| (image * classes + class) * pixels + pixel;
        let sum: f64 = (0..classes).map(|class| logits[at(class)].exp()).sum();
        let p: Vec<f64> = (0..classes).map(|class| logits[at(class)].exp() / sum).collect();
        let of = |number: usize, class: usize| (image * PIXEL_SUMS + number) * classes + class;
        for class in 0..classes {
            let here = f64::from(u8::from(class == truth));
            let parts = [p[class] * here, p[class], p[class].ln() * here, p[class].ln()];
            parts.iter().enumerate().for_each(|(number, part)| sums[of(number, class)] += part);
            // Of each logit: dp/dx = p (d - p'), and d ln p/dx = d - p'.
            for other in 0..classes {
                let slope = f64::from(u8::from(class == other)) - p[other];
                let of_p = weights[of(0, class)] * here + weights[of(1, class)];
                let of_log_p = weights[of(2, class)] * here + weights[of(3, class)];
                gradient[at(other)] += (of_p * p[class] + of_log_p) * slope;
            }
        }
    }
    (sums, gradient)
}

/// The operation's, in the format of the map.
fn computed(logits: &[f64], truth: &Arc<[u8]>, weights: &[f64], format: FloatDType) -> [Vec<f64>; 2] {
    let device = Device::flex().autodiff();
    let map = Tensor::<4>::from_data(TensorData::new(logits.to_vec(), SHAPE), (&device, DType::F64)).cast(format);
    let map = map.detach().require_grad();
    assert!(sums_pixels(&map));
    let sums = pixel_sums(map.clone(), truth.clone());
    let dtype = sums.dtype();
    let weights = TensorData::new(weights.to_vec(), [SHAPE[0], PIXEL_SUMS, CLASSES]);
    let weighed = (sums.clone() * Tensor::<3>::from_data(weights, (&device, dtype))).sum();
    let gradient = map.grad(&weighed.backward()).unwrap();
    let values = |data: TensorData| data.convert::<f64>().try_to_vec::<f64>().unwrap();
    [values(sums.inner().into_data()), values(gradient.into_data())]
}

fn assert_close(found: &[f64], expected: &[f64], room: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |largest, number| largest.max(number.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= room * largest, "{what}: {found} for {expected}");
    }
}

#[test]
fn sums_over_pixels_and_their_gradients_equal_the_definition() {
    let (logits, truth) = (numbers(SHAPE.iter().product(), 1), truth());
    let weights = numbers(SHAPE[0] * PIXEL_SUMS * CLASSES, 2);
    let (sums, gradient) = naive(&logits, &truth, &weights);
    for (format, room) in [(FloatDType::F64, 1e-13), (FloatDType::F32, 1e-6), (FloatDType::BF16, 0.02)] {
        let [found, of_logits] = computed(&logits, &truth, &weights, format);
        assert_close(&found, &sums, room, &format!("sums of {format:?}"));
        assert_close(&of_logits, &gradient, room, &format!("gradient of {format:?}"));
    }
}

#[test]
fn sums_over_pixels_do_not_depend_on_the_number_of_threads() {
    let (logits, truth) = (numbers(SHAPE.iter().product(), 3), truth());
    let weights = numbers(SHAPE[0] * PIXEL_SUMS * CLASSES, 4);
    for format in [FloatDType::F32, FloatDType::BF16, FloatDType::F64] {
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| computed(&logits, &truth, &weights, format).concat().iter().map(|x| x.to_bits()).collect())
        };
        let one: Vec<u64> = on(1);
        assert!(one == on(2) && one == on(5), "{format:?}");
    }
}
