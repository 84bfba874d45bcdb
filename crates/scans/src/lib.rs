//! Medical file formats, for whoever opens folders and manifests with `kindling-data`. Host memory only.
//!
//! Nothing here believes a header: what is allocated is bounded by the size of the file and by the limits of
//! `kindling-data`.
//!
//! DICOM: `dicom::elements` finds the elements of a file, `dicom::frames` the bytes of an image, `dicom::codec` turns them into stored
//! values and `dicom::present` those into what a person would see; `dicom::directory` is DICOMDIR. [`nifti`] reads volumes, finds their
//! axes and cuts slices.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod dicom;
pub mod nifti;
mod window;

pub use dicom::{Dicom, StoredValues};
pub use nifti::Nifti;
pub use window::Window;
