//! Deferred normalisation: a map is stored before its batch normalisation, and the next operation applies the normalisation while
//! it reads the map.
//!
//! With `x` `[n, c, h, w]`, means `m` and biased variances `v` of the group of sample `n`, scale `a`, shift `b`, an activation `f`
//! and a factor `g` for each plane, the value that is read is
//!
//! `f((x[n, c, i, j] - m[c]) / sqrt(v[c] + epsilon) a[c] + b[c]) g[n, c]`.
//!
//! Convolutions, the global average pool, max pooling and residual additions read maps in this way. For the backward pass only `x`
//! is kept, while a separate normalisation would keep the normalised map as well. With [`Normalisation::rebuild`], not even `x` is
//! kept.

pub(crate) mod cpu;
#[cfg(feature = "cube")]
mod cube;
mod gradients;
mod graph;

use std::fmt;
use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::{DType, Tensor};

use crate::activation::Activation;
use crate::convolution::Convolution;
use crate::device::plain;

pub use cpu::channels_at_once;
pub(crate) use gradients::{DeferredGradients, OfConvolved, OfMap, Wanted};

/// A map before its normalisation, and what is applied to it when it is read; see the module.
#[derive(Clone, Debug)]
pub struct Deferred {
    /// The input of the normalisation, `[n, c, h, w]`.
    pub x: Tensor<4>,
    /// Scale, `[c]`.
    pub weight: Tensor<1>,
    /// Shift, `[c]`.
    pub bias: Tensor<1>,
    /// Means and biased variances, `[2, groups, c]`, outside the gradient graph: the backward passes treat them as functions of `x`.
    pub statistics: Tensor<3>,
    /// Groups, epsilon and activation.
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
    /// The activation after the normalisation.
    pub activation: Activation,
    /// Recomputes `x` in the backward pass, so that it need not be kept. Only the gradient graph uses it; it never goes to a device.
    pub rebuild: Option<Rebuild>,
}

impl Normalisation {
    /// Splits off what stays with the gradient graph. A device that queues operations drops their arguments on a thread of its own.
    /// The second part holds a tensor, which cannot be dropped on that thread and would stay allocated.
    pub(crate) fn split(self) -> (Self, Option<Rebuild>) {
        (Self { rebuild: None, ..self }, self.rebuild)
    }
}

/// Recomputes a map outside any gradient graph.
#[derive(Clone)]
pub struct Rebuild(pub Arc<dyn Fn() -> Tensor<4> + Send + Sync>);

impl fmt::Debug for Rebuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rebuild")
    }
}

/// The windows of a pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pooling {
    /// Side of the window.
    pub kernel: usize,
    /// Pixels from one window to the next.
    pub stride: usize,
    /// Rows and columns of padding on each side, which no maximum comes from; less than `kernel`.
    pub padding: usize,
}

impl Pooling {
    /// The shape of the output for the shape of a map.
    #[cfg(feature = "cube")]
    pub(crate) fn output(self, [batch, channels, height, width]: [usize; 4]) -> [usize; 4] {
        let side = |size: usize| (size + 2 * self.padding - self.kernel) / self.stride + 1;
        [batch, channels, side(height), side(width)]
    }
}

/// Whether [`Deferred::residual_add`] supports an activation: its derivative must follow from its output.
pub fn supports_residual_add(activation: Activation) -> bool {
    matches!(activation, Activation::Identity | Activation::Relu)
}

impl Deferred {
    /// The normalised, activated and gated map, `[n, c, h, w]`.
    pub fn whole(self) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::apply(self.into_dispatch()))
    }

    /// A map that nothing is applied to.
    pub fn of(x: Tensor<4>) -> Self {
        let ([batch, channels, ..], device) = (x.dims(), x.device());
        let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let [zeros, ones] = [0.0, 1.0].map(|value| Tensor::full([channels], value, (&device, dtype)));
        let statistics = Tensor::stack::<2>(vec![zeros.clone(), ones.clone()], 0).unsqueeze_dim(1);
        let how = Normalisation { groups: vec![batch], epsilon: 0.0, activation: Activation::Identity, rebuild: None };
        Self { x, weight: ones, bias: zeros, statistics, how, gate: None }
    }

    /// The same map, stored as its format rounds it.
    pub fn stored(self) -> Self {
        Self::of(self.whole())
    }

    /// The convolution of the map. `filters` are float32 and have the shapes that [`crate::depthwise`] and [`crate::dense`] take.
    pub fn convolved(self, filters: Tensor<4>, convolution: Convolution) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::convolve(self.into_dispatch(), filters.into_dispatch(), convolution))
    }

    /// Global average pool: the mean of each plane, `[n, c]` float32.
    pub fn global_average_pool(self) -> Tensor<2> {
        Tensor::from_dispatch(Dispatch::average(self.into_dispatch()))
    }

    /// Max pooling: the largest value of each window.
    pub fn max_pooled(self, pooling: Pooling) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::max_pool(self.into_dispatch(), pooling))
    }

    /// The sum with a shortcut of the same shape and format, followed by an activation: the identity or ReLU.
    pub fn residual_add(self, shortcut: Tensor<4>, activation: Activation) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::add(self.into_dispatch(), shortcut.into_dispatch(), activation))
    }

    /// The same map outside any gradient graph.
    pub fn detached(&self) -> Self {
        let Self { x, weight, bias, statistics, how, gate } = self.clone();
        Self { x: plain(x), weight: plain(weight), bias: plain(bias), statistics, how, gate: gate.map(plain) }
    }

    pub(crate) fn into_dispatch(self) -> DeferredMap<Dispatch> {
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

/// A [`Deferred`] map in the form that backends take.
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

/// A factor for each plane, `[n, c]` float32, or no factors.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) enum Gate<B: Backend> {
    Open,
    Of(FloatTensor<B>),
}

/// Operations that read a map through its normalisation.
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

    /// See [`Deferred::global_average_pool`].
    #[fusion(dtype = DType::F32, shape = [map.x.shape[0], map.x.shape[1]].into())]
    fn average(#[extension_type] map: DeferredMap<Self>) -> FloatTensor<Self>;

    /// See [`Deferred::max_pooled`].
    #[fusion(dtype = map.x.dtype, shape = pooling.output(map.x.shape.dims()).into())]
    fn max_pool(#[extension_type] map: DeferredMap<Self>, pooling: Pooling) -> FloatTensor<Self>;

    /// See [`Deferred::residual_add`]. The caller must have checked [`supports_residual_add`]. If the activation is not the identity, the
    /// output is kept for the backward pass.
    #[fusion(dtype = map.x.dtype, shape = map.x.shape.clone())]
    fn add(
        #[extension_type] map: DeferredMap<Self>,
        shortcut: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self>;
}
