//! Medical file formats, for whoever opens folders and manifests with `kindling-data`. Host memory only.
//!
//! Nothing here believes a header: what is allocated is bounded by the size of the file and by the limits of
//! `kindling-data`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod dicom;
pub mod nifti;
mod window;

pub use dicom::{Dicom, StoredValues};
pub use nifti::Nifti;
pub use window::Window;
