//! Walks over a model's tensors.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor};

/// A copy of a model that shares nothing with it that a forward pass may change.
///
/// Burn's `RunningState`, which holds the statistics of `burn::nn::BatchNorm`, is one for all clones of a model; going to
/// validation and back makes a new one. The weights are new leaves of the same tensors and cost nothing.
pub(crate) fn private_copy<M: Module>(model: &M, device: &Device) -> M {
    model.valid().train().fork(device)
}

/// Adds `share` times the gradients `from` to `sum`.
pub(crate) fn accumulate<M: Module>(model: &M, sum: &mut GradientsParams, from: GradientsParams, share: f64) {
    struct Add<'a> {
        sum: &'a mut GradientsParams,
        from: GradientsParams,
        share: f64,
    }
    impl ModuleVisitor for Add<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some(gradient) = self.from.remove::<D>(param.id) else { return };
            let gradient = if self.share == 1.0 { gradient } else { gradient * self.share };
            let gradient = match self.sum.remove::<D>(param.id) {
                Some(known) => known + gradient,
                None => gradient,
            };
            self.sum.register(param.id, gradient);
        }
    }
    model.visit(&mut Add { sum, from, share });
}

/// The same gradients once more; their tensors are shared.
pub(crate) fn copy<M: Module>(model: &M, gradients: &GradientsParams) -> GradientsParams {
    struct Copy<'a> {
        from: &'a GradientsParams,
        to: GradientsParams,
    }
    impl ModuleVisitor for Copy<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.from.get::<D>(param.id) {
                self.to.register(param.id, gradient);
            }
        }
    }
    let mut copy = Copy { from: gradients, to: GradientsParams::new() };
    model.visit(&mut copy);
    copy.to
}

/// The sums of the squares of a model's tensors and of gradients, each `[1]` in float32 on the plain device: they cannot
/// be read unless all of them are there.
pub(crate) fn squares<M: Module>(model: &M, gradients: &GradientsParams) -> Vec<Tensor<1>> {
    struct Squares<'a> {
        gradients: &'a GradientsParams,
        all: Vec<Tensor<1>>,
    }
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.all.push(square(param.val()));
            self.all.extend(self.gradients.get::<D>(param.id).map(square));
        }
    }
    let mut squares = Squares { gradients, all: Vec::new() };
    model.visit(&mut squares);
    squares.all
}

fn square<const D: usize>(tensor: Tensor<D>) -> Tensor<1> {
    tensor.without_autodiff().square().sum().cast(DType::F32).reshape([1])
}

/// The running states a model was left with: among its float tensors without gradients, by identity and flat. Frozen
/// weights are among them and do no harm.
pub(crate) struct RunningStates(BTreeMap<ParamId, Tensor<1>>);

impl RunningStates {
    /// Those of `model`.
    pub(crate) fn of<M: Module>(model: &M) -> Self {
        struct Collect(BTreeMap<ParamId, Tensor<1>>);
        impl ModuleVisitor for Collect {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                let value = param.val();
                if !value.is_require_grad() {
                    let length = value.shape().num_elements();
                    self.0.insert(param.id, value.detach().reshape([length]));
                }
            }
        }
        // The last update waits on the thread that made it until someone asks; this asks.
        drop(model.valid());
        let mut collect = Collect(BTreeMap::new());
        model.visit(&mut collect);
        Self(collect.0)
    }

    /// One for each, as [`squares`].
    pub(crate) fn squares(&self) -> Vec<Tensor<1>> {
        self.0.values().cloned().map(square).collect()
    }

    /// Puts them into `model` and all its clones. Nothing is computed and nothing can fail.
    pub(crate) fn put<M: Module>(self, model: M) {
        struct Put(BTreeMap<ParamId, Tensor<1>>);
        impl ModuleMapper for Put {
            fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
                let Some(value) = self.0.remove(&param.id) else { return param };
                let shape = param.shape();
                param.map(|_| value.reshape(shape))
            }
        }
        // A running state is changed in place; what this makes of parameters is thrown away.
        drop(model.map(&mut Put(self.0)));
    }
}
