//! Gradients of the rows of a batch, and their sums.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{Gradients, Tensor};
use kindling_ops::{self as ops, plain};

/// The backward pass of a loss that is multiplied by `scale` for it.
pub fn backward(loss: &Tensor<1>, scale: f64) -> Gradients {
    match scale {
        1.0 => loss.backward(),
        factor => loss.clone().mul_scalar(factor).backward(),
    }
}

/// The gradient of every parameter that has one, flattened, on the plain device.
#[derive(Clone, Debug, Default)]
pub struct GradientSum {
    of: BTreeMap<ParamId, Tensor<1>>,
    /// The parameters in the model's own order. Identities are drawn anew in every process, and a sum in their order
    /// would differ from run to run.
    order: Vec<ParamId>,
}

impl GradientSum {
    /// Adds the gradients a backward pass left for a model.
    pub fn add<M: Module>(&mut self, gradients: Gradients, model: &M) {
        struct Add<'a> {
            from: GradientsParams,
            to: &'a mut GradientSum,
        }
        impl ModuleVisitor for Add<'_> {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let Some(gradient) = self.from.remove::<D>(param.id) else { return };
                let gradient = plain(gradient);
                let length = gradient.shape().num_elements();
                let gradient = gradient.reshape([length]);
                let sum = match self.to.of.remove(&param.id) {
                    Some(known) => known + gradient,
                    None => gradient,
                };
                self.to.of.insert(param.id, sum);
            }
        }
        if self.order.is_empty() {
            self.order = parameters_of(model);
        }
        let from = GradientsParams::from_grads(gradients, model);
        model.visit(&mut Add { from, to: self });
    }

    /// Whether a parameter has a gradient.
    pub(crate) fn has(&self, id: ParamId) -> bool {
        self.of.contains_key(&id)
    }

    /// Gradients by parameter, flattened; `order` is that of the model.
    pub(crate) fn of(order: Vec<ParamId>, of: BTreeMap<ParamId, Tensor<1>>) -> Self {
        Self { of, order }
    }

    /// The gradient of one parameter, flattened, which stays.
    pub(crate) fn get(&self, id: ParamId) -> Option<Tensor<1>> {
        self.of.get(&id).cloned()
    }

    /// The gradient of one parameter, flattened.
    pub fn take(&mut self, id: ParamId) -> Option<Tensor<1>> {
        self.of.remove(&id)
    }

    /// Puts the gradient of one parameter, flattened, in place of what is there.
    pub fn put(&mut self, id: ParamId, gradient: Tensor<1>) {
        self.of.insert(id, gradient);
    }

    /// Adds the gradients of rows that follow, parameter by parameter.
    pub(crate) fn merge(&mut self, mut next: Self) {
        if self.order.is_empty() {
            self.order = std::mem::take(&mut next.order);
        }
        for (id, gradient) in next.of {
            let sum = match self.of.remove(&id) {
                Some(known) => known + gradient,
                None => gradient,
            };
            self.of.insert(id, sum);
        }
    }

    /// Multiplies all gradients by a number.
    pub(crate) fn scale(&mut self, factor: f64) {
        for gradient in self.of.values_mut() {
            *gradient = gradient.clone().mul_scalar(factor);
        }
    }

    /// The sum of the squares of all gradients, `[1]`: it depends on every one of them.
    pub fn squared_norm(&self) -> Option<Tensor<1>> {
        let gradients: Vec<Tensor<1>> = self.order.iter().filter_map(|id| self.of.get(id).cloned()).collect();
        ops::squared_norm(&gradients)
    }
}

/// The float parameters of a model in its own order.
fn parameters_of<M: Module>(model: &M) -> Vec<ParamId> {
    struct Ids(Vec<ParamId>);
    impl ModuleVisitor for Ids {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.id);
        }
    }
    let mut ids = Ids(Vec::new());
    model.visit(&mut ids);
    ids.0
}
