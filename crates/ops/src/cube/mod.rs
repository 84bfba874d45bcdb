//! What the operations share on CUDA, Vulkan and the other devices of CubeCL: how maps lie, and how kernels read them.
//!
//! Burn's normalisation, activation, gate and shortcut are operations of their own on these devices, each of which keeps
//! maps for backward, and its depthwise weight gradient has one thread for each number of a filter. Here a convolution's output is all that is
//! kept, as on the CPU. Depthwise convolutions, means and sums apply what comes before them while they read; dense
//! convolutions are Burn's ([`crate::convolution::cube::dense`]), and read a map that is made for them, freed behind them, and made
//! once more for backward.
//!
//! Sums are made in float32, in an order that depends on shapes alone. No kernel has yet been run on a GPU of NVIDIA: tests run on
//! Vulkan in software and on a stand-in for CUDA, which executes CUDA's text on the CPU.

pub(crate) mod blocks;
pub(crate) mod layout;
pub(crate) mod read;
pub(crate) mod source;
