//! The sums of a step over all ranks.
//!
//! A rank has the nodes of the [tree](kindling_processes::tree) that its normalisation groups fill. They are read to the host, where
//! [`kindling_processes::reduce`] adds those of all ranks in the order of the tree: float32 and float32, which is what one process adds.
//! What comes back is kept in host memory until the step is committed. So a rank that runs out of memory after the exchange computes what
//! follows it again, alone.

use std::time::Instant;

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::{DType, Device, Tensor, TensorData};
use kindling_layers::host;
use kindling_layers::pass::BatchStatistics;
use kindling_processes::reduce;
use kindling_processes::tree::Node;
use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::gradients::GradientSum;
use crate::ranks::Ranks;
use crate::sums::Sums;

/// The sums of a step over all ranks, in host memory.
pub(crate) struct Shared {
    step: u64,
    groups: usize,
    layout: Layout,
    numbers: Vec<f32>,
}

/// What stands behind each other in a vector of sums, by the places of a model's tensors in its own order, which is the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Layout {
    /// Those that have a gradient.
    gradients: Vec<usize>,
    /// Running statistics that move, each with its momentum as the bits of a float64.
    statistics: Vec<(usize, u64)>,
    /// How many other numbers follow.
    numbers: usize,
}

/// What a rank says when it has computed its groups.
#[derive(Serialize, Deserialize)]
struct Computed {
    /// How long that took.
    seconds: f64,
    /// Told where a rank has no group from which it could know it.
    layout: Option<Layout>,
}

/// The sums of step `step`, which has so many normalisation groups, over all ranks; `mine` computes the nodes of this one. What runs out
/// of memory in `mine` panics, before anything is collective.
///
/// # Errors
/// [`TrainError::Elsewhere`], [`TrainError::Processes`], and what the device says of `mine`.
pub(crate) fn over_ranks<M: Module>(
    ranks: &Ranks,
    model: &M,
    (step, groups): (u64, usize),
    device: &Device,
    failed: impl Fn(&str) -> TrainError,
    mine: impl FnOnce() -> Vec<Node<Sums>>,
) -> Result<Sums, TrainError> {
    let tensors = Tensors::of(model);
    if let Some(shared) = ranks.shared.borrow().as_ref().filter(|shared| shared.step == step) {
        return Ok(shared.on(&tensors, device));
    }
    let began = Instant::now();
    let nodes = mine();
    let layout = nodes.first().map(|node| Layout::of(&node.sum, &tensors));
    let read = |node: Node<Sums>| -> Result<Node<Vec<f32>>, String> {
        let Node { level, index, sum } = node;
        let layout = layout.as_ref().ok_or("a node without a layout")?;
        Ok(Node { level, index, sum: on_host(layout, sum, &tensors)? })
    };
    let nodes: Vec<Node<Vec<f32>>> =
        nodes.into_iter().map(read).collect::<Result<_, _>>().map_err(|text| failed(&text))?;

    let someone_has_none = groups < ranks.group().size();
    let told = layout.clone().filter(|_| someone_has_none);
    let all = ranks.agree("sums", Computed { seconds: began.elapsed().as_secs_f64(), layout: told })?;
    ranks.took(&all.iter().map(|computed| computed.seconds).collect::<Vec<_>>());
    let layout = layout.or_else(|| all.into_iter().find_map(|computed| computed.layout));
    let layout = layout.ok_or_else(|| failed("the batch is empty"))?;
    let mut numbers = vec![0.0; layout.length(&tensors)];
    reduce::sum(ranks.group(), "gradients", groups, &nodes, &mut numbers)?;
    let shared = Shared { step, groups, layout, numbers };
    let sums = shared.on(&tensors, device);
    *ranks.shared.borrow_mut() = Some(shared);
    Ok(sums)
}

/// The float tensors of a model in its own order, with their lengths.
struct Tensors(Vec<(ParamId, usize)>);

impl Tensors {
    fn of<M: Module>(model: &M) -> Self {
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
    fn of(sums: &Sums, tensors: &Tensors) -> Self {
        let momentum = |id| sums.statistics.momentum(id).map(f64::to_bits);
        Self {
            gradients: tensors.places().filter(|(_, id)| sums.gradients.get(*id).is_some()).map(|(at, _)| at).collect(),
            statistics: tensors.places().filter_map(|(at, id)| Some((at, momentum(id)?))).collect(),
            numbers: sums.numbers.len(),
        }
    }

    /// Floats of a vector.
    fn length(&self, tensors: &Tensors) -> usize {
        let places = self.gradients.iter().chain(self.statistics.iter().map(|(at, _)| at));
        places.map(|at| tensors.0[*at].1).sum::<usize>() + self.numbers
    }
}

/// Reads sums to the host, in one transfer.
fn on_host(layout: &Layout, sums: Sums, tensors: &Tensors) -> Result<Vec<f32>, String> {
    let Sums { gradients, statistics, numbers } = sums;
    let lacking = || "a group has other gradients than the first".to_owned();
    let gradients = layout.gradients.iter().map(|at| gradients.get(tensors.0[*at].0).ok_or_else(lacking));
    let statistics = layout.statistics.iter().map(|(at, _)| statistics.sum(tensors.0[*at].0).ok_or_else(lacking));
    let numbers = numbers.into_iter().map(|number| Ok(number.reshape([1])));
    let all = gradients.chain(statistics).chain(numbers).collect::<Result<Vec<_>, _>>()?;
    let data = host::read(Tensor::cat(all, 0))?;
    match data.dtype() {
        DType::F32 => data.try_to_vec::<f32>().map_err(|error| format!("{error:?}")),
        other => Err(format!("several processes add gradients in float32, not in {other:?}")),
    }
}

impl Shared {
    /// These sums as tensors on a device, each of its own.
    fn on(&self, tensors: &Tensors, device: &Device) -> Sums {
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
