//! What the operations share on the CPU: numbers, vector loops, matrix products, tensors as slices.
//!
//! Burn's depthwise weight gradient loops over channels, its batch norm is a chain of whole-tensor operations, its matrix
//! products are made twice and its convolutions go through other layouts; on a CPU these were most of a step. The operations
//! here are plain loops over planes and matrix products on the maps as they lie, spread over the cores, compiled for
//! the instruction set that is found at run time. They serve the float formats on Burn's `Flex` device; everything else takes
//! the path through Burn's own operations, which the tests compare them with.
//!
//! Weights are float32, sums are made in float32 or wider, and a map's format is that of the output. For maps of float64 all of
//! it is float64 ([`real`]). Results do not depend on the number of threads: a plane is computed by one thread, and sums over
//! planes are added in order.

pub(crate) mod gemm;
pub(crate) mod lanes;
pub(crate) mod real;
pub(crate) mod values;

use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_flex::FlexTensor;

use crate::reserve;

/// Says that a map of so many elements is about to be made.
pub(crate) fn announce(elements: usize, dtype: DType) {
    reserve::announce(dtype.size() * elements);
}

/// Says that a map, or a gradient, of this one's shape is about to be made.
pub(crate) fn announce_like(x: &FlexTensor) {
    announce(x.shape().num_elements(), x.dtype());
}

/// A gradient is written over one that nobody else has; otherwise there will be another map.
pub(crate) fn announce_unless_free(dy: &FlexTensor) {
    if !(dy.is_unique() && matches!(dy.dtype(), DType::F32 | DType::F64)) {
        announce_like(dy);
    }
}
