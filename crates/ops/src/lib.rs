//! Own operations on feature maps, with their gradients, and the devices that have them.
//!
//! An operation is a method of [`MapOps`] or [`UnreadOps`], its gradient one of [`MapGradients`] or [`UnreadGradients`]. A
//! backend that implements all four has them; what is kept between the two passes is decided once for all backends, in
//! [`autodiff`] and [`unread_autodiff`]. The CPU's implementation is [`crate::cpu`]; that of CUDA, Vulkan and the other
//! devices of CubeCL is `crate::cube`, behind the feature `cube`. A tensor of any other device or format takes the path
//! through Burn's own operations.
//!
//! Weights, statistics and sums are float32, and a map's format is that of the output.
//!
//! | module | holds |
//! |---|---|
//! | `autodiff`, `unread`, `unread_autodiff`, `gradients` | the operations on Burn's gradient graph, once for all devices: on whole maps, and on maps that are read through their normalisation |
//! | `cpu` | dense convolution on columns (`conv`), Winograd's for most 3x3 filters, depthwise convolution (`depthwise`, `correlate`), readings (`unread`, `reading`), AdamW in one pass |
//! | `cube` | kernels for normalisation, statistics and depthwise convolution on CubeCL's devices; dense convolutions by Burn's kernels (`convolve`); how maps lie (`layout`) |
//! | `state` | operations on the tensors of a network's state, eight at a time |
//! | [`room`] | is asked before anything large is made |

mod activation;
mod autodiff;
mod cpu;
#[cfg(feature = "cube")]
mod cube;
mod gradients;
mod plain;
mod primitive;
pub mod room;
mod state;
mod unread;
mod unread_autodiff;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchDevice, backend_extension};
use burn::tensor::{DType, Device, Tensor};

pub use activation::Activation;
pub use cpu::{AdamWStep, ConvScratch, adamw, packing_bytes, serves_on_cpu, small_product, transposed};
pub use plain::plain;
pub use state::{first_numbers, squared_norm};
pub use unread::{Again, Normalisation, Pooling, Unread};

pub(crate) use autodiff::{on_graph, register};
pub(crate) use gradients::{MapGradients, UnreadGradients};
pub(crate) use primitive::Primitive;
pub(crate) use state::{AT_ONCE, BLOCKS, StateOps};
pub(crate) use unread::UnreadOps;

/// What devices do with maps beyond Burn's operations.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait MapOps: Backend {
    /// Depthwise convolution to `out` rows and columns; `x` `[n, c, h, w]`, `weight` `[c, 1, k, k]`, `k` 3, 5, 7, 9 or 11;
    /// `before` zeros above and to the left, and as many below and to the right as needed.
    #[fusion(dtype = x, shape = [x[0], x[1], places.out[0], places.out[1]].into())]
    fn depthwise(x: FloatTensor<Self>, weight: FloatTensor<Self>, places: Places) -> FloatTensor<Self>;

    /// Convolution of all channels to all, to `out` rows and columns; `weight` `[output, c, k, k]`, otherwise as
    /// [`MapOps::depthwise`].
    #[fusion(dtype = x, shape = [x[0], weight[0], places.out[0], places.out[1]].into())]
    fn dense(x: FloatTensor<Self>, weight: FloatTensor<Self>, places: Places) -> FloatTensor<Self>;

    /// Mean and biased variance of each channel of each group, `[2, groups, c]`, float32. Has no gradient.
    #[fusion(dtype = DType::F32, shape = [2, groups.len(), x[1]].into())]
    fn statistics(x: FloatTensor<Self>, groups: Vec<usize>) -> FloatTensor<Self>;

    /// The mean of each plane, `[n, c]`, float32.
    #[fusion(dtype = DType::F32, shape = [x[0], x[1]].into())]
    fn means(x: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Each plane of `x` times its number in `gate`, `[n, c]`, float32.
    #[fusion(dtype = x, shape = x)]
    fn scale(x: FloatTensor<Self>, gate: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Which convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convolution {
    /// See [`depthwise`].
    Depthwise(Places),
    /// See [`dense`].
    Dense(Places),
}

impl Convolution {
    /// The output's shape, for a map of this shape and so many filters.
    #[cfg(feature = "cube")]
    pub(crate) fn output(self, [batch, channels, ..]: [usize; 4], filters: usize) -> [usize; 4] {
        match self {
            Self::Depthwise(Places { out, .. }) => [batch, channels, out[0], out[1]],
            Self::Dense(Places { out, .. }) => [batch, filters, out[0], out[1]],
        }
    }
}

/// Where the kernel of a convolution is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Steps between places.
    pub stride: usize,
    /// Steps between the pixels under the kernel; 1 where they are neighbours.
    pub dilation: usize,
    /// Zeros above and to the left.
    pub before: [usize; 2],
    /// Places below each other and beside each other.
    pub out: [usize; 2],
}

/// Whether a tensor is one these operations serve.
pub fn serves<const D: usize>(x: &Tensor<D>) -> bool {
    let own = match x.device().without_autodiff().as_dispatch() {
        DispatchDevice::Flex(_) => true,
        #[cfg(feature = "cube")]
        DispatchDevice::Cube(_) => true,
        #[allow(unreachable_patterns)] // which devices there are depends on who builds Burn
        _ => false,
    };
    own && matches!(x.dtype(), DType::F32 | DType::BF16 | DType::F16)
}

/// Whether the operations on `x` take normalisation groups of these sizes: on the CPU any, elsewhere as
/// `kindling_layers::pass::normalisation_groups` makes them, even ones with the larger first.
pub fn serves_groups<const D: usize>(x: &Tensor<D>, groups: &[usize]) -> bool {
    let even = groups.is_sorted_by(|a, b| a >= b) && groups.first().zip(groups.last()).is_none_or(|(a, b)| a - b <= 1);
    even || on_cpu(x)
}

/// Whether a tensor lies in the process's own memory.
pub fn on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    is_cpu(x.device())
}

fn is_cpu(device: Device) -> bool {
    matches!(device.without_autodiff().as_dispatch(), DispatchDevice::Flex(_))
}

/// Whether a device infers each sample by itself: to the bit the same whatever samples are computed beside it. The CPU does;
/// others choose their kernels by the size of the batch.
pub fn infers_samples_alone(device: &Device) -> bool {
    is_cpu(device.clone())
}

/// Depthwise convolution to `ceil(size / stride)` rows and columns; `x` `[n, c, h, w]`, `weight` `[c, 1, k, k]` float32,
/// `before` zeros above and to the left, and as many below and to the right as needed.
///
/// The caller has asked [`serves`] and [`depthwise_kernel`].
pub fn depthwise(x: Tensor<4>, weight: Tensor<4>, places: Places) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as MapOps>::depthwise(x.into_dispatch(), weight.into_dispatch(), places))
}

/// Convolution of all channels to all; `x` `[n, c, h, w]`, `weight` `[output, c, k, k]` float32.
///
/// The caller has asked [`serves`].
pub fn dense(x: Tensor<4>, weight: Tensor<4>, places: Places) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as MapOps>::dense(x.into_dispatch(), weight.into_dispatch(), places))
}

/// Either of the two.
pub fn conv(x: Tensor<4>, weight: Tensor<4>, convolution: Convolution) -> Tensor<4> {
    match convolution {
        Convolution::Depthwise(places) => depthwise(x, weight, places),
        Convolution::Dense(places) => dense(x, weight, places),
    }
}

/// Whether there is a depthwise operation for kernels of this side.
pub fn depthwise_kernel(kernel: usize) -> bool {
    matches!(kernel, 3 | 5 | 7 | 9 | 11)
}

/// Mean and biased variance of each channel of each group of consecutive samples, `[2, groups, c]` float32; `x`
/// `[n, c, h, w]` is on the device without gradients.
pub fn statistics(x: Tensor<4>, groups: Vec<usize>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as MapOps>::statistics(x.into_dispatch(), groups))
}

/// The mean of each plane of `x` `[n, c, h, w]`: `[n, c]` float32.
pub fn means(x: Tensor<4>) -> Tensor<2> {
    Tensor::from_dispatch(<Dispatch as MapOps>::means(x.into_dispatch()))
}

/// Each plane of `x` `[n, c, h, w]` times its number in `gate` `[n, c]` float32.
pub fn scale(x: Tensor<4>, gate: Tensor<2>) -> Tensor<4> {
    Tensor::from_dispatch(<Dispatch as MapOps>::scale(x.into_dispatch(), gate.into_dispatch()))
}

/// Whether the derivative of an activation can be read from its output, as that of a sum with a shortcut is.
pub fn join_serves(activation: Activation) -> bool {
    matches!(activation, Activation::Identity | Activation::Relu)
}
