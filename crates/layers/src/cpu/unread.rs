//! Operations on maps before their normalisation: whoever reads such a map applies normalisation, activation and gate on the
//! way, and keeps for backward only the map as it is ([`super::reading`]).
//!
//! The first tensors are always the same: `x` `[n, c, h, w]`; scale and shift, `[c]`; `statistics` `[2, groups, c]` (means,
//! then biased variances) without gradient, and taken for functions of `x` by the backward passes; and `gate`, a float32 factor for
//! each plane, `[n, c]`, or no gate, `[0, 0]`: Burn's extensions have no optional tensors.

use std::fmt;
use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

use super::autodiff::announce;
use super::max_pool::{self, Windows};
use super::norm_act::NormAct;
use super::reading::Reading;
use super::values::{dims, tensor, values};
use super::{Convolution, after_norm, join};
use crate::activation::Activation;
use crate::plain::plain;

/// See the module.
#[backend_extension(Autodiff, Flex)]
#[allow(clippy::too_many_arguments)] // an operation on Burn's graph names its tensors one by one
pub(crate) trait UnreadOps: Backend {
    /// The map itself.
    fn norm_act(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        how: Normalisation,
    ) -> FloatTensor<Self>;

    /// The convolution of the map.
    fn norm_act_conv(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        filters: FloatTensor<Self>,
        how: Normalisation,
        convolution: Convolution,
    ) -> FloatTensor<Self>;

    /// The mean of each plane of the map, `[n, c]`, float32.
    fn norm_act_means(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        how: Normalisation,
    ) -> FloatTensor<Self>;

    /// The largest of each window of the map.
    fn norm_act_max_pool(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        how: Normalisation,
        pooling: Pooling,
    ) -> FloatTensor<Self>;

    /// An activation of the sum of the map and another; the output is kept as well where the activation is not the
    /// identity. The caller has asked [`join_serves`].
    fn norm_act_add(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        shortcut: FloatTensor<Self>,
        how: Normalisation,
        activation: Activation,
    ) -> FloatTensor<Self>;
}

pub(crate) use join::serves as join_serves;

/// How a map is normalised.
#[derive(Clone, Debug)]
pub(crate) struct Normalisation {
    /// Sizes of the normalisation groups, in order.
    pub(crate) groups: Vec<usize>,
    /// Added to the variance.
    pub(crate) epsilon: f64,
    /// What follows.
    pub(crate) activation: Activation,
    /// Makes `x` again in the backward pass, so that it is not kept.
    pub(crate) again: Option<Again>,
}

/// Makes a map again, outside any gradient graph.
#[derive(Clone)]
pub(crate) struct Again(pub(crate) Arc<dyn Fn() -> Tensor<4> + Send + Sync>);

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Again")
    }
}

/// Windows of a pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pooling {
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    /// Rows and columns around the map that no maximum comes from; fewer than the kernel has.
    pub(crate) padding: usize,
}

/// A map before its normalisation, with what is to become of it; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    pub(crate) x: Tensor<4>,
    pub(crate) weight: Tensor<1>,
    pub(crate) bias: Tensor<1>,
    pub(crate) statistics: Tensor<3>,
    pub(crate) how: Normalisation,
    pub(crate) gate: Option<Tensor<2>>,
}

/// Calls an operation of [`UnreadOps`] with an [`Unread`] map's tensors, others, and what is no tensor.
macro_rules! call {
    ($operation:ident, $map:expr $(, $other:expr)*; $($rest:expr),*) => {{
        let Unread { x, weight, bias, statistics, how, gate } = $map;
        let gate = gate.unwrap_or_else(|| Tensor::empty([0, 0], &statistics.device()));
        let (x, statistics) = (x.into_dispatch(), statistics.into_dispatch());
        let (weight, bias, gate) = (weight.into_dispatch(), bias.into_dispatch(), gate.into_dispatch());
        Tensor::from_dispatch(<Dispatch as UnreadOps>::$operation(
            x, weight, bias, statistics, gate, $($other.into_dispatch(),)* how, $($rest),*
        ))
    }};
}

impl Unread {
    /// See [`UnreadOps::norm_act`].
    pub(crate) fn whole(self) -> Tensor<4> {
        call!(norm_act, self;)
    }

    /// See [`UnreadOps::norm_act_conv`].
    pub(crate) fn convolved(self, filters: Tensor<4>, convolution: Convolution) -> Tensor<4> {
        call!(norm_act_conv, self, filters; convolution)
    }

    /// See [`UnreadOps::norm_act_means`].
    pub(crate) fn means(self) -> Tensor<2> {
        call!(norm_act_means, self;)
    }

    /// See [`UnreadOps::norm_act_max_pool`].
    pub(crate) fn max_pooled(self, pooling: Pooling) -> Tensor<4> {
        call!(norm_act_max_pool, self; pooling)
    }

    /// See [`UnreadOps::norm_act_add`].
    pub(crate) fn added_to(self, shortcut: Tensor<4>, activation: Activation) -> Tensor<4> {
        call!(norm_act_add, self, shortcut; activation)
    }

    /// The same outside any gradient graph.
    pub(crate) fn detached(&self) -> Self {
        let Self { x, weight, bias, statistics, how, gate } = self.clone();
        Self { x: plain(x), weight: plain(weight), bias: plain(bias), statistics, how, gate: gate.map(plain) }
    }
}

/// The tensors of a map that is only read: what its operations keep for backward.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Nothing if it is made again.
    x: Option<FlexTensor>,
    weight: FlexTensor,
    bias: FlexTensor,
    statistics: FlexTensor,
    gate: FlexTensor,
    how: Normalisation,
    pub(super) shape: [usize; 4],
    pub(super) dtype: DType,
}

impl Source {
    pub(super) fn new(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        how: Normalisation,
    ) -> Self {
        let (shape, dtype) = (dims(&x), x.dtype());
        Self { x: Some(x), weight, bias, statistics, gate, how, shape, dtype }
    }

    /// What is kept for backward.
    pub(super) fn kept(&self) -> Self {
        let x = self.x.clone().filter(|_| self.how.again.is_none());
        Self { x, ..self.clone() }
    }

    fn x(&self) -> FlexTensor {
        match (&self.x, &self.how.again) {
            (Some(x), _) => x.clone(),
            (None, Some(Again(make))) => {
                announce(self.shape.iter().product(), self.dtype);
                FlexTensor::from_data(make().into_data())
            }
            // `kept` leaves it out only if it can be made.
            (None, None) => unreachable!("a map that is neither kept nor made again"),
        }
    }

    pub(super) fn read<R>(&self, work: impl FnOnce(&Reading<'_>) -> R) -> R {
        let Normalisation { groups, epsilon, activation, .. } = &self.how;
        let (weight, bias, statistics) = (values(&self.weight), values(&self.bias), values(&self.statistics));
        let norm = NormAct::new(self.shape, &weight, &bias, &statistics, groups, *epsilon);
        let gate = (self.gate.shape().num_elements() > 0).then(|| values(&self.gate));
        let x = self.x();
        let x = values(&x);
        work(&Reading { x: &x, norm, activation: *activation, gate: gate.as_deref() })
    }

    pub(super) fn whole(&self) -> FlexTensor {
        tensor(self.read(|reading| reading.whole()), self.shape, self.dtype)
    }

    pub(super) fn convolved(&self, filters: &FlexTensor, convolution: Convolution) -> FlexTensor {
        let shape = convolution.shape(self.shape, filters);
        let y = self.read(|reading| after_norm::forward(reading, &values(filters), &shape));
        tensor(y, shape.output(), self.dtype)
    }

    pub(super) fn means(&self) -> FlexTensor {
        let [batch, channels, ..] = self.shape;
        tensor(self.read(after_norm::means), [batch, channels], DType::F32)
    }

    pub(super) fn windows(&self, Pooling { kernel, stride, padding }: Pooling) -> Windows {
        let [.., height, width] = self.shape;
        Windows { height, width, kernel, stride, padding }
    }

    pub(super) fn max_pooled(&self, pooling: Pooling) -> FlexTensor {
        let ([batch, channels, ..], windows) = (self.shape, self.windows(pooling));
        let [rows, columns] = windows.out();
        let y = self.read(|reading| max_pool::forward(reading, &windows));
        tensor(y, [batch, channels, rows, columns], self.dtype)
    }

    pub(super) fn added_to(&self, shortcut: &FlexTensor, activation: Activation) -> FlexTensor {
        let y = self.read(|reading| join::forward(reading, &values(shortcut), activation));
        tensor(y, self.shape, self.dtype)
    }
}

impl UnreadOps for Flex {
    fn norm_act(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        how: Normalisation,
    ) -> FlexTensor {
        Source::new(x, weight, bias, statistics, gate, how).whole()
    }

    fn norm_act_conv(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        filters: FlexTensor,
        how: Normalisation,
        convolution: Convolution,
    ) -> FlexTensor {
        Source::new(x, weight, bias, statistics, gate, how).convolved(&filters, convolution)
    }

    fn norm_act_means(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        how: Normalisation,
    ) -> FlexTensor {
        Source::new(x, weight, bias, statistics, gate, how).means()
    }

    fn norm_act_max_pool(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        how: Normalisation,
        pooling: Pooling,
    ) -> FlexTensor {
        Source::new(x, weight, bias, statistics, gate, how).max_pooled(pooling)
    }

    fn norm_act_add(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        shortcut: FlexTensor,
        how: Normalisation,
        activation: Activation,
    ) -> FlexTensor {
        Source::new(x, weight, bias, statistics, gate, how).added_to(&shortcut, activation)
    }
}
