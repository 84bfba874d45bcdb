//! Optimizers: an update rule with the state of each parameter, by name.
//!
//! The rules are Burn's; what is added is that an update is a function: it returns a new model and a new optimizer and
//! leaves the old ones alone, so that a step that turns out bad has changed nothing. States are kept by parameter name
//! and flattened to one dimension (every rule here works element by element), which makes them easy to save.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{RecordState, Sgd, SgdConfig, StateSource};
use burn::tensor::Device;
use burn_pack::Scalar;
use kindling_layers::parameters::{self, Flat};
use kindling_layers::tensors::Tensors;

use crate::adamw::OnePassAdamW;
use crate::config::OptimizerConfig;
use crate::gradients::GradientSum;
use crate::parts::{Counters, OfStates, Part};
use crate::update_rule::{Parameter, Rule};

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

impl<R: Rule> Stateful<R> {
    /// The same rules with other states.
    fn with(&self, states: BTreeMap<String, R::State<1>>) -> Self {
        Self { decayed: self.decayed.clone(), plain: self.plain.clone(), states }
    }

    fn update<M: Module>(&self, model: M, mut gradients: GradientSum, rate: f64, scale: f64) -> (M, Self) {
        let mut states = self.states.clone();
        // Scales, shifts and biases are vectors; only matrices and filters decay.
        let (mut decayed, mut plain) = (vec![], vec![]);
        for Flat { id, name, shape, values: weight } in parameters::flat(&model, |id| gradients.has(id)) {
            let Some(gradient) = gradients.take(id) else { continue };
            let parameter = Parameter { weight, gradient, state: states.remove(&name) };
            let found = if shape.len() > 1 { &mut decayed } else { &mut plain };
            found.push(((id, name), parameter));
        }
        let mut weights = BTreeMap::new();
        for (rule, found) in [(&self.decayed, decayed), (&self.plain, plain)] {
            let (places, parameters): (Vec<_>, Vec<_>) = found.into_iter().unzip();
            for ((id, name), (weight, state)) in places.into_iter().zip(rule.update(rate, scale, parameters)) {
                weights.insert(id, weight);
                states.extend(state.map(|state| (name, state)));
            }
        }
        (parameters::replace(model, weights), self.with(states))
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
