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
