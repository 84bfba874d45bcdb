//! Operations on feature maps with kernels of their own, their gradients, and the devices that have them.
//!
//! A folder an operation. Its `mod.rs` says what it computes, and has its functions for tensors and what a backend must implement;
//! `graph.rs` puts it on Burn's gradient graph, once for all backends; `cpu` and `cube` are its kernels.
//!
//! - `activation`: activation functions.
//! - `convolution`: dense, depthwise and transposed convolutions of whole maps.
//! - `statistics`: mean and variance of normalisation groups.
//! - `squeeze_excite`: the mean of each plane, and each plane times a number.
//! - `deferred`: what reads a map through its normalisation: the map itself, convolutions, means, maxima, residual sums.
//! - `optimizer`: AdamW's update, the gradients' norm, moves of running averages, and looks at the whole state.
//!
//! They share `cpu` (numbers, vector loops, matrix products), `cube` (how maps lie, how kernels read them), `graph` (gradients on
//! Burn's graph), `device` (who is served) and [`reserve`] (memory that is asked for before it is taken). Modules know those
//! below them only: deferred, squeeze_excite, then convolution, statistics, optimizer, then activation, then what they share.
//!
//! `cube`, behind the feature of that name, is for CUDA, Vulkan and the other devices of CubeCL. A tensor of any other device or
//! format takes the path through Burn's own operations. Weights, statistics and sums are float32, and a map's format is that of the
//! output; on the CPU maps of float64 are computed in float64 throughout.

mod activation;
mod convolution;
mod cpu;
#[cfg(feature = "cube")]
mod cube;
mod deferred;
mod device;
mod graph;
mod optimizer;
pub mod reserve;
mod squeeze_excite;
mod statistics;

pub use activation::Activation;
pub use convolution::cpu::ConvScratch;
pub use convolution::{Convolution, Places, conv, dense, depthwise, depthwise_kernel, transposed};
pub use cpu::gemm::{packing_bytes, small_product};
pub use deferred::{Again, Deferred, Normalisation, Pooling, join_serves};
pub use device::{by_planes, infers_samples_alone, on_cpu, plain, serves, serves_groups, serves_on_cpu};
pub use optimizer::{AdamWStep, AdamWTensors, adamw, adamw_serves, first_numbers, lerp, squared_norm};
pub use squeeze_excite::{means, scale};
pub use statistics::{bessel, statistics, sums_over_groups};
