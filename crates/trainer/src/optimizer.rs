//! Update rules on named states.
//!
//! The rules are Burn's; what is added is that an update is a function: it returns a new model and a new optimizer and
//! leaves the old ones alone, so that a step that turns out bad has changed nothing. States are kept by parameter name
//! and flattened to one dimension (every rule here works element by element), which makes them easy to save.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{Optimizer as Rule, RecordState, Sgd, SgdConfig, StateSource};
use burn::tensor::{Device, Tensor};
use burn_pack::Scalar;
use kindling_layers::parameters::ModulePath;
use kindling_layers::tensors::Tensors;
use kindling_ops::reserve;

use crate::adamw::OnePassAdamW;
use crate::config::OptimizerConfig;
use crate::gradients::GradientSum;
use crate::parts::{OfStates, Part};

/// Numbers that an update makes for each weight beside the old ones: with AdamW the weight and two moments, with SGD
/// the weight, its velocity and what will be subtracted.
const NEW_NUMBERS: usize = 3;

/// An optimizer and its state.
#[derive(Clone)]
pub(crate) enum Optimizer {
    AdamW(Stateful<OnePassAdamW>),
    Sgd(Stateful<Sgd>),
}

/// A rule for decayed and one for other parameters, with the state of each parameter.
#[derive(Clone)]
pub(crate) struct Stateful<R: Rule> {
    decayed: R,
    plain: R,
    states: BTreeMap<String, R::State<1>>,
}

/// Whole numbers of an optimizer's state by name, as step counters are.
pub(crate) type Counters = BTreeMap<String, i64>;

impl Optimizer {
    pub(crate) fn new(config: OptimizerConfig) -> Self {
        match config {
            OptimizerConfig::AdamW { weight_decay } => {
                let rule = |decay: f64| OnePassAdamW::new([0.9, 0.999], 1e-8, decay as f32);
                Self::AdamW(Stateful { decayed: rule(weight_decay), plain: rule(0.0), states: BTreeMap::new() })
            }
            OptimizerConfig::Sgd { momentum, weight_decay } => {
                let rule = |decay: f64| {
                    let momentum =
                        (momentum > 0.0).then(|| MomentumConfig::new().with_momentum(momentum).with_dampening(0.0));
                    let decay = (decay > 0.0).then(|| WeightDecayConfig::new(decay as f32));
                    SgdConfig::new().with_momentum(momentum).with_weight_decay(decay).build()
                };
                Self::Sgd(Stateful { decayed: rule(weight_decay), plain: rule(0.0), states: BTreeMap::new() })
            }
        }
    }

    /// Adam (Kingma and Ba 2015) without decay and with betas of one's own: two networks against each other want less
    /// momentum than a classifier.
    pub(crate) fn adam(betas: [f64; 2]) -> Self {
        let rule = OnePassAdamW::new(betas.map(|beta| beta as f32), 1e-8, 0.0);
        Self::AdamW(Stateful { decayed: rule.clone(), plain: rule, states: BTreeMap::new() })
    }

    /// One update of every parameter that has a gradient, each gradient multiplied by `scale` first.
    pub(crate) fn update<M: Module>(&self, model: M, gradients: GradientSum, rate: f64, scale: f64) -> (M, Self) {
        match self {
            Self::AdamW(rule) => {
                let (model, rule) = rule.update(model, gradients, rate, scale);
                (model, Self::AdamW(rule))
            }
            Self::Sgd(rule) => {
                let (model, rule) = rule.update(model, gradients, rate, scale);
                (model, Self::Sgd(rule))
            }
        }
    }

    /// How many numbers are kept for each one of the parameter of a name, so far.
    pub(crate) fn numbers_kept(&self) -> impl Fn(&str) -> u64 {
        move |name| match self {
            Self::AdamW(rule) => 2 * u64::from(rule.states.contains_key(name)),
            Self::Sgd(rule) => u64::from(rule.states.contains_key(name)),
        }
    }

    /// The state, to be saved; counters get names behind `prefix`.
    pub(crate) fn part<'a>(&'a self, prefix: &'a str) -> Box<dyn Part + 'a> {
        match self {
            Self::AdamW(rule) => Box::new(OfStates::<OnePassAdamW> { states: &rule.states, prefix }),
            Self::Sgd(rule) => Box::new(OfStates::<Sgd> { states: &rule.states, prefix }),
        }
    }

    /// This optimizer without a state.
    pub(crate) fn emptied(&self) -> Self {
        match self {
            Self::AdamW(rule) => Self::AdamW(rule.with(BTreeMap::new())),
            Self::Sgd(rule) => Self::Sgd(rule.with(BTreeMap::new())),
        }
    }

    /// This optimizer with a saved state, for the parameters of these names; `None` if it is another rule's state.
    pub(crate) fn load(
        &self,
        names: &[String],
        tensors: Tensors,
        counters: &Counters,
        device: &Device,
    ) -> Option<Self> {
        match self {
            Self::AdamW(rule) => rule.load(names, tensors, counters, device).map(Self::AdamW),
            Self::Sgd(rule) => rule.load(names, tensors, counters, device).map(Self::Sgd),
        }
    }
}

impl<R: Rule + Clone> Stateful<R> {
    /// The same rules with other states.
    fn with(&self, states: BTreeMap<String, R::State<1>>) -> Self {
        Self { decayed: self.decayed.clone(), plain: self.plain.clone(), states }
    }

    fn update<M: Module>(&self, model: M, gradients: GradientSum, rate: f64, scale: f64) -> (M, Self) {
        let mut update =
            Update { rule: self, path: ModulePath::default(), gradients, rate, scale, states: self.states.clone() };
        let model = model.map(&mut update);
        let states = update.states;
        (model, self.with(states))
    }

    fn load(&self, names: &[String], tensors: Tensors, counters: &Counters, device: &Device) -> Option<Self> {
        let scalars = counters.iter().map(|(name, value)| (name.clone(), Scalar::UInt(*value as u64))).collect();
        let mut source = StateSource::new(scalars);
        for (name, data) in tensors {
            source.insert_tensor(name, data);
        }
        let mut states = BTreeMap::new();
        for name in names.iter().filter(|name| source.has_under(name)).cloned().collect::<Vec<_>>() {
            let state = R::State::<1>::state_unflatten(&name, &mut source, device)?;
            states.insert(name, state);
        }
        Some(self.with(states))
    }
}

struct Update<'a, R: Rule> {
    rule: &'a Stateful<R>,
    path: ModulePath,
    gradients: GradientSum,
    rate: f64,
    scale: f64,
    states: BTreeMap<String, R::State<1>>,
}

impl<R: Rule> ModuleMapper for Update<'_, R> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.path.enter(name, container);
    }

    fn exit_module(&mut self, _name: &str, container: &str) {
        self.path.exit(container);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.gradients.take(param.id) else { return param };
        let gradient = if self.scale == 1.0 { gradient } else { gradient.mul_scalar(self.scale) };
        let name = self.path.to_string();
        // Scales, shifts and biases are vectors; only matrices and filters decay.
        let rule = if D > 1 { &self.rule.decayed } else { &self.rule.plain };
        let state = self.states.remove(&name);
        let mut new_state = None;
        let param = param.map(|weight| {
            let shape = weight.shape();
            let flat = weight.inner().reshape([shape.num_elements()]);
            reserve::announce_like(&flat, NEW_NUMBERS * shape.num_elements());
            let (flat, state) = rule.step(self.rate, flat, gradient, state);
            new_state = state;
            Tensor::from_inner(flat.reshape(shape)).require_grad()
        });
        if let Some(state) = new_state {
            self.states.insert(name, state);
        }
        param
    }
}
