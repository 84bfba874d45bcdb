//! DICOM SEG: segmentations of images, written from masks and read as masks.

mod frame;
mod reading;
mod series;
mod writing;

pub(super) use reading::Segmentation;
pub(super) use series::slice_of;
pub use series::{Series, SourceImage};
pub use writing::{Maker, SegmentationFile};

/// UID of the SOP class "Segmentation Storage" (PS3.4, B.5).
pub(super) const SEGMENTATION_STORAGE: &str = "1.2.840.10008.5.1.4.1.1.66.4";
/// UID of the SOP class "Label Map Segmentation Storage" (Supplement 243).
const LABEL_MAP_SEGMENTATION_STORAGE: &str = "1.2.840.10008.5.1.4.1.1.66.7";
