//! Medical file formats, for whoever opens folders and manifests with `kindling-data`. Host memory only.
//!
//! Nothing here believes a header: what is allocated is bounded by the size of the file and by the limits of
//! `kindling-data`.

mod dicom;
mod window;

pub use dicom::{Dicom, StoredValues};
pub use window::Window;
