//! The nodes of a rank in memory of the GPU that has computed them, where NCCL takes them from.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
mod none;

#[cfg(feature = "cuda")]
pub(crate) use cuda::OnDevice;
#[cfg(not(feature = "cuda"))]
pub(crate) use none::OnDevice;
