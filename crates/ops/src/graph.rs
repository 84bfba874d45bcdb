//! What all operations share that stand on Burn's gradient graph.

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

/// A gradient, where somebody asks for it.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) enum Gradient<B: Backend> {
    Unwanted,
    Of(FloatTensor<B>),
}

impl<B: Backend> Gradient<B> {
    /// The gradient, made only if it is wanted.
    pub(crate) fn if_wanted(wanted: bool, make: impl FnOnce() -> FloatTensor<B>) -> Self {
        if wanted { Self::Of(make()) } else { Self::Unwanted }
    }

    /// Hands the gradient to a parent, if it wants one.
    pub(crate) fn register(self, grads: &mut Gradients, node: Option<NodeId>) {
        if let (Self::Of(gradient), Some(node)) = (self, node) {
            grads.register::<B>(node, gradient);
        }
    }
}

#[cfg(feature = "cube")]
impl GradientMetadata {
    /// Of a map: of its format.
    pub(crate) fn of_map(map: &TensorSpec, wanted: bool) -> Self {
        if wanted { Self::Of(map.clone()) } else { Self::Unwanted }
    }

    /// Of weights, or of what else is float32 whatever the map is.
    pub(crate) fn of_weight(weight: &TensorSpec, wanted: bool) -> Self {
        if wanted { Self::Of(TensorSpec { dtype: DType::F32, ..weight.clone() }) } else { Self::Unwanted }
    }
}

/// Puts an operation on the graph: its state, made only if one of the nodes wants a gradient, and its output.
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

/// The parents of an operation, those with gradients.
pub(crate) fn parents<S, const N: usize>(ops: &Ops<S, N>) -> [Option<NodeId>; N] {
    ops.parents.each_ref().map(|node| node.as_ref().map(|node| node.id))
}

/// A backend whose tensors can be taken out of Burn's, to make a map again in the backward pass.
pub(crate) trait Primitive: Backend {
    /// Says that `elements` more of a type are about to be made, where somebody keeps count.
    fn announce(elements: usize, dtype: DType);

    /// The backend's own tensor, outside any gradient graph.
    fn of(x: Tensor<4>) -> FloatTensor<Self>;
}

impl Primitive for Flex {
    fn announce(elements: usize, dtype: DType) {
        reserve::announce(dtype.size() * elements);
    }

    fn of(x: Tensor<4>) -> FlexTensor {
        FlexTensor::from_data(x.into_data())
    }
}

#[cfg(feature = "cube")]
impl Primitive for burn::backend::Cube {
    fn announce(_: usize, _: DType) {}

    fn of(x: Tensor<4>) -> FloatTensor<Self> {
        // The map is made from tensors of the device it is asked on.
        x.try_into_primitive::<Self>().expect("a map made again lies on its own device")
    }
}
