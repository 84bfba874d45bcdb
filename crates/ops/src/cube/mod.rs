//! What the operations share on CUDA, Vulkan and the other devices of CubeCL: the memory layout of maps, and how kernels read them.
//!
//! In Burn, normalisation, activation, gate and shortcut are separate operations, and each keeps maps for the backward pass; the
//! gradient of depthwise weights runs one thread for each weight. Here only the output of each convolution is kept, as on the CPU.
//! Depthwise convolutions, pools and residual additions apply the normalisation before them while they read. Dense convolutions are
//! cubek's ([`crate::convolution::cube::dense`]); the normalised map that they read is computed for them, freed after them, and
//! computed once more for the backward pass.
//!
//! In CubeCL's terms, a kernel is launched as a grid of cubes (CUDA's blocks), each of which has units (CUDA's threads). Sums are
//! computed in float32, in an order that depends on shapes alone. Tests run on Vulkan in software, on a stand-in for CUDA that executes
//! CUDA's source text on the CPU, and on a GPU where there is one (`docs/how-to/measure.md`).

pub(crate) mod blocks;
pub(crate) mod layout;
pub(crate) mod place;
pub(crate) mod product;
pub(crate) mod read;
pub(crate) mod source;
pub(crate) mod units;
