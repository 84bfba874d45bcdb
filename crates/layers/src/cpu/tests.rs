//! Every operation against a naive float64 computation over random shapes, and its gradients against differences of
//! that computation's own terms.

use burn::tensor::{Device, Tensor, TensorData};
use rand::RngExt;

use super::norm_act;
use super::unread::Normalisation;
use super::*;
use crate::activation::Activation;
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

/// Calls `visit(output index, input index, weight index)` for every product of a dense convolution.
fn dense_products(s: &Dense, mut visit: impl FnMut(usize, usize, usize)) {
    let [out_height, out_width] = s.out;
    let [top, left] = s.before;
    for (sample, output) in (0..s.batch).flat_map(|sample| (0..s.output).map(move |output| (sample, output))) {
        for (oy, ox) in (0..out_height).flat_map(|oy| (0..out_width).map(move |ox| (oy, ox))) {
            for input in 0..s.input {
                for (ky, kx) in (0..s.kernel).flat_map(|ky| (0..s.kernel).map(move |kx| (ky, kx))) {
                    let (iy, ix) = (oy * s.stride + ky, ox * s.stride + kx);
                    if iy < top || ix < left || iy - top >= s.height || ix - left >= s.width {
                        continue;
                    }
                    visit(
                        ((sample * s.output + output) * out_height + oy) * out_width + ox,
                        ((sample * s.input + input) * s.height + iy - top) * s.width + ix - left,
                        ((output * s.input + input) * s.kernel + ky) * s.kernel + kx,
                    );
                }
            }
        }
    }
}

/// Every kernel side, stride and padding there is a model for, at odd and even sizes.
fn dense_cases() -> Vec<Dense> {
    let mut cases = Vec::new();
    let kernels = [(1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (5, 2, 2), (7, 2, 3), (4, 2, 1), (4, 1, 0)];
    for (kernel, stride, padding) in kernels {
        for (height, width) in [(4, 4), (5, 7), (8, 6), (17, 16), (33, 9)] {
            for (batch, input, output) in [(1, 1, 1), (2, 3, 5), (3, 17, 4)] {
                let side = |size: usize| (size + 2 * padding - kernel) / stride + 1;
                let out = [side(height), side(width)];
                cases.push(Dense { batch, input, output, height, width, kernel, stride, before: [padding; 2], out });
            }
        }
    }
    // TensorFlow's padding: fewer zeros before than after.
    let (before, out) = ([0; 2], [4; 2]);
    cases.push(Dense { batch: 2, input: 3, output: 4, height: 8, width: 8, kernel: 3, stride: 2, before, out });
    cases
}

#[test]
fn dense_and_transposed_convolutions_and_their_gradients_equal_the_naive_sums() {
    let device = Device::flex().autodiff();
    for (case, shape) in dense_cases().into_iter().enumerate() {
        check_dense(&shape, &device, case as u64);
    }
}

fn check_dense(s: &Dense, device: &Device, case: u64) {
    let mut rng = rng(1000 + case);
    let count = |shape: [usize; 4]| shape.iter().product::<usize>();
    let (x, y) = (random(&mut rng, count(s.input_shape())), random(&mut rng, count(s.output_shape())));
    let w = random(&mut rng, s.output * s.input * s.kernel * s.kernel);
    let (mut of_x, mut of_y, mut of_w) = (vec![0.0f64; y.len()], vec![0.0f64; x.len()], vec![0.0f64; w.len()]);
    dense_products(s, |o, i, k| {
        of_x[o] += f64::from(x[i]) * f64::from(w[k]);
        of_y[i] += f64::from(y[o]) * f64::from(w[k]);
        of_w[k] += f64::from(y[o]) * f64::from(x[i]);
    });
    let tensor =
        |values: &[f32], shape: [usize; 4]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), device);
    let weight = || tensor(&w, [s.output, s.input, s.kernel, s.kernel]).require_grad();
    let places = Places { stride: s.stride, before: s.before, out: s.out };

    let (xt, wt) = (tensor(&x, s.input_shape()).require_grad(), weight());
    let out = dense(xt.clone(), wt.clone(), places);
    let grads = (out.clone() * tensor(&y, s.output_shape())).sum().backward();
    close(&format!("{s:?} y"), &vec(out), &of_x);
    close(&format!("{s:?} dx"), &vec(xt.grad(&grads).unwrap()), &of_y);
    close(&format!("{s:?} dw"), &vec(wt.grad(&grads).unwrap()), &of_w);

    let (yt, wt) = (tensor(&y, s.output_shape()).require_grad(), weight());
    let out = transposed(yt.clone(), wt.clone(), places, [s.height, s.width]);
    let grads = (out.clone() * tensor(&x, s.input_shape())).sum().backward();
    close(&format!("{s:?} transposed y"), &vec(out), &of_y);
    close(&format!("{s:?} transposed dx"), &vec(yt.grad(&grads).unwrap()), &of_x);
    close(&format!("{s:?} transposed dw"), &vec(wt.grad(&grads).unwrap()), &of_w);
}

#[test]
fn squeeze_and_scale_and_their_gradients_equal_the_naive_sums() {
    let device = Device::flex().autodiff();
    for (case, shape) in [[1, 1, 1, 1], [2, 3, 5, 7], [3, 17, 16, 16], [1, 4, 33, 40]].into_iter().enumerate() {
        let mut rng = rng(2000 + case as u64);
        let [batch, channels, height, width] = shape;
        let plane = height * width;
        let (x, dy) = (random(&mut rng, batch * channels * plane), random(&mut rng, batch * channels * plane));
        let (gate, dm) = (random(&mut rng, batch * channels), random(&mut rng, batch * channels));
        let tensor = |values: &[f32]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device);
        let vector =
            |values: &[f32]| Tensor::<2>::from_data(TensorData::new(values.to_vec(), [batch, channels]), &device);
        let (xt, gt) = (tensor(&x).require_grad(), vector(&gate).require_grad());
        let (mean, y) = (means(xt.clone()), scale(xt.clone(), gt.clone()));
        let loss = (mean.clone() * vector(&dm)).sum() + (y.clone() * tensor(&dy)).sum();
        let grads = loss.backward();

        let of = |index: usize| index / plane;
        let sums = |term: &dyn Fn(usize) -> f64| -> Vec<f64> {
            (0..batch * channels).map(|at| (at * plane..(at + 1) * plane).map(term).sum()).collect()
        };
        let naive_mean: Vec<f64> = sums(&|i| f64::from(x[i])).iter().map(|sum| sum / plane as f64).collect();
        let naive_y: Vec<f64> = (0..x.len()).map(|i| f64::from(x[i]) * f64::from(gate[of(i)])).collect();
        let naive_dx: Vec<f64> = (0..x.len())
            .map(|i| f64::from(dy[i]) * f64::from(gate[of(i)]) + f64::from(dm[of(i)]) / plane as f64)
            .collect();
        close("mean", &vec(mean), &naive_mean);
        close("scaled", &vec(y), &naive_y);
        close("dx", &vec(xt.grad(&grads).unwrap()), &naive_dx);
        close("dgate", &vec(gt.grad(&grads).unwrap()), &sums(&|i| f64::from(x[i]) * f64::from(dy[i])));
    }
}

/// Maps of a half format: what is computed from them is the float32 result, rounded once.
#[test]
fn half_formats_are_the_float32_result_rounded_once() {
    use burn::tensor::{FloatDType, Tolerance};
    let device = Device::flex().autodiff();
    let mut rng = rng(3000);
    let mut of = |shape: [usize; 4]| {
        let values = random(&mut rng, shape.iter().product());
        Tensor::<4>::from_data(TensorData::new(values, shape), &device)
    };
    let (x, w, d) = (of([2, 6, 9, 9]), of([4, 6, 3, 3]), of([6, 1, 3, 3]));
    let places = Places { stride: 2, before: [1; 2], out: [5; 2] };
    type Operation = fn(Tensor<4>, Tensor<4>, Places) -> Tensor<4>;
    let operations: [(&Tensor<4>, Operation); 3] = [
        (&w, dense),
        (&d, |x, d, places| depthwise(x, d, places.stride, places.before)),
        (&d, |x, d, _| scale(x.clone(), means(x) * d.reshape([6, 9]).sum_dim(1).reshape([1, 6]))),
    ];
    for (format, digits) in [(FloatDType::BF16, 1.0 / 128.0), (FloatDType::F16, 1.0 / 1024.0)] {
        for (weight, operation) in &operations {
            let half = x.clone().cast(format);
            let run = |x: Tensor<4>| {
                let (x, weight) = (x.detach().require_grad(), (*weight).clone().detach().require_grad());
                let y = operation(x.clone(), weight.clone(), places);
                let mut grads = y.clone().sum().backward();
                (y, x.grad_remove(&mut grads).unwrap(), weight.grad_remove(&mut grads).unwrap())
            };
            let (y, dx, dw) = run(half.clone());
            let (full_y, full_dx, full_dw) = run(half.cast(FloatDType::F32));
            assert_eq!([y.dtype(), dx.dtype(), dw.dtype()], [format.into(), format.into(), DType::F32]);
            let near = Tolerance::<f32>::relative(digits).set_absolute(1e-6);
            y.cast(FloatDType::F32).into_data().assert_approx_eq::<f32>(&full_y.into_data(), near);
            dx.cast(FloatDType::F32).into_data().assert_approx_eq::<f32>(&full_dx.into_data(), near);
            dw.into_data().assert_approx_eq::<f32>(&full_dw.into_data(), near);
        }
    }
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

/// A normalisation with random parameters, computed naively in float64.
struct NaiveNorm {
    shape: [usize; 4],
    groups: Vec<usize>,
    x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    activation: Activation,
}

const EPSILON: f64 = 1e-3;

impl NaiveNorm {
    fn random(shape: [usize; 4], group: usize, activation: Activation, rng: &mut kindling_random::Rng) -> Self {
        let [batch, channels, ..] = shape;
        let x = random(rng, shape.iter().product());
        let (weight, bias) = (random(rng, channels), random(rng, channels));
        Self { shape, groups: normalisation_groups(batch, group), x, weight, bias, activation }
    }

    /// Calls `visit(places, channel, normal)` for the pixels of each channel of each group, with the values before scale and shift.
    fn channels(&self, mut visit: impl FnMut(&[usize], usize, &dyn Fn(usize) -> f64, f64)) {
        let [_, channels, height, width] = self.shape;
        let (plane, mut start) = (height * width, 0);
        for size in &self.groups {
            for channel in 0..channels {
                let places: Vec<usize> = (start..start + size)
                    .flat_map(|sample| (0..plane).map(move |at| (sample * channels + channel) * plane + at))
                    .collect();
                let (count, x) = (places.len() as f64, |at: usize| f64::from(self.x[at]));
                let mean = places.iter().map(|&at| x(at)).sum::<f64>() / count;
                let variance = places.iter().map(|&at| (x(at) - mean).powi(2)).sum::<f64>() / count;
                let inverse = 1.0 / (variance + EPSILON).sqrt();
                visit(&places, channel, &|at| (x(at) - mean) * inverse, inverse);
            }
            start += size;
        }
    }

    fn output(&self) -> Vec<f64> {
        let mut y = vec![0.0; self.x.len()];
        self.channels(|places, channel, normal, _| {
            let (weight, bias) = (f64::from(self.weight[channel]), f64::from(self.bias[channel]));
            places.iter().for_each(|&at| y[at] = reference(self.activation, normal(at) * weight + bias).0);
        });
        y
    }

    /// The gradients of the map, scale and shift for the gradient of the output.
    fn gradients(&self, dy: &[f64]) -> [Vec<f64>; 3] {
        let mut dx = vec![0.0; self.x.len()];
        let (mut dw, mut db) = (vec![0.0; self.weight.len()], vec![0.0; self.bias.len()]);
        self.channels(|places, channel, normal, inverse| {
            let (weight, bias) = (f64::from(self.weight[channel]), f64::from(self.bias[channel]));
            let dz = |at: usize| dy[at] * reference(self.activation, normal(at) * weight + bias).1;
            let sum = places.iter().map(|&at| dz(at)).sum::<f64>();
            let weighted = places.iter().map(|&at| dz(at) * normal(at)).sum::<f64>();
            (dw[channel], db[channel]) = (dw[channel] + weighted, db[channel] + sum);
            let count = places.len() as f64;
            for &at in places {
                dx[at] = weight * inverse * (dz(at) - sum / count - normal(at) * weighted / count);
            }
        });
        [dx, dw, db]
    }

    /// The same as tensors that want gradients.
    fn unread(&self, device: &Device) -> Unread {
        let vector = |values: &[f32]| Tensor::<1>::from_floats(values, device).require_grad();
        let x = Tensor::<4>::from_data(TensorData::new(self.x.clone(), self.shape), device).require_grad();
        let statistics = statistics(x.clone().inner(), self.groups.clone());
        let how =
            Normalisation { groups: self.groups.clone(), epsilon: EPSILON, activation: self.activation, again: None };
        Unread { x, weight: vector(&self.weight), bias: vector(&self.bias), statistics, how, gate: None }
    }
}

/// Compares the gradients of a map's tensors with the naive ones.
fn check_norm_gradients(what: &str, map: &Unread, grads: &burn::tensor::Gradients, expected: [Vec<f64>; 3]) {
    let [dx, dw, db] = expected;
    close(&format!("{what} dx"), &vec(map.x.grad(grads).unwrap()), &dx);
    close(&format!("{what} dw"), &vec(map.weight.grad(grads).unwrap()), &dw);
    close(&format!("{what} db"), &vec(map.bias.grad(grads).unwrap()), &db);
}

fn check_norm_act(shape: [usize; 4], group: usize, activation: Activation, case: u64) {
    let device = Device::flex().autodiff();
    let mut rng = rng(case);
    let naive = NaiveNorm::random(shape, group, activation, &mut rng);
    let dy = random(&mut rng, naive.x.len());
    let map = naive.unread(&device);
    let y = map.clone().whole();
    let grads = (y.clone() * Tensor::<4>::from_data(TensorData::new(dy.clone(), shape), &device)).sum().backward();
    let what = format!("{activation:?} {shape:?}");
    close(&format!("{what} y"), &vec(y), &naive.output());
    let dy: Vec<f64> = dy.into_iter().map(f64::from).collect();
    check_norm_gradients(&what, &map, &grads, naive.gradients(&dy));
}

/// With and without a gate, with every activation, on planes that make several pieces and on odd ones.
#[test]
fn convolutions_that_normalise_while_they_read_and_their_gradients_equal_the_naive_sums() {
    let pointwise = |input, output, side: usize| ([2, input, side, side], output, 1, 1, 0);
    let cases = [
        (pointwise(3, 5, 7), None),
        (pointwise(300, 4, 33), None),
        (([3, 4, 9, 8], 6, 3, 2, 1), None),
        (([1, 17, 5, 5], 3, 3, 1, 1), None),
        (([5, 3, 10, 9], 3, 3, 1, 1), Some(())),
        (([2, 5, 17, 33], 5, 5, 2, 2), Some(())),
    ];
    let mut case = 4000;
    for (index, (of, depthwise)) in cases.into_iter().enumerate() {
        for gated in [false, true] {
            for (number, activation) in ACTIVATIONS.into_iter().enumerate() {
                // The large one once.
                if index != 1 || number == 3 {
                    check_norm_act_conv(of, depthwise.is_some(), gated, activation, case);
                    case += 1;
                }
            }
        }
    }
}

fn check_norm_act_conv(
    (shape, output, kernel, stride, padding): ([usize; 4], usize, usize, usize, usize),
    depthwise: bool,
    gated: bool,
    activation: Activation,
    case: u64,
) {
    let device = Device::flex().autodiff();
    let mut rng = rng(case);
    let [batch, input, height, width] = shape;
    let naive = NaiveNorm::random(shape, 2, activation, &mut rng);
    let gate: Vec<f32> = match gated {
        true => random(&mut rng, batch * input),
        false => vec![1.0; batch * input],
    };
    let out = [height, width].map(|size| (size + 2 * padding - kernel) / stride + 1);
    let before = [padding; 2];
    let geometry = Geometry { batch, channels: input, height, width, kernel, stride, before };
    let dense = Dense { batch, input, output, height, width, kernel, stride, before, out };
    let fan = if depthwise { 1 } else { input };
    let weight = random(&mut rng, output * fan * kernel * kernel);
    let dy = random(&mut rng, batch * output * out[0] * out[1]);

    let of_plane = |at: usize| at / (height * width);
    let whole = naive.output();
    let read: Vec<f64> = whole.iter().enumerate().map(|(at, y)| y * f64::from(gate[of_plane(at)])).collect();
    let (mut y_naive, mut dw_naive) = (vec![0.0; dy.len()], vec![0.0; weight.len()]);
    let (mut of_read, mut of_gate) = (vec![0.0; read.len()], vec![0.0; gate.len()]);
    let visit = |o: usize, i: usize, k: usize| {
        y_naive[o] += read[i] * f64::from(weight[k]);
        of_read[i] += f64::from(dy[o]) * f64::from(weight[k]);
        dw_naive[k] += f64::from(dy[o]) * read[i];
    };
    if depthwise {
        products(&geometry, visit)
    } else {
        dense_products(&dense, visit)
    }
    for (at, of_read) in of_read.iter_mut().enumerate() {
        of_gate[of_plane(at)] += *of_read * whole[at];
        *of_read *= f64::from(gate[of_plane(at)]);
    }

    let mut map = naive.unread(&device);
    let gates = Tensor::<2>::from_data(TensorData::new(gate, [batch, input]), &device).require_grad();
    map.gate = gated.then(|| gates.clone());
    let filters =
        Tensor::<4>::from_data(TensorData::new(weight, [output, fan, kernel, kernel]), &device).require_grad();
    let convolution = match depthwise {
        true => Convolution::Depthwise { stride, before },
        false => Convolution::Dense(Places { stride, before, out }),
    };
    let y = map.clone().convolved(filters.clone(), convolution);
    let dy = Tensor::<4>::from_data(TensorData::new(dy, [batch, output, out[0], out[1]]), &device);
    let grads = (y.clone() * dy).sum().backward();
    let what = format!("{convolution:?} of {shape:?}, {activation:?}, gated {gated}");
    close(&format!("{what} y"), &vec(y), &y_naive);
    close(&format!("{what} dweight"), &vec(filters.grad(&grads).unwrap()), &dw_naive);
    if gated {
        close(&format!("{what} dgate"), &vec(gates.grad(&grads).unwrap()), &of_gate);
    }
    check_norm_gradients(&what, &map, &grads, naive.gradients(&of_read));
}

#[test]
fn means_that_normalise_while_they_read_and_their_gradients_equal_the_naive_sums() {
    let device = Device::flex().autodiff();
    for (case, activation) in ACTIVATIONS.into_iter().enumerate() {
        let mut rng = rng(5000 + case as u64);
        let shape @ [batch, channels, height, width] = [5, 3, 11, 7];
        let naive = NaiveNorm::random(shape, 2, activation, &mut rng);
        let dm = random(&mut rng, batch * channels);
        let map = naive.unread(&device);
        let means = map.clone().means();
        let weights = Tensor::<2>::from_data(TensorData::new(dm.clone(), [batch, channels]), &device);
        let grads = (means.clone() * weights).sum().backward();
        let plane = height * width;
        let of_plane = |plane: &[f64]| plane.iter().sum::<f64>() / plane.len() as f64;
        let expected: Vec<f64> = naive.output().chunks(plane).map(of_plane).collect();
        close("means", &vec(means), &expected);
        let dy: Vec<f64> = (0..naive.x.len()).map(|at| f64::from(dm[at / plane]) / plane as f64).collect();
        check_norm_gradients(&format!("means {activation:?}"), &map, &grads, naive.gradients(&dy));
    }
}

/// With a factor for each sample, as dropped branches have; with `x` kept, and with `x` made again.
#[test]
fn sums_with_a_shortcut_and_their_gradients_equal_the_naive_sums() {
    let device = Device::flex().autodiff();
    for (case, activation) in [Activation::Identity, Activation::Relu].into_iter().enumerate() {
        for again in [false, true] {
            let mut rng = rng(6000 + case as u64);
            let shape @ [batch, channels, height, width] = [5, 3, 6, 7];
            let naive = NaiveNorm::random(shape, 2, Activation::Identity, &mut rng);
            let (other, dy) = (random(&mut rng, naive.x.len()), random(&mut rng, naive.x.len()));
            let factor = |at: usize| [0.0, 1.25, 1.25, 0.5, 1.0][at / (channels * height * width)];
            let tensor = |values: &[f32]| Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device);
            let shortcut = tensor(&other).require_grad();
            let mut map = naive.unread(&device);
            let factors: Vec<f32> = (0..batch).map(|at| factor(at * channels * height * width) as f32).collect();
            let factors = Tensor::<2>::from_data(TensorData::new(factors, [batch, 1]), &Device::flex());
            map.gate = Some(factors.expand([batch, channels]));
            let x = map.x.clone().inner();
            map.how.again = again.then(|| Again(std::sync::Arc::new(move || x.clone())));
            let y = map.clone().added_to(shortcut.clone(), activation);
            let grads = (y.clone() * tensor(&dy)).sum().backward();

            let branch = naive.output();
            let sum = |at: usize| branch[at] * factor(at) + f64::from(other[at]);
            let expected: Vec<f64> = (0..branch.len()).map(|at| reference(activation, sum(at)).0).collect();
            let of_sum: Vec<f64> =
                (0..branch.len()).map(|at| f64::from(dy[at]) * reference(activation, sum(at)).1).collect();
            let of_branch: Vec<f64> = of_sum.iter().enumerate().map(|(at, of)| of * factor(at)).collect();
            let what = format!("sum {activation:?}, again {again}");
            close(&format!("{what} y"), &vec(y), &expected);
            close(&format!("{what} dshortcut"), &vec(shortcut.grad(&grads).unwrap()), &of_sum);
            check_norm_gradients(&what, &map, &grads, naive.gradients(&of_branch));
        }
    }
}

#[test]
fn maxima_that_normalise_while_they_read_and_their_gradients_equal_the_naive_ones() {
    let device = Device::flex().autodiff();
    for (case, (height, width, kernel, stride)) in [(9, 8, 3, 2), (5, 5, 3, 1), (8, 6, 2, 2)].into_iter().enumerate() {
        let mut rng = rng(7000 + case as u64);
        let shape = [3, 2, height, width];
        let naive = NaiveNorm::random(shape, 2, Activation::HardSwish, &mut rng);
        let padding = usize::from(kernel == 3);
        let out = [height, width].map(|size| (size + 2 * padding - kernel) / stride + 1);
        let dy = random(&mut rng, 3 * 2 * out[0] * out[1]);
        let map = naive.unread(&device);
        let y = map.clone().max_pooled(Pooling { kernel, stride, padding });
        let shape = [3, 2, out[0], out[1]];
        assert_eq!(y.dims(), shape);
        let grads = (y.clone() * Tensor::<4>::from_data(TensorData::new(dy.clone(), shape), &device)).sum().backward();

        let whole = naive.output();
        let (mut expected, mut of_whole) = (vec![f64::NEG_INFINITY; dy.len()], vec![0.0; whole.len()]);
        for (at, expected) in expected.iter_mut().enumerate() {
            let (plane, row, column) = (at / (out[0] * out[1]), at / out[1] % out[0], at % out[1]);
            let mut best = 0;
            for (y, x) in (0..kernel).flat_map(|y| (0..kernel).map(move |x| (y, x))) {
                let (y, x) = ((row * stride + y).wrapping_sub(padding), (column * stride + x).wrapping_sub(padding));
                if y < height && x < width && whole[(plane * height + y) * width + x] > *expected {
                    best = (plane * height + y) * width + x;
                    *expected = whole[best];
                }
            }
            of_whole[best] += f64::from(dy[at]);
        }
        close("maxima", &vec(y), &expected);
        check_norm_gradients("maxima", &map, &grads, naive.gradients(&of_whole));
    }
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
