//! What is different on CUDA, read from the sources of Burn 0.22.1 and CubeCL 0.11.3 and not yet measured: meant to be
//! an upper bound.
//!
//! Maps lie with channels last, and the innermost row of what a convolution makes is padded (`cubecl-runtime`'s
//! `src/memory_management/handle.rs`). Normalisation and activation are operations of their own there, so that what
//! lies between them is kept as well. Not counted: the driver's context, and the kernels that autotuning tries when
//! there is room for them.

use kindling_layers::Activation;
use kindling_layers::trace::FeatureMap;

/// Bytes of a map of `batch` images.
pub(super) fn map_bytes(map: FeatureMap, batch: u64, element_bytes: u64) -> u64 {
    let row = map.channels as u64 * element_bytes;
    let pitch = row.next_power_of_two().clamp(16, 512);
    row.next_multiple_of(pitch) * batch * (map.height * map.width) as u64
}

/// Maps that an activation keeps between forward and backward, its input included.
pub(super) fn kept_by(activation: Activation) -> u64 {
    match activation {
        Activation::Identity => 0,
        Activation::Relu | Activation::Relu6 | Activation::LeakyRelu | Activation::Tanh => 1,
        Activation::Sigmoid | Activation::HardSigmoid | Activation::Silu => 2,
        Activation::HardSwish => 3,
    }
}

/// Maps that the backward pass of a normalisation needs beside its input and both gradients: it is composed of
/// elementwise operations and sums.
pub(super) const NORM_SCRATCH: u64 = 2;

/// What the pools hold beyond what is asked for, when `live` bytes are in use and the largest piece is `largest`: pages
/// are of the largest piece's size and a last one is partly empty; small pieces have a page of their own.
pub(super) fn overhead(live: u64, largest: u64) -> u64 {
    const SMALL_PAGE: u64 = 8 << 20;
    const MEBIBYTE: u64 = 1 << 20;
    let page = (largest + MEBIBYTE).next_multiple_of(MEBIBYTE).max(2 * MEBIBYTE);
    SMALL_PAGE + page + live / 256
}
