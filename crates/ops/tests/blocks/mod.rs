//! Inverted residual blocks and the ends of blocks in inference, which the CPU alone has, against naive float64 sums.

use burn::tensor::{FloatDType, Tensor};
use kindling_ops::{
    Activation, Deferred, InvertedResidualShape, Normalisation, NormedConvolution, conv, dense, expanded_depthwise,
    inverted_residual, normed_convolution,
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
        self.ended(y, None)
    }

    /// Normalised, added to a shortcut if there is one, and activated.
    fn ended(&self, y: &[f64], shortcut: Option<&Vec<f32>>) -> Vec<f64> {
        let channels = self.case.output;
        let plane = y.len() / (self.case.batch * channels);
        let of = |(at, value): (usize, &f64)| {
            let channel = at / plane % channels;
            let [mean, variance] = [0, channels].map(|part| f64::from(self.statistics[part + channel]));
            let scaled = (value - mean) / (variance + EPSILON).sqrt() * f64::from(self.weight[channel]);
            let added = shortcut.map_or(0.0, |shortcut| f64::from(shortcut[at]));
            reference(self.activation, scaled + f64::from(self.bias[channel]) + added).0
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

/// How blocks end: whether with a shortcut, and the activation.
const ENDS: [(bool, Activation); 4] = [
    (false, Activation::Identity),
    (true, Activation::Relu),
    (false, Activation::HardSwish),
    (true, Activation::Identity),
];

/// A convolution, what reads it, and the sum with a shortcut, one after the other.
fn ended(x: Deferred, layer: NormedConvolution, case: Case, shortcut: Option<Tensor<4>>) -> Tensor<4> {
    let y = x.convolved(layer.filters.clone(), case.convolution());
    match (shortcut, layer.activation) {
        (Some(shortcut), activation) => behind(NormedConvolution { activation: Activation::Identity, ..layer }, y)
            .residual_add(shortcut, activation),
        (None, _) => behind(layer, y).whole(),
    }
}

/// Checks a convolution that ends a block against naive sums, and against the operations one after the other: to the last bit. In half formats
/// against the latter alone.
pub(crate) fn check_end_of_block(ground: &Ground, case: Case, number: u64) {
    let mut rng = rng(number);
    let ground = Ground { device: ground.device.clone().without_autodiff(), ..ground.clone() };
    let before = Case { kernel: 1, stride: 1, dilation: 1, output: case.input, ..case };
    let before = Layer::random(before, Activation::HardSwish, &mut rng);
    for (with_shortcut, activation) in ENDS {
        let layer = Layer::random(case, activation, &mut rng);
        let (of_input, of_output) = ([case.batch, case.input, case.height, case.width], case.output_shape());
        let x = random(&mut rng, of_input.iter().product());
        let shortcut = with_shortcut.then(|| random(&mut rng, of_output.iter().product()));
        let x_wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let naive = layer.ended(&layer.convolved(&before.normalised(&x_wide)), shortcut.as_ref());
        let map = || behind(before.on(&ground), ground.map(&x, of_input));
        let shortcut = shortcut.map(|shortcut| ground.map(&shortcut, of_output));
        let found = normed_convolution(map(), layer.on(&ground), case.convolution(), shortcut.clone());
        let one_by_one = ended(map(), layer.on(&ground), case, shortcut);
        let halves = matches!(ground.format, FloatDType::BF16 | FloatDType::F16);
        let [found, one_by_one] = [found, one_by_one].map(|y| vec(if halves { y.cast(FloatDType::F32) } else { y }));
        if !halves {
            close(&format!("{case:?} {activation:?}"), &found, &naive);
        }
        assert!(found == one_by_one, "{case:?}, {activation:?} has other bits than its operations");
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
    let project = (block.output > 0).then(|| Layer::random(block.project(), ENDS[number as usize % 4].1, &mut rng));
    let shortcut = project.as_ref().filter(|_| ENDS[number as usize % 4].0).map(|project| {
        let shape = project.case.output_shape();
        (random(&mut rng, shape.iter().product()), shape)
    });

    let mut naive: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    if let Some(expand) = &expand {
        naive = expand.normalised(&expand.convolved(&naive));
    }
    naive = depthwise.convolved(&naive);
    if let Some(project) = &project {
        naive = project.ended(&project.convolved(&depthwise.normalised(&naive)), shortcut.as_ref().map(|(map, _)| map));
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
            let shortcut = shortcut.as_ref().map(|(map, shape)| ground.map(map, *shape));
            let expand = expand.as_ref().map(|expand| expand.on(&ground));
            let (depthwise, project) = (depthwise.on(&ground), project.on(&ground));
            let middle = behind(depthwise.clone(), middle);
            (
                inverted_residual(map, expand, depthwise, places, project.clone(), shortcut.clone()),
                ended(middle, project, block.project(), shortcut),
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
