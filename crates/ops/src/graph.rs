//! Helpers for putting operations on Burn's gradient graph.

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::Ops;
#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, ExtensionType, Flex};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

use crate::reserve;

/// A tensor of a backend on the graph.
pub(crate) type Tracked<B, C> = FloatTensor<Autodiff<B, C>>;

/// A gradient that is computed only if a parent on the graph needs it.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) enum Gradient<B: Backend> {
    Unwanted,
    Of(FloatTensor<B>),
}

impl<B: Backend> Gradient<B> {
    /// Computes the gradient if it is wanted.
    pub(crate) fn if_wanted(wanted: bool, make: impl FnOnce() -> FloatTensor<B>) -> Self {
        if wanted { Self::Of(make()) } else { Self::Unwanted }
    }

    /// Registers the gradient with its parent, if there is one.
    pub(crate) fn register(self, grads: &mut Gradients, node: Option<NodeId>) {
        if let (Self::Of(gradient), Some(node)) = (self, node) {
            grads.register::<B>(node, gradient);
        }
    }
}

#[cfg(feature = "cube")]
impl GradientMetadata {
    /// The gradient of a map has the map's format.
    pub(crate) fn of_map(map: &TensorSpec, wanted: bool) -> Self {
        if wanted { Self::Of(map.clone()) } else { Self::Unwanted }
    }

    /// The gradient of weights, shifts and gates is float32 whatever the format of the map.
    pub(crate) fn of_weight(weight: &TensorSpec, wanted: bool) -> Self {
        if wanted { Self::Of(TensorSpec { dtype: DType::F32, ..weight.clone() }) } else { Self::Unwanted }
    }
}

/// Puts an operation on the graph. The state that its backward pass needs is built only if one of the nodes requires a gradient.
macro_rules! on_graph {
    ($checkpoint:ty, $backward:expr, $nodes:expr, $state:expr, $output:expr) => {
        match $backward.prepare::<$checkpoint>($nodes).compute_bound().stateful() {
            burn::backend::autodiff::ops::OpsKind::Tracked(prep) => {
                let state = $state;
                prep.finish(state, $output)
            }
            burn::backend::autodiff::ops::OpsKind::UnTracked(prep) => prep.finish($output),
        }
    };
}
pub(crate) use on_graph;

/// The parents of an operation; `None` for a parent that needs no gradient.
pub(crate) fn parents<S, const N: usize>(ops: &Ops<S, N>) -> [Option<NodeId>; N] {
    ops.parents.each_ref().map(|node| node.as_ref().map(|node| node.id))
}

/// A backend whose primitive can be taken out of a Burn tensor, which is needed to recompute a map in the backward pass.
pub(crate) trait Primitive: Backend {
    /// Reserves memory for `elements` numbers, on backends whose memory is limited by [`reserve`].
    fn reserve(elements: usize, dtype: DType);

    /// The backend's primitive of a tensor that is outside any gradient graph.
    fn of(x: Tensor<4>) -> FloatTensor<Self>;
}

impl Primitive for Flex {
    fn reserve(elements: usize, dtype: DType) {
        reserve::bytes(dtype.size() * elements);
    }

    fn of(x: Tensor<4>) -> FlexTensor {
        FlexTensor::from_data(x.into_data())
    }
}

#[cfg(feature = "cube")]
impl Primitive for burn::backend::Cube {
    fn reserve(_: usize, _: DType) {}

    fn of(x: Tensor<4>) -> FloatTensor<Self> {
        // The map is computed from tensors of the same device.
        x.try_into_primitive::<Self>().expect("a recomputed map lies on the device of its inputs")
    }
}
