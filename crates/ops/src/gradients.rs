//! The gradients of [`super::MapOps`] and [`super::UnreadOps`].
//!
//! `dy` is the gradient of the output. `wanted` says which gradients somebody asks for, in the order of the inputs that have
//! one; those nobody asks for are tensors without elements.

#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, backend_extension};
use burn::tensor::DType;

use super::{Convolution, Normalisation, Places, Pooling};

/// See the module.
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait MapGradients: Backend {
    /// Of [`super::MapOps::depthwise`]: map and weight.
    #[fusion(meta = |x, weight, _, _, wanted| (like(x, wanted[0]), float32(weight, wanted[1])))]
    fn depthwise_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        places: Places,
        wanted: [bool; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Of [`super::MapOps::dense`]: map and weight.
    #[fusion(meta = |x, weight, _, _, wanted| (like(x, wanted[0]), float32(weight, wanted[1])))]
    fn dense_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        places: Places,
        wanted: [bool; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// Of [`super::MapOps::means`]: a map of this shape and format.
    #[fusion(meta = |_, shape, dtype| TensorSpec::new((*shape).into(), *dtype))]
    fn means_backward(dy: FloatTensor<Self>, shape: [usize; 4], dtype: DType) -> FloatTensor<Self>;

    /// Of [`super::MapOps::scale`]: map and gate.
    #[fusion(meta = |x, gate, _, wanted| (like(x, wanted[0]), float32(gate, wanted[1])))]
    fn scale_backward(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        wanted: [bool; 2],
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

/// See the module. Each begins with the gradients of map, scale, shift and gate.
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
#[allow(clippy::too_many_arguments, clippy::type_complexity)] // an operation on Burn's graph names its tensors one by one
pub(crate) trait UnreadGradients: Backend {
    /// Of [`super::UnreadOps::norm_act`].
    #[fusion(meta = |x, weight, bias, _, gate, _, _, wanted| of_map([x, weight, bias, gate], *wanted))]
    fn norm_act_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        how: Normalisation,
        wanted: [bool; 4],
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Of [`super::UnreadOps::norm_act_conv`], and of the filters.
    #[fusion(meta = |x, weight, bias, _, gate, filters, _, _, _, wanted| {
        of_map_and_filters([x, weight, bias, gate], filters, *wanted)
    })]
    fn norm_act_conv_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        filters: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        how: Normalisation,
        convolution: Convolution,
        wanted: [bool; 5],
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Of [`super::UnreadOps::norm_act_means`].
    #[fusion(meta = |x, weight, bias, _, gate, _, _, wanted| of_map([x, weight, bias, gate], *wanted))]
    fn norm_act_means_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        how: Normalisation,
        wanted: [bool; 4],
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Of [`super::UnreadOps::norm_act_max_pool`].
    #[fusion(meta = |x, weight, bias, _, gate, _, _, _, wanted| of_map([x, weight, bias, gate], *wanted))]
    fn norm_act_max_pool_backward(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        statistics: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        how: Normalisation,
        pooling: Pooling,
        wanted: [bool; 4],
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// Of the sum behind a ReLU, from the output `y` and its gradient.
    #[fusion(dtype = y, shape = y)]
    fn sum_backward(y: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// What a gradient of this tensor looks like.
#[cfg(feature = "cube")]
fn like(of: &TensorSpec, wanted: bool) -> TensorSpec {
    if wanted { of.clone() } else { TensorSpec::new([0].into(), DType::F32) }
}

/// The same for what is float32 whatever the map is.
#[cfg(feature = "cube")]
fn float32(of: &TensorSpec, wanted: bool) -> TensorSpec {
    TensorSpec { dtype: DType::F32, ..like(of, wanted) }
}

#[cfg(feature = "cube")]
fn of_map(
    [x, weight, bias, gate]: [&TensorSpec; 4],
    wanted: [bool; 4],
) -> (TensorSpec, TensorSpec, TensorSpec, TensorSpec) {
    (like(x, wanted[0]), float32(weight, wanted[1]), float32(bias, wanted[2]), float32(gate, wanted[3]))
}

#[cfg(feature = "cube")]
fn of_map_and_filters(
    map: [&TensorSpec; 4],
    filters: &TensorSpec,
    [x, weight, bias, gate, of_filters]: [bool; 5],
) -> (TensorSpec, TensorSpec, TensorSpec, TensorSpec, TensorSpec) {
    let (x, weight, bias, gate) = of_map(map, [x, weight, bias, gate]);
    (x, weight, bias, gate, float32(filters, of_filters))
}
