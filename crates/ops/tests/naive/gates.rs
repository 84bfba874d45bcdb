//! Global average pool, and multiplication of channels.

use kindling_ops::{channel_multiply, global_average_pool};

use super::{Ground, close, random, rng, vec};

/// Checks both operations and their gradients.
pub(crate) fn check_pool_and_multiply(ground: &Ground, shape: [usize; 4], case: u64) {
    let mut rng = rng(2000 + case);
    let [batch, channels, height, width] = shape;
    let plane = height * width;
    let (x, dy) = (random(&mut rng, batch * channels * plane), random(&mut rng, batch * channels * plane));
    let (gate, dm) = (random(&mut rng, batch * channels), random(&mut rng, batch * channels));
    let vector = |values: &[f32]| ground.tensor(values, [batch, channels]);
    let (xt, gt) = (ground.map(&x, shape).require_grad(), vector(&gate).require_grad());
    let (mean, y) = (global_average_pool(xt.clone()), channel_multiply(xt.clone(), gt.clone()));
    let loss = (mean.clone() * vector(&dm)).sum() + ground.weighed(y.clone(), &dy);
    let grads = loss.backward();

    let of = |index: usize| index / plane;
    let sums = |term: &dyn Fn(usize) -> f64| -> Vec<f64> {
        (0..batch * channels).map(|at| (at * plane..(at + 1) * plane).map(term).sum()).collect()
    };
    let naive_mean: Vec<f64> = sums(&|i| f64::from(x[i])).iter().map(|sum| sum / plane as f64).collect();
    let naive_y: Vec<f64> = (0..x.len()).map(|i| f64::from(x[i]) * f64::from(gate[of(i)])).collect();
    let naive_dx: Vec<f64> =
        (0..x.len()).map(|i| f64::from(dy[i]) * f64::from(gate[of(i)]) + f64::from(dm[of(i)]) / plane as f64).collect();
    close(&format!("mean of {shape:?}"), &vec(mean), &naive_mean);
    close(&format!("scaled {shape:?}"), &vec(y), &naive_y);
    close(&format!("dx of {shape:?}"), &vec(xt.grad(&grads).expect("a gradient")), &naive_dx);
    let naive_dgate = sums(&|i| f64::from(x[i]) * f64::from(dy[i]));
    close(&format!("dgate of {shape:?}"), &vec(gt.grad(&grads).expect("a gradient")), &naive_dgate);
}
