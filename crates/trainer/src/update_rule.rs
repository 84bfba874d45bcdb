//! Update rules: the new values of parameters, from their gradients and states.

use burn::optim::Sgd;
use burn::tensor::Tensor;
use kindling_ops::reserve;

/// Numbers that an update of SGD makes for each weight beside the old ones: the weight, its velocity and what will be subtracted.
const NEW_NUMBERS: usize = 3;

/// An update rule of Burn that takes the parameters of a model together.
pub(crate) trait Rule: burn::optim::Optimizer + Clone {
    /// The new values and states of parameters after one update, whose gradients are multiplied by `scale` first.
    fn update(&self, rate: f64, scale: f64, parameters: Vec<Parameter<Self>>) -> Vec<Updated<Self>>;
}

/// A parameter with its gradient and its state, `[n]` and not on a gradient graph.
pub(crate) struct Parameter<R: Rule> {
    pub(crate) weight: Tensor<1>,
    pub(crate) gradient: Tensor<1>,
    pub(crate) state: Option<R::State<1>>,
}

/// The new value and state of a parameter.
pub(crate) type Updated<R> = (Tensor<1>, Option<<R as burn::optim::Optimizer>::State<1>>);

/// [`Rule::update`] for a rule that updates one parameter at a time.
pub(crate) fn one_after_the_other<R: Rule>(
    rule: &R,
    rate: f64,
    scale: f64,
    parameters: Vec<Parameter<R>>,
) -> Vec<Updated<R>> {
    let update = |Parameter { weight, gradient, state }: Parameter<R>| {
        let gradient = if scale == 1.0 { gradient } else { gradient.mul_scalar(scale) };
        reserve::like(&weight, NEW_NUMBERS * weight.shape().num_elements());
        rule.step(rate, weight, gradient, state)
    };
    parameters.into_iter().map(update).collect()
}

impl Rule for Sgd {
    fn update(&self, rate: f64, scale: f64, parameters: Vec<Parameter<Self>>) -> Vec<Updated<Self>> {
        one_after_the_other(self, rate, scale, parameters)
    }
}
