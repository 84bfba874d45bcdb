//! The numbers of the elements that are used. Names and numbers are from DICOM PS3.6.

use std::fmt;

/// The number of an element: group and element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u16, pub(crate) u16);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({:04x},{:04x})", self.0, self.1)
    }
}

pub(crate) const SAMPLES_PER_PIXEL: Tag = Tag(0x0028, 0x0002);
pub(crate) const PHOTOMETRIC_INTERPRETATION: Tag = Tag(0x0028, 0x0004);
pub(crate) const PLANAR_CONFIGURATION: Tag = Tag(0x0028, 0x0006);
pub(crate) const NUMBER_OF_FRAMES: Tag = Tag(0x0028, 0x0008);
pub(crate) const ROWS: Tag = Tag(0x0028, 0x0010);
pub(crate) const COLUMNS: Tag = Tag(0x0028, 0x0011);
pub(crate) const BITS_ALLOCATED: Tag = Tag(0x0028, 0x0100);
pub(crate) const BITS_STORED: Tag = Tag(0x0028, 0x0101);
pub(crate) const HIGH_BIT: Tag = Tag(0x0028, 0x0102);
pub(crate) const PIXEL_REPRESENTATION: Tag = Tag(0x0028, 0x0103);
pub(crate) const WINDOW_CENTER: Tag = Tag(0x0028, 0x1050);
pub(crate) const WINDOW_WIDTH: Tag = Tag(0x0028, 0x1051);
pub(crate) const RESCALE_INTERCEPT: Tag = Tag(0x0028, 0x1052);
pub(crate) const RESCALE_SLOPE: Tag = Tag(0x0028, 0x1053);
pub(crate) const VOI_LUT_FUNCTION: Tag = Tag(0x0028, 0x1056);
/// Red; green and blue follow.
pub(crate) const PALETTE_DESCRIPTOR: Tag = Tag(0x0028, 0x1101);
/// Red; green and blue follow.
pub(crate) const PALETTE_DATA: Tag = Tag(0x0028, 0x1201);
pub(crate) const MODALITY_LUT_SEQUENCE: Tag = Tag(0x0028, 0x3000);
pub(crate) const FRAME_VOI_LUT_SEQUENCE: Tag = Tag(0x0028, 0x9132);
pub(crate) const PIXEL_VALUE_TRANSFORMATION_SEQUENCE: Tag = Tag(0x0028, 0x9145);
pub(crate) const SHARED_FUNCTIONAL_GROUPS_SEQUENCE: Tag = Tag(0x5200, 0x9229);
pub(crate) const PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE: Tag = Tag(0x5200, 0x9230);
pub(crate) const PATIENT_ID: Tag = Tag(0x0010, 0x0020);
pub(crate) const STUDY_INSTANCE_UID: Tag = Tag(0x0020, 0x000D);
pub(crate) const EXTENDED_OFFSET_TABLE: Tag = Tag(0x7FE0, 0x0001);
pub(crate) const FLOAT_PIXEL_DATA: Tag = Tag(0x7FE0, 0x0008);
pub(crate) const DOUBLE_FLOAT_PIXEL_DATA: Tag = Tag(0x7FE0, 0x0009);
pub(crate) const PIXEL_DATA: Tag = Tag(0x7FE0, 0x0010);
pub(crate) const FILE_SET_CONSISTENCY_FLAG: Tag = Tag(0x0004, 0x1212);
pub(crate) const DIRECTORY_RECORD_SEQUENCE: Tag = Tag(0x0004, 0x1220);
pub(crate) const RECORD_IN_USE_FLAG: Tag = Tag(0x0004, 0x1410);
pub(crate) const DIRECTORY_RECORD_TYPE: Tag = Tag(0x0004, 0x1430);
pub(crate) const REFERENCED_FILE_ID: Tag = Tag(0x0004, 0x1500);
