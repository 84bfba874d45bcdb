//! Sums over the pixels of images, of which losses of segmentation are made: one pass over the logits in either direction, and no map
//! besides.

mod cpu;
mod graph;

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::Tensor;

use crate::device::{on_cpu, serves};

/// The sums in the output of [`pixel_sums()`], in its order.
pub const PIXEL_SUMS: usize = 4;

/// Whether [`pixel_sums()`] supports these logits: on the CPU.
pub fn sums_pixels(logits: &Tensor<4>) -> bool {
    on_cpu(logits) && serves(logits)
}

/// Sums over the pixels of each image, `[n, 4, c]`, in float32, or float64 for logits of float64. `logits` are `[n, c, h, w]`; `truth` has the
/// class of each pixel, image by image and row by row. A pixel whose class is `c` or more counts nowhere. With `p` the softmax of a
/// pixel over the classes, the sums of a class are, in this order:
///
/// | sum | over which pixels |
/// |---|---|
/// | `p` | those of the class |
/// | `p` | all that count |
/// | `ln p` | those of the class |
/// | `ln p` | all that count |
///
/// They are added up in float64, in an order that does not depend on the number of threads. The caller must have checked [`sums_pixels`].
///
/// # Panics
/// If `truth` has another number of pixels than the images.
pub fn pixel_sums(logits: Tensor<4>, truth: Arc<[u8]>) -> Tensor<3> {
    let [images, _, height, width] = logits.dims();
    assert_eq!(truth.len(), images * height * width, "every pixel has a class");
    Tensor::from_dispatch(<Dispatch as PixelSums>::pixel_sums(logits.into_dispatch(), truth))
}

/// See the module.
#[backend_extension(Autodiff, Flex)]
pub(crate) trait PixelSums: Backend {
    /// See [`pixel_sums()`].
    fn pixel_sums(logits: FloatTensor<Self>, truth: Arc<[u8]>) -> FloatTensor<Self>;
}

/// The backward pass of [`PixelSums`].
#[backend_extension(Flex)]
pub(crate) trait PixelSumsGradient: Backend {
    /// The gradient of the logits for the gradient `[n, 4, c]` of the sums. With `a = p g_p + g_ln` of each class, where `g_p` and `g_ln` are
    /// the gradients of what a pixel's `p` and `ln p` are added to, it is `a - p sum(a)`.
    fn pixel_sums_backward(
        logits: FloatTensor<Self>,
        truth: Arc<[u8]>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}
