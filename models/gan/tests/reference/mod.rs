//! The networks against PyTorch.
//!
//! `golden/gan.json` was made by `golden/gan.py`, which explains how weights and inputs are filled from names by a
//! formula, so that no weights need to be stored.

mod cases;
mod fill;
mod gradients;
mod network;

pub(crate) use cases::{blocks_equal_pytorchs, dcgan_equals_pytorch, fastgan_equals_pytorch};

/// How close is close: a share of the largest expected number, and for gradients of each expected norm; or ten times
/// the reference's own difference between float32 and float64, where that is larger and the flag says so.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    /// Share of the largest expected number.
    pub(crate) relative: f64,
    /// Share of the expected gradient norms.
    pub(crate) gradients: f64,
    /// Whether the reference's own rounding counts.
    pub(crate) of_reference: bool,
}
