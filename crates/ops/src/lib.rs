//! Operations on feature maps with kernels of their own, their gradients, and the devices that have them.
//!
//! Each operation has a folder. Its `mod.rs` defines what the operation computes, the functions that take tensors, and the trait that
//! a backend implements. `graph.rs` puts the operation on Burn's gradient graph, once for all backends. `cpu` and `cube` hold its
//! kernels.
//!
//! - `activation`: activation functions.
//! - `convolution`: dense, depthwise and transposed convolutions of whole maps.
//! - `statistics`: mean and variance of normalisation groups.
//! - `squeeze_excite`: the mean of each plane, and each plane times a number.
//! - `deferred`: operations that read a map through its normalisation: the map itself, convolutions, global average and max pooling,
//!   residual additions.
//! - `enlarged`: convolutions of maps whose pixels become squares of four, on the CPU.
//! - `normed_convolution`: the last convolution of a block with its normalisation, shortcut and activation, in inference on the CPU.
//! - `inverted_residual`: blocks of expansion, depthwise convolution and projection in inference on the CPU, without the maps between.
//! - `pixel_sums`: sums over the pixels of an image and their gradients, of which losses of segmentation are made.
//! - `softmax`: the probabilities of the classes of each pixel, on the CPU and without gradients.
//! - `resize`: maps of another height and width, by nearest or bilinear interpolation.
//! - `sum`: the sum and the mean of all numbers of a tensor.
//! - `twice`: a map that two operations read.
//! - `optimizer`: AdamW's update, moving averages, and reductions over all tensors of a network's state.
//!
//! They share `cpu` (number types, vector loops, matrix products, what the processor reaches), `cube` (memory layouts of maps, how
//! kernels read them), `graph` (gradients on Burn's graph), `device` (which tensors are supported) and [`reserve`] (memory is requested
//! before it is allocated). A module uses only those after it in this order: inverted_residual; normed_convolution; deferred, enlarged, squeeze_excite, optimizer;
//! convolution, statistics, pixel_sums, resize, softmax, sum, twice; activation; the shared modules.
//!
//! `device_vector` has the addresses of vectors on an NVIDIA GPU, for libraries beside CubeCL.
//!
//! `cube`, behind the feature of that name, is for CUDA, Vulkan and the other devices of CubeCL. Tensors on any other device, or of
//! any other format, go through Burn's own operations. Weights, statistics and sums are float32, and an output has the format of its
//! input map. On the CPU, maps of float64 are computed in float64 throughout.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod activation;
mod convolution;
mod cpu;
#[cfg(feature = "cube")]
mod cube;
mod deferred;
mod device;
#[cfg(feature = "cuda")]
mod device_vector;
mod enlarged;
mod graph;
mod inverted_residual;
mod normed_convolution;
mod optimizer;
mod pixel_sums;
pub mod reserve;
mod resize;
mod softmax;
mod squeeze_excite;
mod statistics;
mod sum;
mod twice;
mod upload;

pub use activation::Activation;
pub use convolution::cpu::ConvScratch;
pub use convolution::portions::{most_stretches, rows_at_once};
pub use convolution::{Convolution, Places, conv, dense, depthwise, depthwise_kernel, transposed};
pub use cpu::filter_cache::FilterCache;
pub use cpu::gemm::{packing_bytes, small_product};
pub use cpu::peak::{Peak, measured_peak};
pub use cpu::{bf16_instructions, multiplies_bf16};
pub use deferred::{Deferred, Normalisation, Pooling, Rebuild, channels_at_once, supports_residual_add};
pub use device::{
    by_planes, cast, inferred_apart, infers_samples_alone, on_cpu, plain, rounds_factors, serves, serves_groups,
    serves_on_cpu, sums_in_a_fixed_order,
};
#[cfg(feature = "cuda")]
pub use device_vector::DeviceVector;
pub use enlarged::{EnlargedScratch, convolves_enlarged, dense_of_enlarged, enlarges};
pub use inverted_residual::{InvertedResidualShape, expanded_depthwise, infers_inverted_residuals, inverted_residual};
pub use normed_convolution::{NormedConvolution, infers_normed_convolutions, normed_convolution};
pub use optimizer::{AdamWStep, AdamWTensors, adamw, adamw_serves, first_numbers, lerp, squared_norm};
pub use pixel_sums::{PIXEL_SUMS, pixel_sums, sums_pixels};
pub use resize::{Interpolation, resize};
pub use softmax::softmax_of_pixels;
pub use squeeze_excite::{channel_multiply, global_average_pool};
pub use statistics::{bessel, statistics, sums_over_groups};
pub use sum::{mean, sum};
pub use twice::twice;
pub use upload::upload;
