//! The sums of a step in host memory, as the ranks of a run exchange them.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Device, Tensor, TensorData};
use kindling_layers::host;
use kindling_layers::pass::BatchStatistics;
use serde::{Deserialize, Serialize};

use crate::gradients::GradientSum;
use crate::sums::Sums;

/// The sums of a step over all ranks, in host memory.
pub(crate) struct Shared {
    pub(crate) step: u64,
    pub(crate) groups: usize,
    pub(crate) layout: Layout,
    pub(crate) numbers: Vec<f32>,
}

/// What stands behind each other in a vector of sums, by the places of a model's tensors in its own order, which is the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// Those that have a gradient.
    gradients: Vec<usize>,
    /// Running statistics that move, each with its momentum as the bits of a float64.
    statistics: Vec<(usize, u64)>,
    /// How many other numbers follow.
    numbers: usize,
}

/// The float tensors of a model in its own order, with their lengths.
pub(crate) struct Tensors(Vec<(ParamId, usize)>);

impl Tensors {
    pub(crate) fn of<M: Module>(model: &M) -> Self {
        struct Lengths(Vec<(ParamId, usize)>);
        impl ModuleVisitor for Lengths {
            fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
                self.0.push((param.id, param.val().shape().num_elements()));
            }
        }
        let mut lengths = Lengths(Vec::new());
        model.visit(&mut lengths);
        Self(lengths.0)
    }

    fn places(&self) -> impl Iterator<Item = (usize, ParamId)> {
        self.0.iter().map(|(id, _)| *id).enumerate()
    }
}

impl Layout {
    pub(crate) fn of(sums: &Sums, tensors: &Tensors) -> Self {
        let momentum = |id| sums.statistics.momentum(id).map(f64::to_bits);
        Self {
            gradients: tensors.places().filter(|(_, id)| sums.gradients.get(*id).is_some()).map(|(at, _)| at).collect(),
            statistics: tensors.places().filter_map(|(at, id)| Some((at, momentum(id)?))).collect(),
            numbers: sums.numbers.len(),
        }
    }

    /// Floats of a vector.
    pub(crate) fn length(&self, tensors: &Tensors) -> usize {
        let places = self.gradients.iter().chain(self.statistics.iter().map(|(at, _)| at));
        places.map(|at| tensors.0[*at].1).sum::<usize>() + self.numbers
    }
}

/// Sums as one vector, `[n]`, so that they move in one transfer.
pub(crate) fn joined(layout: &Layout, sums: Sums, tensors: &Tensors) -> Result<Tensor<1>, String> {
    let Sums { gradients, statistics, numbers } = sums;
    let lacking = || "a group has other gradients than the first".to_owned();
    let gradients = layout.gradients.iter().map(|at| gradients.get(tensors.0[*at].0).ok_or_else(lacking));
    let statistics = layout.statistics.iter().map(|(at, _)| statistics.sum(tensors.0[*at].0).ok_or_else(lacking));
    let numbers = numbers.into_iter().map(|number| Ok(number.reshape([1])));
    let all = gradients.chain(statistics).chain(numbers).collect::<Result<Vec<_>, _>>()?;
    Ok(Tensor::cat(all, 0))
}

/// Reads a vector to the host.
pub(crate) fn on_host(vector: Tensor<1>) -> Result<Vec<f32>, String> {
    let data = host::read(vector)?;
    match data.dtype() {
        DType::F32 => data.try_to_vec::<f32>().map_err(|error| format!("{error:?}")),
        other => Err(format!("several processes add gradients in float32, not in {other:?}")),
    }
}

impl Shared {
    /// These sums as tensors on a device, each of its own.
    pub(crate) fn on(&self, tensors: &Tensors, device: &Device) -> Sums {
        let Self { groups, layout, numbers, .. } = self;
        let mut rest = numbers.as_slice();
        let mut next = |length: usize| {
            let (values, others) = rest.split_at(length);
            rest = others;
            Tensor::<1>::from_data(TensorData::new(values.to_vec(), [length]), device)
        };
        let gradients = layout.gradients.iter().map(|at| {
            let (id, length) = tensors.0[*at];
            (id, next(length))
        });
        let gradients = GradientSum::of(tensors.places().map(|(_, id)| id).collect(), gradients.collect());
        let mut statistics = BatchStatistics::default();
        for (at, momentum) in &layout.statistics {
            let (id, length) = tensors.0[*at];
            statistics.add(id, next(length), *groups, f64::from_bits(*momentum));
        }
        let numbers = (0..layout.numbers).map(|_| next(1)).collect();
        Sums { gradients, statistics, numbers }
    }
}
