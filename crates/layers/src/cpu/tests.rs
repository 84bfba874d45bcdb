//! Every operation against a naive float64 computation over random shapes, and its gradients against differences of
//! that computation's own terms.

use burn::tensor::{Device, Tensor, TensorData};
use rand::RngExt;

use super::*;
use crate::padding::Padding;
use crate::pass::normalisation_groups;

fn rng(case: u64) -> kindling_random::Rng {
    kindling_random::rng(11, kindling_random::Purpose::Display, 0, case)
}

fn random(rng: &mut kindling_random::Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| rng.random::<f32>() * 4.0 - 2.0).collect()
}

fn vec<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec::<f32>().unwrap()
}

fn close(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-6f64, |largest, value| largest.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs() / scale;
        assert!(error < 2e-5, "{what}[{index}]: {found} for {expected}");
    }
}

/// Calls `visit(output index, input index, weight index)` for every product of a depthwise convolution.
fn products(g: &Geometry, mut visit: impl FnMut(usize, usize, usize)) {
    let [batch, channels, out_height, out_width] = g.output();
    let [top, left] = g.before;
    for plane in 0..batch * channels {
        for (oy, ox) in (0..out_height).flat_map(|oy| (0..out_width).map(move |ox| (oy, ox))) {
            for (ky, kx) in (0..g.kernel).flat_map(|ky| (0..g.kernel).map(move |kx| (ky, kx))) {
                let (iy, ix) = (oy * g.stride + ky, ox * g.stride + kx);
                if iy < top || ix < left || iy - top >= g.height || ix - left >= g.width {
                    continue;
                }
                visit(
                    (plane * out_height + oy) * out_width + ox,
                    (plane * g.height + iy - top) * g.width + ix - left,
                    ((plane % channels) * g.kernel + ky) * g.kernel + kx,
                );
            }
        }
    }
}

#[test]
fn depthwise_and_its_gradients_equal_the_naive_sums() {
    let device = Device::flex().autodiff();
    let mut cases = 0;
    for kernel in [3, 5, 7, 9, 11] {
        for stride in [1, 2, 3] {
            for (height, width) in [(1, 1), (2, 3), (5, 4), (7, 16), (16, 17), (33, 31), (9, 70)] {
                for (padding, batch, channels) in
                    [(Padding::Symmetric, 1, 1), (Padding::Symmetric, 2, 3), (Padding::Same, 2, 2)]
                {
                    let before = padding.of_map(height, width, kernel, stride).before;
                    let g = Geometry { batch, channels, height, width, kernel, stride, before };
                    check_depthwise(&g, &device, cases);
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 315);
}

fn check_depthwise(g: &Geometry, device: &Device, case: u64) {
    let mut rng = rng(case);
    let count = |shape: [usize; 4]| shape.iter().product::<usize>();
    let (x, dy) = (random(&mut rng, count(g.input())), random(&mut rng, count(g.output())));
    let w = random(&mut rng, g.channels * g.kernel * g.kernel);
    let (mut y_naive, mut dx_naive) = (vec![0.0f64; dy.len()], vec![0.0f64; x.len()]);
    let mut dw_naive = vec![0.0f64; w.len()];
    products(g, |o, i, k| {
        y_naive[o] += f64::from(x[i]) * f64::from(w[k]);
        dx_naive[i] += f64::from(dy[o]) * f64::from(w[k]);
        dw_naive[k] += f64::from(dy[o]) * f64::from(x[i]);
    });
    let tensor =
        |values: &[f32], shape: [usize; 4]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), device);
    let xt = tensor(&x, g.input()).require_grad();
    let wt = tensor(&w, [g.channels, 1, g.kernel, g.kernel]).require_grad();
    let y = depthwise(xt.clone(), wt.clone(), g.stride, g.before);
    assert_eq!(y.dims(), g.output());
    let grads = (y.clone() * tensor(&dy, g.output())).sum().backward();
    close(&format!("{g:?} y"), &vec(y), &y_naive);
    close(&format!("{g:?} dx"), &vec(xt.grad(&grads).unwrap()), &dx_naive);
    close(&format!("{g:?} dw"), &vec(wt.grad(&grads).unwrap()), &dw_naive);
}

#[test]
fn depthwise_takes_tensors_that_are_not_contiguous() {
    let device = Device::flex();
    let x = Tensor::<4>::from_data(TensorData::new(random(&mut rng(0), 2 * 4 * 6 * 6), [2, 6, 6, 4]), &device);
    let w = Tensor::<4>::from_data(TensorData::new(random(&mut rng(1), 4 * 9), [4, 1, 3, 3]), &device);
    let permuted = x.permute([0, 3, 1, 2]);
    let copied = Tensor::<4>::from_data(permuted.clone().into_data(), &device);
    assert_eq!(vec(depthwise(permuted, w.clone(), 2, [1, 1])), vec(depthwise(copied, w, 2, [1, 1])));
}

/// The activation and its derivative in float64, from their definitions.
fn reference(activation: Activation, x: f64) -> (f64, f64) {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    let inside = |low: f64, high: f64| if x > low && x < high { 1.0 } else { 0.0 };
    match activation {
        Activation::Identity => (x, 1.0),
        Activation::Relu => (x.max(0.0), inside(0.0, f64::INFINITY)),
        Activation::Relu6 => (x.clamp(0.0, 6.0), inside(0.0, 6.0)),
        Activation::HardSigmoid => ((x + 3.0).clamp(0.0, 6.0) / 6.0, inside(-3.0, 3.0) / 6.0),
        Activation::HardSwish => {
            let derivative = if x < -3.0 {
                0.0
            } else if x > 3.0 {
                1.0
            } else {
                x / 3.0 + 0.5
            };
            (x * (x + 3.0).clamp(0.0, 6.0) / 6.0, derivative)
        }
        Activation::Sigmoid => (sigmoid, sigmoid * (1.0 - sigmoid)),
        Activation::Silu => (x * sigmoid, sigmoid + x * sigmoid * (1.0 - sigmoid)),
        Activation::LeakyRelu => (x.max(0.2 * x), 0.2 + 0.8 * inside(0.0, f64::INFINITY)),
        Activation::Tanh => (x.tanh(), 1.0 - x.tanh().powi(2)),
    }
}

const ACTIVATIONS: [Activation; 9] = [
    Activation::Identity,
    Activation::Relu,
    Activation::Relu6,
    Activation::HardSwish,
    Activation::HardSigmoid,
    Activation::Sigmoid,
    Activation::Silu,
    Activation::LeakyRelu,
    Activation::Tanh,
];

#[test]
fn norm_act_and_its_gradients_equal_the_naive_sums() {
    let mut case = 1000;
    for activation in ACTIVATIONS {
        for (shape, group) in [([2, 3, 5, 4], 8), ([1, 2, 1, 3], 8), ([5, 2, 3, 7], 2), ([7, 1, 17, 16], 3)] {
            check_norm_act(shape, group, activation, case);
            case += 1;
        }
    }
}

fn check_norm_act(shape: [usize; 4], group: usize, activation: Activation, case: u64) {
    let [batch, channels, height, width] = shape;
    let (plane, epsilon) = (height * width, 1e-3);
    let groups = normalisation_groups(batch, group);
    let mut rng = rng(case);
    let x = random(&mut rng, batch * channels * plane);
    let dy = random(&mut rng, x.len());
    let (w, b) = (random(&mut rng, channels), random(&mut rng, channels));

    let (mut y_naive, mut dx_naive) = (vec![0.0f64; x.len()], vec![0.0f64; x.len()]);
    let (mut dw_naive, mut db_naive) = (vec![0.0f64; channels], vec![0.0f64; channels]);
    let mut start = 0;
    for size in &groups {
        for channel in 0..channels {
            let places: Vec<usize> = (start..start + size)
                .flat_map(|sample| (0..plane).map(move |at| (sample * channels + channel) * plane + at))
                .collect();
            let count = places.len() as f64;
            let mean = places.iter().map(|&at| f64::from(x[at])).sum::<f64>() / count;
            let variance = places.iter().map(|&at| (f64::from(x[at]) - mean).powi(2)).sum::<f64>() / count;
            let inverse = 1.0 / (variance + epsilon).sqrt();
            let normal = |at: usize| (f64::from(x[at]) - mean) * inverse;
            let (weight, bias) = (f64::from(w[channel]), f64::from(b[channel]));
            let dz = |at: usize| f64::from(dy[at]) * reference(activation, normal(at) * weight + bias).1;
            let sum = places.iter().map(|&at| dz(at)).sum::<f64>();
            let weighted = places.iter().map(|&at| dz(at) * normal(at)).sum::<f64>();
            dw_naive[channel] += weighted;
            db_naive[channel] += sum;
            for &at in &places {
                y_naive[at] = reference(activation, normal(at) * weight + bias).0;
                dx_naive[at] = weight * inverse * (dz(at) - sum / count - normal(at) * weighted / count);
            }
        }
        start += size;
    }

    let device = Device::flex().autodiff();
    let tensor = |values: &[f32]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device);
    let vector = |values: &[f32]| Tensor::<1>::from_floats(values, &device).require_grad();
    let (xt, wt, bt) = (tensor(&x).require_grad(), vector(&w), vector(&b));
    let statistics = statistics(xt.clone().inner(), groups.clone());
    let y = norm_act(xt.clone(), wt.clone(), bt.clone(), statistics, groups, epsilon, activation);
    let grads = (y.clone() * tensor(&dy)).sum().backward();
    let what = |part: &str| format!("{activation:?} {shape:?} {part}");
    close(&what("y"), &vec(y), &y_naive);
    close(&what("dx"), &vec(xt.grad(&grads).unwrap()), &dx_naive);
    close(&what("dw"), &vec(wt.grad(&grads).unwrap()), &dw_naive);
    close(&what("db"), &vec(bt.grad(&grads).unwrap()), &db_naive);
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let g = Geometry { batch: 3, channels: 5, height: 20, width: 19, kernel: 5, stride: 2, before: [2, 2] };
            let mut rng = rng(7);
            let x = random(&mut rng, g.input().iter().product());
            let dy = random(&mut rng, g.output().iter().product());
            (depthwise::backward_weight(&x, &dy, &g), norm_act::statistics(&x, g.input(), &[2, 1]))
        })
    };
    assert_eq!(run(1), run(2));
    assert_eq!(run(1), run(5));
}
