//! Inverted residual blocks in inference, which the CPU alone has, against naive float64 sums.

use burn::tensor::{FloatDType, Tensor};
use kindling_ops::{
    Activation, Deferred, InvertedResidualShape, Normalisation, NormedConvolution, conv, dense, expanded_depthwise,
    inverted_residual,
};
use kindling_random::Rng;

use crate::naive::convolutions::Case;
use crate::naive::norm::reference;
use crate::naive::{Ground, close, random, rng, vec};

const EPSILON: f64 = 1e-3;

/// A block: its depthwise convolution, and the channels before and after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) depthwise: Case,
    /// As many as those of the depthwise convolution if there is no expansion.
    pub(crate) input: usize,
    /// 0 if the middle of the block is asked for.
    pub(crate) output: usize,
    pub(crate) activation: Activation,
}

impl Block {
    /// The shape that the operations divide into bands.
    pub(crate) fn shape(&self) -> InvertedResidualShape {
        let Case { input: channels, height, width, kernel, stride, dilation, out, .. } = self.depthwise;
        InvertedResidualShape {
            input: [self.input, height, width],
            middle: [channels, out[0], out[1]],
            output: self.output,
            reach: (kernel - 1) * dilation + 1,
            stride,
        }
    }

    fn expand(&self) -> Case {
        let Case { batch, input: channels, height, width, .. } = self.depthwise;
        Case::dense([batch, self.input, height, width], channels, 1, 1, 0)
    }

    fn project(&self) -> Case {
        Case::dense(self.depthwise.output_shape(), self.output, 1, 1, 0)
    }
}

/// A convolution and what follows it, as numbers.
struct Layer {
    case: Case,
    filters: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    /// Means, then variances.
    statistics: Vec<f32>,
    activation: Activation,
}

impl Layer {
    fn random(case: Case, activation: Activation, rng: &mut Rng) -> Self {
        let channels = case.output;
        let mut statistics = random(rng, 2 * channels);
        statistics[channels..].iter_mut().for_each(|variance| *variance += 2.5);
        let filters = random(rng, case.filters().iter().product());
        Self { case, filters, weight: random(rng, channels), bias: random(rng, channels), statistics, activation }
    }

    fn convolved(&self, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; self.case.output_shape().iter().product()];
        self.case.products(|output, input, weight| y[output] += x[input] * f64::from(self.filters[weight]));
        y
    }

    fn normalised(&self, y: &[f64]) -> Vec<f64> {
        let (plane, channels) = (self.case.out[0] * self.case.out[1], self.case.output);
        let of = |(at, value): (usize, &f64)| {
            let channel = at / plane % channels;
            let [mean, variance] = [0, channels].map(|part| f64::from(self.statistics[part + channel]));
            let scaled = (value - mean) / (variance + EPSILON).sqrt() * f64::from(self.weight[channel]);
            reference(self.activation, scaled + f64::from(self.bias[channel])).0
        };
        y.iter().enumerate().map(of).collect()
    }

    fn on(&self, ground: &Ground) -> NormedConvolution {
        let channels = self.case.output;
        NormedConvolution {
            filters: ground.tensor(&self.filters, self.case.filters()),
            weight: ground.tensor(&self.weight, [channels]),
            bias: ground.tensor(&self.bias, [channels]),
            statistics: ground.tensor(&self.statistics, [2, 1, channels]),
            epsilon: EPSILON,
            activation: self.activation,
        }
    }
}

/// What a layer made, as the next one reads it.
fn behind(layer: NormedConvolution, x: Tensor<4>) -> Deferred {
    let NormedConvolution { weight, bias, statistics, epsilon, activation, .. } = layer;
    let how = Normalisation { groups: vec![x.dims()[0]], epsilon, activation, rebuild: None };
    Deferred { x, weight, bias, statistics, how, gate: None }
}

/// Checks a block against naive sums, and against the operations that compute one map after the other: to the last bit where bands
/// promise it. In half formats the latter alone, since those operations are compared with their sums.
pub(crate) fn check_inverted_residual(ground: &Ground, block: &Block, number: u64) {
    let mut rng = rng(number);
    let ground = Ground { device: ground.device.clone().without_autodiff(), ..ground.clone() };
    let Case { batch, input: channels, height, width, .. } = block.depthwise;
    let of_input = [batch, block.input, height, width];
    let x = random(&mut rng, of_input.iter().product());
    let expand = (block.input != channels).then(|| Layer::random(block.expand(), block.activation, &mut rng));
    let depthwise = Layer::random(block.depthwise, block.activation, &mut rng);
    let project = (block.output > 0).then(|| Layer::random(block.project(), Activation::Identity, &mut rng));

    let mut naive: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    if let Some(expand) = &expand {
        naive = expand.normalised(&expand.convolved(&naive));
    }
    naive = depthwise.convolved(&naive);
    if let Some(project) = &project {
        naive = project.convolved(&depthwise.normalised(&naive));
    }

    let (map, convolution, places) =
        (ground.map(&x, of_input), block.depthwise.convolution(), block.depthwise.places());
    let middle = match &expand {
        Some(expand) => {
            let expanded = dense(map.clone(), expand.on(&ground).filters, block.expand().places());
            behind(expand.on(&ground), expanded).convolved(depthwise.on(&ground).filters, convolution)
        }
        None => conv(map.clone(), depthwise.on(&ground).filters, convolution),
    };
    let (found, one_by_one) = match (&project, &expand) {
        (Some(project), expand) => {
            let filters = project.on(&ground).filters;
            let expand = expand.as_ref().map(|expand| expand.on(&ground));
            (
                inverted_residual(map, expand, depthwise.on(&ground), places, filters.clone()),
                behind(depthwise.on(&ground), middle).convolved(filters, block.project().convolution()),
            )
        }
        (None, Some(expand)) => {
            let (found, means) = expanded_depthwise(map, expand.on(&ground), depthwise.on(&ground), places);
            let one_by_one = behind(depthwise.on(&ground), middle).stored();
            if block.shape().is_in_bands() {
                let expected = one_by_one.clone().global_average_pool();
                assert!(vec(means) == vec(expected), "{block:?} has other means than its layers");
            }
            naive = depthwise.normalised(&naive);
            (found.whole(), one_by_one.whole())
        }
        (None, None) => panic!("{block:?} is a depthwise convolution"),
    };
    assert_eq!(found.dims(), one_by_one.dims(), "{block:?}");
    let halves = matches!(ground.format, FloatDType::BF16 | FloatDType::F16);
    let [found, one_by_one] = [found, one_by_one].map(|y| vec(if halves { y.cast(FloatDType::F32) } else { y }));
    if !halves {
        close(&format!("{block:?}"), &found, &naive);
    }
    if block.shape().is_in_bands() {
        assert!(found == one_by_one, "{block:?} has other bits than its layers");
    }
}
