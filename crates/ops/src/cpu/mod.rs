//! What the operations share on the CPU: number types, vector loops, matrix products, tensors as slices; and the processor's peak.
//!
//! Burn's gradient of depthwise weights loops over channels, its batch norm is a chain of operations on whole tensors, its matrix
//! products are copied once more, and its convolutions go through other layouts. On a CPU, these were most of a training step. The
//! operations here are plain loops over planes, and matrix products on maps as they are in memory. They are spread over the cores and
//! compiled for the instruction set that is found at run time. They support the float formats on Burn's `Flex` device; everything
//! else goes through Burn's own operations, which the tests compare them with.
//!
//! Weights are float32, sums are computed in float32 or wider, and an output has the format of its input. Where the processor has
//! instructions for it, filters are rounded to bf16 when they meet a map of bf16 ([`factors`]). For maps of float64,
//! everything is float64 ([`real`]). Results do not depend on the number of threads: a plane is computed by one thread, and sums over
//! planes are added in order.

pub(crate) mod bits;
pub(crate) mod elements;
pub(crate) mod factors;
pub(crate) mod filter_cache;
mod float16;
pub(crate) mod gemm;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gemm_bf16;
#[cfg(not(target_arch = "x86_64"))]
#[path = "gemm_bf16_elsewhere.rs"]
pub(crate) mod gemm_bf16;
pub(crate) mod halves;
#[cfg(target_arch = "x86_64")]
mod inner_product;
pub(crate) mod lanes;
pub(crate) mod making;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // what only those kernels read
mod matrix;
pub(crate) mod panels;
pub(crate) mod parts;
pub(crate) mod peak;
pub(crate) mod pool;
#[cfg(test)]
mod random;
pub(crate) mod real;
pub(crate) mod room;
pub(crate) mod rounding;
pub(crate) mod tensors;
#[cfg(target_arch = "x86_64")]
mod tiles;
pub(crate) mod values;

use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_flex::FlexTensor;

use crate::reserve;

/// Whether this processor multiplies numbers of bf16 faster than those of float32 (AVX-512 BF16, AMX). Dense convolutions of maps of bf16 on
/// the CPU then round their filters, and what they normalise while they read it, to bf16; otherwise these stay float32.
pub fn multiplies_bf16() -> bool {
    gemm_bf16::pays()
}

/// What multiplies numbers of bf16 on this processor, in a word; `None` where they are widened before. It decides how products of maps of
/// bf16 are rounded. AMX has to be granted by the operating system, so two processes on one processor may differ.
pub fn bf16_instructions() -> Option<&'static str> {
    gemm_bf16::instructions()
}

/// Reserves memory for a map of `elements` numbers.
pub(crate) fn reserve(elements: usize, dtype: DType) {
    reserve::bytes(dtype.size() * elements);
}

/// Reserves memory for a tensor of the shape and format of `x`.
pub(crate) fn reserve_like(x: &FlexTensor) {
    reserve(x.shape().num_elements(), x.dtype());
}

/// Reserves memory for a gradient like `dy`, unless it will overwrite `dy`, which nothing else refers to.
pub(crate) fn reserve_unless_free(dy: &FlexTensor) {
    if !dy.is_unique() {
        reserve_like(dy);
    }
}
