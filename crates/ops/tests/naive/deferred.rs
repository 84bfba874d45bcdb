//! Operations on maps whose normalisation is deferred.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};
use kindling_ops::Activation;
use kindling_ops::{Pooling, Rebuild};

use super::convolutions::Case;
use super::norm::{NaiveNorm, check_norm_gradients, reference};
use super::{Ground, close, close_sums, random, rng, vec};

/// Checks the normalised map itself and its gradients.
pub(crate) fn check_norm_act(ground: &Ground, shape: [usize; 4], group: usize, activation: Activation, case: u64) {
    let mut rng = rng(case);
    let naive = NaiveNorm::random(shape, group, activation, &mut rng);
    let dy = random(&mut rng, naive.x.len());
    let map = naive.deferred(ground);
    let y = map.clone().whole();
    let grads = ground.weighed(y.clone(), &dy).backward();
    let what = format!("{activation:?} {shape:?}");
    close(&format!("{what} y"), &vec(y), &naive.output());
    let dy: Vec<f64> = dy.into_iter().map(f64::from).collect();
    check_norm_gradients(&what, &map, &grads, naive.gradients(&dy));
}

/// Checks a convolution of a map and its gradients.
pub(crate) fn check_norm_act_conv(ground: &Ground, of: &Case, gated: bool, activation: Activation, case: u64) {
    let mut rng = rng(case);
    let shape @ [batch, input, height, width] = of.input_shape();
    let naive = NaiveNorm::random(shape, 2, activation, &mut rng);
    let gate: Vec<f32> = match gated {
        true => random(&mut rng, batch * input),
        false => vec![1.0; batch * input],
    };
    let weight = random(&mut rng, of.filters().iter().product());
    let dy = random(&mut rng, of.output_shape().iter().product());

    let of_plane = |at: usize| at / (height * width);
    let whole = naive.output();
    let read: Vec<f64> = whole.iter().enumerate().map(|(at, y)| y * f64::from(gate[of_plane(at)])).collect();
    let (mut y_naive, mut dw_naive) = (vec![0.0; dy.len()], vec![0.0; weight.len()]);
    let (mut of_read, mut of_gate) = (vec![0.0; read.len()], vec![0.0; gate.len()]);
    let (mut squares_of_gate, mut squares_of_weight) = (of_gate.clone(), dw_naive.clone());
    of.products(|o, i, k| {
        y_naive[o] += read[i] * f64::from(weight[k]);
        of_read[i] += f64::from(dy[o]) * f64::from(weight[k]);
        dw_naive[k] += f64::from(dy[o]) * read[i];
        squares_of_weight[k] += (f64::from(dy[o]) * read[i]).powi(2);
    });
    for (at, of_read) in of_read.iter_mut().enumerate() {
        of_gate[of_plane(at)] += *of_read * whole[at];
        squares_of_gate[of_plane(at)] += (*of_read * whole[at]).powi(2);
        *of_read *= f64::from(gate[of_plane(at)]);
    }

    let mut map = naive.deferred(ground);
    let gates = ground.tensor(&gate, [batch, input]).require_grad();
    map.gate = gated.then(|| gates.clone());
    let filters = ground.tensor(&weight, of.filters()).require_grad();
    let y = map.clone().convolved(filters.clone(), of.convolution());
    assert_eq!(y.dims(), of.output_shape());
    let grads = ground.weighed(y.clone(), &dy).backward();
    let what = format!("{of:?}, {activation:?}, gated {gated}");
    close(&format!("{what} y"), &vec(y), &y_naive);
    let of_filters = vec(filters.grad(&grads).expect("a gradient"));
    close_sums(of_filters.rounding, &format!("{what} dweight"), &of_filters, &dw_naive, &squares_of_weight);
    if gated {
        let found = vec(gates.grad(&grads).expect("a gradient"));
        close_sums(found.rounding, &format!("{what} dgate"), &found, &of_gate, &squares_of_gate);
    }
    check_norm_gradients(&what, &map, &grads, naive.gradients(&of_read));
}

/// Checks the global average pool of a map and its gradients.
pub(crate) fn check_norm_act_means(ground: &Ground, shape: [usize; 4], activation: Activation, case: u64) {
    let mut rng = rng(5000 + case);
    let [batch, channels, height, width] = shape;
    let naive = NaiveNorm::random(shape, 2, activation, &mut rng);
    let dm = random(&mut rng, batch * channels);
    let map = naive.deferred(ground);
    let means = map.clone().global_average_pool();
    let grads = (means.clone() * ground.tensor(&dm, [batch, channels])).sum().backward();
    let plane = height * width;
    let of_plane = |plane: &[f64]| plane.iter().sum::<f64>() / plane.len() as f64;
    let expected: Vec<f64> = naive.output().chunks(plane).map(of_plane).collect();
    close("means", &vec(means), &expected);
    let dy: Vec<f64> = (0..naive.x.len()).map(|at| f64::from(dm[at / plane]) / plane as f64).collect();
    check_norm_gradients(&format!("means {activation:?}"), &map, &grads, naive.gradients(&dy));
}

/// Checks the sum of a map and a shortcut and its gradients. Each of five samples has a factor, as with stochastic depth. If `again`,
/// `x` is recomputed in the backward pass, otherwise it is kept.
pub(crate) fn check_norm_act_add(ground: &Ground, channels: usize, activation: Activation, again: bool, case: u64) {
    let mut rng = rng(6000 + case);
    let shape @ [batch, _, height, width] = [5, channels, 6, 7];
    let naive = NaiveNorm::random(shape, 2, Activation::Identity, &mut rng);
    let (other, dy) = (random(&mut rng, naive.x.len()), random(&mut rng, naive.x.len()));
    let factor = |at: usize| [0.0, 1.25, 1.25, 0.5, 1.0][at / (channels * height * width)];
    let shortcut = ground.map(&other, shape).require_grad();
    let mut map = naive.deferred(ground);
    let factors: Vec<f32> = (0..batch).map(|at| factor(at * channels * height * width) as f32).collect();
    let plain = ground.device.clone().without_autodiff();
    let factors = Tensor::<2>::from_data(TensorData::new(factors, [batch, 1]), &plain);
    map.gate = Some(factors.expand([batch, channels]));
    let x = map.x.clone().inner();
    map.how.rebuild = again.then(|| Rebuild(Arc::new(move || x.clone())));
    let y = map.clone().residual_add(shortcut.clone(), activation);
    let grads = ground.weighed(y.clone(), &dy).backward();

    let branch = naive.output();
    let sum = |at: usize| branch[at] * factor(at) + f64::from(other[at]);
    let expected: Vec<f64> = (0..branch.len()).map(|at| reference(activation, sum(at)).0).collect();
    let of_sum: Vec<f64> = (0..branch.len()).map(|at| f64::from(dy[at]) * reference(activation, sum(at)).1).collect();
    let of_branch: Vec<f64> = of_sum.iter().enumerate().map(|(at, of)| of * factor(at)).collect();
    let what = format!("sum {activation:?}, again {again}");
    close(&format!("{what} y"), &vec(y), &expected);
    close(&format!("{what} dshortcut"), &vec(shortcut.grad(&grads).expect("a gradient")), &of_sum);
    check_norm_gradients(&what, &map, &grads, naive.gradients(&of_branch));
}

/// Checks max pooling of a map and its gradients.
pub(crate) fn check_norm_act_max_pool(
    ground: &Ground,
    [height, width]: [usize; 2],
    Pooling { kernel, stride, padding }: Pooling,
    case: u64,
) {
    let mut rng = rng(7000 + case);
    let naive = NaiveNorm::random([3, 2, height, width], 2, Activation::HardSwish, &mut rng);
    let out = [height, width].map(|size| (size + 2 * padding - kernel) / stride + 1);
    let dy = random(&mut rng, 3 * 2 * out[0] * out[1]);
    let map = naive.deferred(ground);
    let y = map.clone().max_pooled(Pooling { kernel, stride, padding });
    let shape = [3, 2, out[0], out[1]];
    assert_eq!(y.dims(), shape);
    let grads = ground.weighed(y.clone(), &dy).backward();

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
