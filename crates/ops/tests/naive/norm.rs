//! Normalisation and activation in float64, from their definitions.

use burn::tensor::{Device, Gradients, Tensor, TensorData};
use kindling_layers::pass::normalisation_groups;
use kindling_ops::Activation;
use kindling_ops::{Deferred, Normalisation, statistics, sums_over_groups};
use kindling_random::Rng;

use super::{Ground, close, close_to_scale, largest, random, rng, vec};

/// The activation and its derivative in float64, from their definitions.
pub(crate) fn reference(activation: Activation, x: f64) -> (f64, f64) {
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

/// Where the derivative of an activation jumps or has a corner.
fn corners(activation: Activation) -> &'static [f64] {
    match activation {
        Activation::Identity | Activation::Sigmoid | Activation::Silu | Activation::Tanh => &[],
        Activation::Relu | Activation::LeakyRelu => &[0.0],
        Activation::Relu6 => &[0.0, 6.0],
        Activation::HardSigmoid | Activation::HardSwish => &[-3.0, 3.0],
    }
}

pub(crate) const ACTIVATIONS: [Activation; 9] = [
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

/// A normalisation with random parameters, computed naively in float64.
pub(crate) struct NaiveNorm {
    pub(crate) shape: [usize; 4],
    groups: Vec<usize>,
    pub(crate) x: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    activation: Activation,
}

/// The gradients of a normalisation.
pub(crate) struct NormGradients {
    dx: Vec<f64>,
    /// The largest of the first terms of `dx`, of which others are subtracted.
    size: f64,
    dw: Vec<f64>,
    db: Vec<f64>,
}

const EPSILON: f64 = 1e-3;

/// The least distance of a value from a corner of its activation: more than float32 rounds by, because gradients on the two sides of a
/// corner are not close.
const FROM_CORNERS: f64 = 1e-4;

impl NaiveNorm {
    /// A normalisation with random statistics and parameters, whose values keep away from the corners of the activation.
    pub(crate) fn random(shape: [usize; 4], group: usize, activation: Activation, rng: &mut Rng) -> Self {
        let [batch, channels, ..] = shape;
        let x = random(rng, shape.iter().product());
        let (weight, bias) = (random(rng, channels), random(rng, channels));
        let mut norm = Self { shape, groups: normalisation_groups(batch, group), x, weight, bias, activation };
        loop {
            let near = norm.channels_near_corners();
            if !near.contains(&true) {
                return norm;
            }
            let biases = norm.bias.iter_mut().zip(near).filter(|(_, near)| *near);
            biases.for_each(|(bias, _)| *bias = random(rng, 1)[0]);
        }
    }

    fn channels_near_corners(&self) -> Vec<bool> {
        let corners = corners(self.activation);
        let mut near = vec![false; self.bias.len()];
        self.channels(|places, channel, normal, _| {
            let (weight, bias) = (f64::from(self.weight[channel]), f64::from(self.bias[channel]));
            let is_near = |at| corners.iter().any(|corner| (normal(at) * weight + bias - corner).abs() < FROM_CORNERS);
            near[channel] |= places.iter().any(|&at| is_near(at));
        });
        near
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

    /// The normalised, activated map.
    pub(crate) fn output(&self) -> Vec<f64> {
        let mut y = vec![0.0; self.x.len()];
        self.channels(|places, channel, normal, _| {
            let (weight, bias) = (f64::from(self.weight[channel]), f64::from(self.bias[channel]));
            places.iter().for_each(|&at| y[at] = reference(self.activation, normal(at) * weight + bias).0);
        });
        y
    }

    /// The gradients of the map, scale and shift for the gradient of the output.
    pub(crate) fn gradients(&self, dy: &[f64]) -> NormGradients {
        let mut size = 0.0f64;
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
                size = size.max((weight * inverse * dz(at)).abs());
                dx[at] = weight * inverse * (dz(at) - sum / count - normal(at) * weighted / count);
            }
        });
        NormGradients { dx, size, dw, db }
    }

    /// The same normalisation as tensors that need gradients.
    pub(crate) fn deferred(&self, ground: &Ground) -> Deferred {
        let vector = |values: &[f32]| ground.tensor(values, [values.len()]).require_grad();
        let x = ground.map(&self.x, self.shape).require_grad();
        let statistics = statistics(x.clone().inner(), self.groups.clone());
        let how =
            Normalisation { groups: self.groups.clone(), epsilon: EPSILON, activation: self.activation, rebuild: None };
        Deferred { x, weight: vector(&self.weight), bias: vector(&self.bias), statistics, how, gate: None }
    }
}

/// Compares the gradients of a map's tensors with the naive ones.
pub(crate) fn check_norm_gradients(what: &str, map: &Deferred, grads: &Gradients, expected: NormGradients) {
    let NormGradients { dx, size, dw, db } = expected;
    // As shares of the terms, of which almost nothing is left where few values are normalised: of two, the gradient depends on epsilon alone.
    let found = vec(map.x.grad(grads).expect("a gradient"));
    let scale = largest(dx.iter().copied().chain([size]));
    close_to_scale(found.rounding, scale, &format!("{what} dx"), &found, &dx);
    // Both are sums of terms of one size. They are compared as shares of the larger one, because the terms of a sum can cancel to
    // almost nothing, while their rounding does not.
    let mut found = vec(map.weight.grad(grads).expect("a gradient"));
    found.numbers.extend(vec(map.bias.grad(grads).expect("a gradient")).numbers);
    close(&format!("{what} dw and db"), &found, &[dw, db].concat());
}

/// The sums over groups of means, and of variances without bias: of one group and of several, of one number a channel, and of more
/// channels than a cube has units.
pub(crate) fn check_sums_over_groups(device: &Device) {
    let device = device.clone().without_autodiff();
    let mut rng = rng(7600);
    for (groups, pixels, channels) in [(vec![1], 1, 3), (vec![4], 6, 1), (vec![3, 2, 2], 35, 300), (vec![8; 4], 1, 257)]
    {
        let values = random(&mut rng, 2 * groups.len() * channels);
        let data = TensorData::new(values.clone(), [2, groups.len(), channels]);
        let found = sums_over_groups(&Tensor::from_data(data, &device), &groups, pixels).map(|sums| vec(sums).numbers);
        let sum = |which: usize, channel: usize, factor: &dyn Fn(f64) -> f64| -> f64 {
            let of = |group: usize| f64::from(values[(which * groups.len() + group) * channels + channel]);
            groups.iter().enumerate().map(|(group, size)| of(group) * factor((size * pixels) as f64)).sum()
        };
        for channel in 0..channels {
            let unbiased = |count: f64| if count > 1.0 { count / (count - 1.0) } else { 1.0 };
            let expected = [sum(0, channel, &|_| 1.0), sum(1, channel, &unbiased)];
            for (found, expected) in found.each_ref().map(|sums| sums[channel]).into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{found} instead of {expected} of groups {groups:?}");
            }
        }
    }
}
