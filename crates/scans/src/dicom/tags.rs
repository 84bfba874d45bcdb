//! The numbers of the elements that are used. Names and numbers are from DICOM PS3.6.

use std::fmt;

/// The number of an element: group and element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
pub(crate) const PIXEL_PADDING_VALUE: Tag = Tag(0x0028, 0x0120);
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

// What segmentations say of themselves and of their images.
pub(crate) const SPECIFIC_CHARACTER_SET: Tag = Tag(0x0008, 0x0005);
pub(crate) const IMAGE_TYPE: Tag = Tag(0x0008, 0x0008);
pub(crate) const SOP_CLASS_UID: Tag = Tag(0x0008, 0x0016);
pub(crate) const SOP_INSTANCE_UID: Tag = Tag(0x0008, 0x0018);
pub(crate) const STUDY_DATE: Tag = Tag(0x0008, 0x0020);
pub(crate) const SERIES_DATE: Tag = Tag(0x0008, 0x0021);
pub(crate) const CONTENT_DATE: Tag = Tag(0x0008, 0x0023);
pub(crate) const STUDY_TIME: Tag = Tag(0x0008, 0x0030);
pub(crate) const SERIES_TIME: Tag = Tag(0x0008, 0x0031);
pub(crate) const CONTENT_TIME: Tag = Tag(0x0008, 0x0033);
pub(crate) const ACCESSION_NUMBER: Tag = Tag(0x0008, 0x0050);
pub(crate) const MODALITY: Tag = Tag(0x0008, 0x0060);
pub(crate) const MANUFACTURER: Tag = Tag(0x0008, 0x0070);
pub(crate) const REFERRING_PHYSICIAN: Tag = Tag(0x0008, 0x0090);
pub(crate) const CODE_VALUE: Tag = Tag(0x0008, 0x0100);
pub(crate) const CODING_SCHEME: Tag = Tag(0x0008, 0x0102);
pub(crate) const CODE_MEANING: Tag = Tag(0x0008, 0x0104);
pub(crate) const STUDY_DESCRIPTION: Tag = Tag(0x0008, 0x1030);
pub(crate) const SERIES_DESCRIPTION: Tag = Tag(0x0008, 0x103E);
pub(crate) const MODEL_NAME: Tag = Tag(0x0008, 0x1090);
pub(crate) const REFERENCED_SERIES_SEQUENCE: Tag = Tag(0x0008, 0x1115);
pub(crate) const REFERENCED_INSTANCE_SEQUENCE: Tag = Tag(0x0008, 0x114A);
pub(crate) const REFERENCED_SOP_CLASS_UID: Tag = Tag(0x0008, 0x1150);
pub(crate) const REFERENCED_SOP_INSTANCE_UID: Tag = Tag(0x0008, 0x1155);
pub(crate) const REFERENCED_FRAME_NUMBER: Tag = Tag(0x0008, 0x1160);
pub(crate) const SOURCE_IMAGE_SEQUENCE: Tag = Tag(0x0008, 0x2112);
pub(crate) const DERIVATION_IMAGE_SEQUENCE: Tag = Tag(0x0008, 0x9124);
pub(crate) const DERIVATION_CODE_SEQUENCE: Tag = Tag(0x0008, 0x9215);
pub(crate) const PATIENT_NAME: Tag = Tag(0x0010, 0x0010);
pub(crate) const PATIENT_BIRTH_DATE: Tag = Tag(0x0010, 0x0030);
pub(crate) const PATIENT_SEX: Tag = Tag(0x0010, 0x0040);
pub(crate) const SLICE_THICKNESS: Tag = Tag(0x0018, 0x0050);
pub(crate) const SPACING_BETWEEN_SLICES: Tag = Tag(0x0018, 0x0088);
pub(crate) const DEVICE_SERIAL_NUMBER: Tag = Tag(0x0018, 0x1000);
pub(crate) const SOFTWARE_VERSIONS: Tag = Tag(0x0018, 0x1020);
pub(crate) const SERIES_INSTANCE_UID: Tag = Tag(0x0020, 0x000E);
pub(crate) const STUDY_ID: Tag = Tag(0x0020, 0x0010);
pub(crate) const SERIES_NUMBER: Tag = Tag(0x0020, 0x0011);
pub(crate) const INSTANCE_NUMBER: Tag = Tag(0x0020, 0x0013);
pub(crate) const PATIENT_ORIENTATION: Tag = Tag(0x0020, 0x0020);
pub(crate) const IMAGE_POSITION: Tag = Tag(0x0020, 0x0032);
pub(crate) const IMAGE_ORIENTATION: Tag = Tag(0x0020, 0x0037);
pub(crate) const FRAME_OF_REFERENCE_UID: Tag = Tag(0x0020, 0x0052);
pub(crate) const POSITION_REFERENCE: Tag = Tag(0x0020, 0x1040);
pub(crate) const FRAME_CONTENT_SEQUENCE: Tag = Tag(0x0020, 0x9111);
pub(crate) const PLANE_POSITION_SEQUENCE: Tag = Tag(0x0020, 0x9113);
pub(crate) const PLANE_ORIENTATION_SEQUENCE: Tag = Tag(0x0020, 0x9116);
pub(crate) const DIMENSION_INDEX_VALUES: Tag = Tag(0x0020, 0x9157);
pub(crate) const DIMENSION_ORGANIZATION_UID: Tag = Tag(0x0020, 0x9164);
pub(crate) const DIMENSION_INDEX_POINTER: Tag = Tag(0x0020, 0x9165);
pub(crate) const FUNCTIONAL_GROUP_POINTER: Tag = Tag(0x0020, 0x9167);
pub(crate) const DIMENSION_ORGANIZATION_SEQUENCE: Tag = Tag(0x0020, 0x9221);
pub(crate) const DIMENSION_INDEX_SEQUENCE: Tag = Tag(0x0020, 0x9222);
pub(crate) const DIMENSION_LABEL: Tag = Tag(0x0020, 0x9421);
pub(crate) const PIXEL_SPACING: Tag = Tag(0x0028, 0x0030);
pub(crate) const SPATIAL_LOCATIONS_PRESERVED: Tag = Tag(0x0028, 0x135A);
pub(crate) const LOSSY_COMPRESSION: Tag = Tag(0x0028, 0x2110);
pub(crate) const LOSSY_RATIO: Tag = Tag(0x0028, 0x2112);
pub(crate) const LOSSY_METHOD: Tag = Tag(0x0028, 0x2114);
pub(crate) const PIXEL_MEASURES_SEQUENCE: Tag = Tag(0x0028, 0x9110);
pub(crate) const PURPOSE_SEQUENCE: Tag = Tag(0x0040, 0xA170);
pub(crate) const SEGMENTATION_TYPE: Tag = Tag(0x0062, 0x0001);
pub(crate) const SEGMENT_SEQUENCE: Tag = Tag(0x0062, 0x0002);
pub(crate) const SEGMENT_CATEGORY_SEQUENCE: Tag = Tag(0x0062, 0x0003);
pub(crate) const SEGMENT_NUMBER: Tag = Tag(0x0062, 0x0004);
pub(crate) const SEGMENT_LABEL: Tag = Tag(0x0062, 0x0005);
pub(crate) const SEGMENT_ALGORITHM_TYPE: Tag = Tag(0x0062, 0x0008);
pub(crate) const SEGMENT_ALGORITHM_NAME: Tag = Tag(0x0062, 0x0009);
pub(crate) const SEGMENT_IDENTIFICATION_SEQUENCE: Tag = Tag(0x0062, 0x000A);
pub(crate) const REFERENCED_SEGMENT_NUMBER: Tag = Tag(0x0062, 0x000B);
pub(crate) const MAXIMUM_FRACTIONAL_VALUE: Tag = Tag(0x0062, 0x000E);
pub(crate) const SEGMENT_TYPE_SEQUENCE: Tag = Tag(0x0062, 0x000F);
pub(crate) const CONTENT_LABEL: Tag = Tag(0x0070, 0x0080);
pub(crate) const CONTENT_DESCRIPTION: Tag = Tag(0x0070, 0x0081);
pub(crate) const CONTENT_CREATOR: Tag = Tag(0x0070, 0x0084);
