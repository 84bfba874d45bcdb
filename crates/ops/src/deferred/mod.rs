//! Deferred normalisation: maps before their batch normalisation, which whoever reads them applies on the way.
//!
//! With `x` `[n, c, h, w]`, means `m` and biased variances `v` of the group of sample `n`, scale `a`, shift `b`, an activation `f`
//! and a factor `g` for each plane, what is read is
//!
//! `f((x[n, c, i, j] - m[c]) / sqrt(v[c] + epsilon) a[c] + b[c]) g[n, c]`.
//!
//! A convolution behind a normalisation, the mean of each plane, the largest of each window and a sum with a shortcut read a map so.
//! For backward only `x` is kept, where otherwise the normalised map would be as well; and with [`Normalisation::again`] not even
//! `x`.

pub(crate) mod cpu;
#[cfg(feature = "cube")]
mod cube;
mod gradients;
mod graph;

use std::fmt;
use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
#[cfg(feature = "cube")]
use burn::tensor::DType;
use burn::tensor::Tensor;

use crate::activation::Activation;
use crate::convolution::Convolution;
use crate::device::plain;

pub(crate) use gradients::{DeferredGradients, OfConvolved, OfMap, Wanted};

/// A map before its normalisation, with what is to become of it; see the module.
#[derive(Clone, Debug)]
pub struct Deferred {
    /// What the normalisation is given, `[n, c, h, w]`.
    pub x: Tensor<4>,
    /// Scale, `[c]`.
    pub weight: Tensor<1>,
    /// Shift, `[c]`.
    pub bias: Tensor<1>,
    /// Means and biased variances, `[2, groups, c]`, without gradient: the backward passes take them for functions of `x`.
    pub statistics: Tensor<3>,
    /// What is done with them.
    pub how: Normalisation,
    /// A factor for each plane, `[n, c]`.
    pub gate: Option<Tensor<2>>,
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

/// Whether the derivative of an activation can be read from its output, as that of a sum with a shortcut is.
pub fn join_serves(activation: Activation) -> bool {
    matches!(activation, Activation::Identity | Activation::Relu)
}

impl Deferred {
    /// The map itself, `[n, c, h, w]`.
    pub fn whole(self) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::apply(self.into_dispatch()))
    }

    /// The convolution of the map; `filters` float32, as [`crate::depthwise`] and [`crate::dense`] have them.
    pub fn convolved(self, filters: Tensor<4>, convolution: Convolution) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::convolve(self.into_dispatch(), filters.into_dispatch(), convolution))
    }

    /// The mean of each plane, `[n, c]` float32.
    pub fn means(self) -> Tensor<2> {
        Tensor::from_dispatch(Dispatch::average(self.into_dispatch()))
    }

    /// The largest of each window.
    pub fn max_pooled(self, pooling: Pooling) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::max_pool(self.into_dispatch(), pooling))
    }

    /// An activation, the identity or ReLU, of the sum with a map of the same shape and format.
    pub fn added_to(self, shortcut: Tensor<4>, activation: Activation) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::add(self.into_dispatch(), shortcut.into_dispatch(), activation))
    }

    /// The same outside any gradient graph.
    pub fn detached(&self) -> Self {
        let Self { x, weight, bias, statistics, how, gate } = self.clone();
        Self { x: plain(x), weight: plain(weight), bias: plain(bias), statistics, how, gate: gate.map(plain) }
    }

    fn into_dispatch(self) -> DeferredMap<Dispatch> {
        let Self { x, weight, bias, statistics, how, gate } = self;
        let how = if x.is_autodiff() { how } else { how.split().0 };
        DeferredMap {
            x: x.into_dispatch(),
            weight: weight.into_dispatch(),
            bias: bias.into_dispatch(),
            statistics: statistics.into_dispatch(),
            gate: gate.map_or(Gate::Open, |gate| Gate::Of(gate.into_dispatch())),
            how,
        }
    }
}

/// A [`Deferred`] map as a backend is given it.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct DeferredMap<B: Backend> {
    pub(crate) x: FloatTensor<B>,
    pub(crate) weight: FloatTensor<B>,
    pub(crate) bias: FloatTensor<B>,
    pub(crate) statistics: FloatTensor<B>,
    #[extension_type]
    pub(crate) gate: Gate<B>,
    pub(crate) how: Normalisation,
}

/// A factor for each plane, `[n, c]` float32, or one for all.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) enum Gate<B: Backend> {
    Open,
    Of(FloatTensor<B>),
}

/// What reads a map through its normalisation.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait DeferredOps: Backend {
    /// See [`Deferred::whole`].
    #[fusion(dtype = map.x.dtype, shape = map.x.shape.clone())]
    fn apply(#[extension_type] map: DeferredMap<Self>) -> FloatTensor<Self>;

    /// See [`Deferred::convolved`].
    #[fusion(dtype = map.x.dtype, shape = convolution.output(map.x.shape.dims(), filters[0]).into())]
    fn convolve(
        #[extension_type] map: DeferredMap<Self>,
        filters: FloatTensor<Self>,
        convolution: Convolution,
    ) -> FloatTensor<Self>;

    /// See [`Deferred::means`].
    #[fusion(dtype = DType::F32, shape = [map.x.shape[0], map.x.shape[1]].into())]
    fn average(#[extension_type] map: DeferredMap<Self>) -> FloatTensor<Self>;

    /// See [`Deferred::max_pooled`].
    #[fusion(dtype = map.x.dtype, shape = pooling.output(map.x.shape.dims()).into())]
    fn max_pool(#[extension_type] map: DeferredMap<Self>, pooling: Pooling) -> FloatTensor<Self>;

    /// See [`Deferred::added_to`]. The output is kept as well where the activation is not the identity; the caller has asked
    /// [`join_serves`].
    #[fusion(dtype = map.x.dtype, shape = map.x.shape.clone())]
    fn add(
        #[extension_type] map: DeferredMap<Self>,
        shortcut: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;
}
