//! Operations on maps before their normalisation: whoever reads such a map applies normalisation, activation and gate on the
//! way, and keeps for backward only the map as it is.
//!
//! The first tensors are always the same: `x` `[n, c, h, w]`; scale and shift, `[c]`; `statistics` `[2, groups, c]` (means,
//! then biased variances) without gradient, and taken for functions of `x` by the backward passes; and `gate`, a float32 factor for
//! each plane, `[n, c]`, or no gate, `[0, 0]`: Burn's extensions have no optional tensors.

use std::fmt;
use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
#[cfg(feature = "cube")]
use burn::tensor::DType;
use burn::tensor::Tensor;

use super::Convolution;
use crate::activation::Activation;
use crate::plain;

/// See the module.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
#[allow(clippy::too_many_arguments)] // an operation on Burn's graph names its tensors one by one
pub(crate) trait UnreadOps: Backend {
    /// The map itself.
    #[fusion(dtype = x, shape = x)]
    fn norm_act(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        how: Normalisation,
    ) -> FloatTensor<Self>;

    /// The convolution of the map.
    #[fusion(dtype = x, shape = convolution.output(x.dims(), filters[0]).into())]
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
    #[fusion(dtype = DType::F32, shape = [x[0], x[1]].into())]
    fn norm_act_means(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        how: Normalisation,
    ) -> FloatTensor<Self>;

    /// The largest of each window of the map.
    #[fusion(dtype = x, shape = pooling.output(x.dims()).into())]
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
    /// identity. The caller has asked [`super::join_serves`].
    #[fusion(dtype = x, shape = x)]
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

/// How a map is normalised.
#[derive(Clone, Debug)]
pub struct Normalisation {
    /// Sizes of the normalisation groups, in order.
    pub groups: Vec<usize>,
    /// Added to the variance.
    pub epsilon: f64,
    /// What follows.
    pub activation: Activation,
    /// Makes `x` again in the backward pass, so that it is not kept. For the gradient graph alone: no device is given it.
    pub again: Option<Again>,
}

impl Normalisation {
    /// What a device is told, and what stays with the gradient graph. A device that queues operations drops what they were
    /// given on a thread of its own, where a tensor, which the second holds, cannot be dropped: it would stay allocated.
    pub(crate) fn split(self) -> (Self, Option<Again>) {
        (Self { again: None, ..self }, self.again)
    }
}

/// Makes a map again, outside any gradient graph.
#[derive(Clone)]
pub struct Again(pub Arc<dyn Fn() -> Tensor<4> + Send + Sync>);

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Again")
    }
}

/// Windows of a pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// Side of the window.
    pub kernel: usize,
    /// Steps between windows.
    pub stride: usize,
    /// Rows and columns around the map that no maximum comes from; fewer than the kernel has.
    pub padding: usize,
}

impl Pooling {
    /// The output's shape for that of a map.
    #[cfg(feature = "cube")]
    pub(crate) fn output(self, [batch, channels, height, width]: [usize; 4]) -> [usize; 4] {
        let side = |size: usize| (size + 2 * self.padding - self.kernel) / self.stride + 1;
        [batch, channels, side(height), side(width)]
    }
}

/// A map before its normalisation, with what is to become of it; see the module.
#[derive(Clone, Debug)]
pub struct Unread {
    /// What the normalisation is given, `[n, c, h, w]`.
    pub x: Tensor<4>,
    /// Scale, `[c]`.
    pub weight: Tensor<1>,
    /// Shift, `[c]`.
    pub bias: Tensor<1>,
    /// Means and biased variances, `[2, groups, c]`, without gradient.
    pub statistics: Tensor<3>,
    /// What is done with them.
    pub how: Normalisation,
    /// A factor for each plane, `[n, c]`.
    pub gate: Option<Tensor<2>>,
}

/// Calls an operation of [`UnreadOps`] with an [`Unread`] map's tensors, others, and what is no tensor.
macro_rules! call {
    ($operation:ident, $map:expr $(, $other:expr)*; $($rest:expr),*) => {{
        let Unread { x, weight, bias, statistics, how, gate } = $map;
        let how = if x.is_autodiff() { how } else { how.split().0 };
        let gate = gate.unwrap_or_else(|| Tensor::empty([0, 0], &statistics.device()));
        let (x, statistics) = (x.into_dispatch(), statistics.into_dispatch());
        let (weight, bias, gate) = (weight.into_dispatch(), bias.into_dispatch(), gate.into_dispatch());
        Tensor::from_dispatch(<Dispatch as UnreadOps>::$operation(
            x, weight, bias, statistics, gate, $($other.into_dispatch(),)* how, $($rest),*
        ))
    }};
}

impl Unread {
    /// The map itself, `[n, c, h, w]`.
    pub fn whole(self) -> Tensor<4> {
        call!(norm_act, self;)
    }

    /// The convolution of the map; `filters` float32, as [`super::depthwise`] and [`super::dense`] have them.
    pub fn convolved(self, filters: Tensor<4>, convolution: Convolution) -> Tensor<4> {
        call!(norm_act_conv, self, filters; convolution)
    }

    /// The mean of each plane, `[n, c]` float32.
    pub fn means(self) -> Tensor<2> {
        call!(norm_act_means, self;)
    }

    /// The largest of each window.
    pub fn max_pooled(self, pooling: Pooling) -> Tensor<4> {
        call!(norm_act_max_pool, self; pooling)
    }

    /// An activation, the identity or ReLU, of the sum with a map of the same shape and format.
    pub fn added_to(self, shortcut: Tensor<4>, activation: Activation) -> Tensor<4> {
        call!(norm_act_add, self, shortcut; activation)
    }

    /// The same outside any gradient graph.
    pub fn detached(&self) -> Self {
        let Self { x, weight, bias, statistics, how, gate } = self.clone();
        Self { x: plain(x), weight: plain(weight), bias: plain(bias), statistics, how, gate: gate.map(plain) }
    }
}
