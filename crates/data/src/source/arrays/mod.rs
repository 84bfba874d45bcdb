//! Arrays of images of one size: the formats of MNIST and of NumPy.

mod idx;
mod npy;
mod npz;
mod stack;

pub use idx::{Idx, MAX_IDX_BYTES, parse_idx, read_idx};
pub use npy::NpyHeader;
pub use npz::Npz;
pub use stack::{ImageStack, StackSource};
