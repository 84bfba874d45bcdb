//! The size of a cube.

/// Units of a cube.
pub(crate) const UNITS: u32 = 256;
