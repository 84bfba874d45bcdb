//! What reads maps before their normalisation.

use burn::tensor::{Device, Tensor, TensorData};

use super::super::*;
use super::convolutions::{dense_products, products};
use super::naive_norm::{ACTIVATIONS, NaiveNorm, check_norm_gradients, reference};
use super::{close, random, rng, vec};
use crate::activation::Activation;

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
        (([2, 18, 9, 12], 21, 3, 1, 1), None),
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
