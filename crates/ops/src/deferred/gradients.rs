//! Backward passes of the operations that read a map through its normalisation, for the gradient `dy` of the output.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};

use super::{DeferredMap, Pooling};
#[cfg(feature = "cube")]
use super::{DeferredMapMetadata, GateMetadata};
use crate::convolution::Convolution;
use crate::graph::Gradient;
#[cfg(feature = "cube")]
use crate::graph::GradientMetadata;

/// The gradients of a map, its scale, its shift and its gate.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct OfMap<B: Backend> {
    #[extension_type]
    pub(crate) x: Gradient<B>,
    #[extension_type]
    pub(crate) weight: Gradient<B>,
    #[extension_type]
    pub(crate) bias: Gradient<B>,
    #[extension_type]
    pub(crate) gate: Gradient<B>,
}

/// The gradients of a convolution: of the map's tensors, and of the filters.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct OfConvolved<B: Backend> {
    #[extension_type]
    pub(crate) map: OfMap<B>,
    #[extension_type]
    pub(crate) filters: Gradient<B>,
}

/// Which gradients of a map are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) x: bool,
    pub(crate) weight: bool,
    pub(crate) bias: bool,
    pub(crate) gate: bool,
}

/// Backward passes; see the module.
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait DeferredGradients: Backend {
    /// The gradients of [`super::DeferredOps::apply`].
    #[fusion(meta = |map, _, wanted| of_map(map, wanted))]
    fn apply_backward(#[extension_type] map: DeferredMap<Self>, dy: FloatTensor<Self>, wanted: Wanted) -> OfMap<Self>;

    /// The gradients of [`super::DeferredOps::convolve`].
    #[fusion(meta = |map, filters, _, _, wanted, filters_wanted| OfConvolvedMetadata {
        map: of_map(map, wanted),
        filters: GradientMetadata::of_weight(filters, *filters_wanted),
    })]
    fn convolve_backward(
        #[extension_type] map: DeferredMap<Self>,
        filters: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        convolution: Convolution,
        wanted: Wanted,
        filters_wanted: bool,
    ) -> OfConvolved<Self>;

    /// The gradients of [`super::DeferredOps::average`].
    #[fusion(meta = |map, _, wanted| of_map(map, wanted))]
    fn average_backward(#[extension_type] map: DeferredMap<Self>, dy: FloatTensor<Self>, wanted: Wanted)
    -> OfMap<Self>;

    /// The gradients of [`super::DeferredOps::max_pool`].
    #[fusion(meta = |map, _, _, wanted| of_map(map, wanted))]
    fn max_pool_backward(
        #[extension_type] map: DeferredMap<Self>,
        dy: FloatTensor<Self>,
        pooling: Pooling,
        wanted: Wanted,
    ) -> OfMap<Self>;

    /// The gradient of the sum in [`super::DeferredOps::add`] with ReLU, from the output `y` and its gradient.
    #[fusion(dtype = y, shape = y)]
    fn sum_backward(y: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self>;
}

#[cfg(feature = "cube")]
fn of_map(map: &DeferredMapMetadata, wanted: &Wanted) -> OfMapMetadata {
    OfMapMetadata {
        x: GradientMetadata::of_map(&map.x, wanted.x),
        weight: GradientMetadata::of_weight(&map.weight, wanted.weight),
        bias: GradientMetadata::of_weight(&map.bias, wanted.bias),
        gate: match &map.gate {
            GateMetadata::Of(gate) => GradientMetadata::of_weight(gate, wanted.gate),
            GateMetadata::Open => GradientMetadata::Unwanted,
        },
    }
}
