//! Depthwise convolution.

use burn::tensor::{Tensor, module, ops::ConvOptions};

/// Convolves each channel with its own filter, "same" padding of `kernel / 2`.
///
/// `x` is `[batch, channels, height, width]`, `weight` `[channels, 1, kernel, kernel]`.
pub(crate) fn conv(x: Tensor<4>, weight: Tensor<4>, stride: usize) -> Tensor<4> {
    let [channels, _, kernel, _] = weight.dims();
    module::conv2d(x, weight, None, ConvOptions::new([stride; 2], [kernel / 2; 2], [1, 1], channels))
}
