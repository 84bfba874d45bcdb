//! Depthwise, dense and transposed convolutions of whole maps.

use burn::tensor::{Device, Tensor, TensorData};

use super::super::*;
use super::{close, random, rng, vec};
use crate::padding::Padding;

/// Calls `visit(output index, input index, weight index)` for every product of a depthwise convolution.
pub(super) fn products(g: &Geometry, mut visit: impl FnMut(usize, usize, usize)) {
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
pub(super) fn dense_products(s: &Dense, mut visit: impl FnMut(usize, usize, usize)) {
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
    cases.extend(winograd_cases());
    // TensorFlow's padding: fewer zeros before than after.
    let (before, out) = ([0; 2], [4; 2]);
    cases.push(Dense { batch: 2, input: 3, output: 4, height: 8, width: 8, kernel: 3, stride: 2, before, out });
    cases
}

/// 3x3 filters between many channels, on maps of one place and of several blocks of them, with zeros on either side, on both
/// or on none.
fn winograd_cases() -> Vec<Dense> {
    let mut cases = Vec::new();
    let sizes = [(1, 1), (2, 5), (4, 4), (7, 16), (17, 33), (70, 9)].map(|size| (size, 2, 16, 20));
    for ((height, width), batch, input, output) in sizes.into_iter().chain([((37, 40), 1, 70, 150)]) {
        for (before, after) in [(1, 1), (0, 1), (0, 2), (2, 0), (2, 2)] {
            let out = [height, width].map(|size: usize| size + before + after - 2);
            let before = [before, before.min(1)];
            let shape = Dense { batch, input, output, height, width, kernel: 3, stride: 1, before, out };
            assert!(winograd::serves(&shape));
            // One pixel and no zeros on a side make no output.
            cases.extend((!out.contains(&0)).then_some(shape));
        }
    }
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
