//! Medical file formats for the sources of `kindling-data`. Everything is in host memory.
//!
//! Headers are not trusted: allocations are bounded by the size of the file and by the limits of `kindling-data`.
//!
//! For DICOM, `dicom::elements` finds the elements of a file, `dicom::frames` the bytes of an image, `dicom::codec` decodes them into stored
//! values, and `dicom::present` turns those into an image as a viewer shows it; `dicom::directory` reads DICOMDIR. [`nifti`] reads volumes,
//! finds their axes, cuts slices, and checks what the scripts of data sets have fetched.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod dicom;
mod kept;
pub mod nifti;
mod window;

pub use dicom::{Dicom, Maker, SegmentationFile, Series, SourceImage, StoredValues};
pub use nifti::Nifti;
pub use window::Window;
