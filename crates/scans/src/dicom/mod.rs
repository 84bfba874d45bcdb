//! DICOM files.

mod codec;
mod directory;
mod elements;
mod file;
mod frames;
mod header;
mod present;
mod rle;
mod segmentation;
mod tags;
mod written;

use std::path::Path;
use std::sync::Arc;

use kindling_data::{DataError, Format, Image, MaskLinks, MaskValues, Part, Slice, paired_in_order};

use self::file::{DicomFile, is_dicom, unreadable};
use self::segmentation::Segmentation;
use crate::Window;
use crate::kept::Kept;

pub use self::segmentation::{Maker, SegmentationFile, Series, SourceImage};

/// DICOM files and DICOMDIR: each image of a file is a sample, the patient its group.
///
/// As a mask a DICOM SEG holds the numbers of its segments. It says itself which images it is of, by their SOP Instance UIDs; an image that it
/// names and has no frame for has an empty mask.
///
/// Uncompressed, deflated, RLE, JPEG (8-bit lossy, lossless up to 16 bits) and JPEG 2000 files are supported. The values of grey images are
/// rescaled. Then the window of [`Dicom::with_window`] or the first window of the file is applied; without a window, the range of the stored bits is mapped to
/// 0 to 1. MONOCHROME1 is inverted; palettes and YBR are converted to RGB.
#[derive(Default)]
pub struct Dicom {
    window: Option<Window>,
    segmentations: Kept<Segmentation>,
}

/// The values of an image as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredValues {
    /// Height in pixels.
    pub rows: usize,
    /// Width in pixels.
    pub columns: usize,
    /// Values of a pixel: 1 or 3.
    pub samples: usize,
    /// `rows * columns * samples`, row by row, channels interleaved. YBR stays YBR, with the chroma repeated for every pixel.
    pub values: Vec<i64>,
}

impl Dicom {
    /// Where a window is given, it replaces those of the files, in the same units (Hounsfield units for CT).
    pub fn with_window(window: Option<Window>) -> Self {
        Self { window, segmentations: Kept::default() }
    }

    /// The number of images in a file.
    ///
    /// # Errors
    /// [`DataError::Io`], [`DataError::TooLarge`] and [`DataError::Unreadable`], with the path.
    pub fn frames(path: &Path) -> Result<usize, DataError> {
        Ok(DicomFile::open_header(path)?.header().map_err(|reason| unreadable(path, reason))?.frames)
    }

    /// The stored values of an image, before rescaling and windows.
    ///
    /// # Errors
    /// As [`Dicom::frames`].
    pub fn stored(path: &Path, frame: usize) -> Result<StoredValues, DataError> {
        let file = DicomFile::open(path)?;
        stored(&file, frame).map_err(|reason| unreadable(path, reason))
    }

    /// Reads an image from the bytes of a file, as [`Format::read`] does from a file. For tests that generate bytes.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the bytes.
    pub fn parse(&self, bytes: &[u8], frame: usize) -> Result<Image, String> {
        let file = DicomFile::parse(bytes.to_vec(), true).map_err(|failure| match failure {
            elements::Failure::Nonsense(reason) => reason,
            elements::Failure::TooShort => "it ends too early".to_owned(),
        })?;
        self.image(&file, frame)
    }

    fn segmentation(&self, path: &Path) -> Result<Arc<Segmentation>, DataError> {
        self.segmentations.get(path, Segmentation::open, Segmentation::size)
    }

    fn image(&self, file: &DicomFile, frame: usize) -> Result<Image, String> {
        let header = file.header()?;
        let stored = codec::decode(file, &header, frame)?;
        present::present(file, &header, frame, &stored, self.window)
    }
}

fn stored(file: &DicomFile, frame: usize) -> Result<StoredValues, String> {
    let header = file.header()?;
    let values = codec::decode(file, &header, frame)?.values().collect();
    Ok(StoredValues { rows: header.rows, columns: header.columns, samples: header.samples, values })
}

impl Format for Dicom {
    fn claims(&self, path: &Path) -> bool {
        let Some(extension) = path.extension() else {
            return is_dicom(path);
        };
        let extension = extension.to_string_lossy().to_lowercase();
        match extension.as_str() {
            "dcm" | "dicom" => true,
            "ima" => is_dicom(path),
            // Files are often named after a UID, and its last number looks like an extension.
            other => other.bytes().all(|byte| byte.is_ascii_digit()) && is_dicom(path),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<Part>, DataError> {
        let file = DicomFile::open_header(path)?;
        if !directory::is_directory(&file) {
            return list_file(path, &file);
        }
        let mut parts = Vec::new();
        for image in directory::images(path, &file)? {
            parts.extend(list_file(&image, &DicomFile::open_header(&image)?)?);
        }
        Ok(parts)
    }

    fn read(&self, part: &Part) -> Result<Image, DataError> {
        let file = DicomFile::open(&part.path)?;
        self.image(&file, part.frame.unwrap_or(0)).map_err(|reason| unreadable(&part.path, reason))
    }

    fn list_with_masks(&self, image: &Path, mask: &Path, masks: &dyn Format) -> Result<Vec<(Part, Part)>, DataError> {
        let images = self.list(image)?;
        if masks.mask_links(mask)?.is_none() {
            return paired_in_order(self, images, mask, masks);
        }
        let segmentation = self.segmentation(mask)?;
        let not_a_mask = |reason| DataError::NotAMask { path: mask.to_owned(), reason };
        let of_mask = segmentation.columns_and_rows();
        let mut pairs = Vec::with_capacity(images.len());
        for of_file in images.chunk_by(|part, next| part.path == next.path) {
            let path = &of_file[0].path;
            let file = DicomFile::open_header(path)?;
            let uid = instance(&file).unwrap_or_default();
            let header = file.header().map_err(|reason| unreadable(path, reason))?;
            let size = (header.columns, header.rows);
            if size != of_mask {
                return Err(DataError::MaskSize { name: of_file[0].name(), image: size, mask: of_mask });
            }
            for part in of_file {
                let number = segmentation.mask_of(&uid, part.frame).map_err(not_a_mask)?;
                let number = number.ok_or_else(|| {
                    not_a_mask(format!("it is a segmentation of other images than {:?}, by their UIDs", part.name()))
                })?;
                let mask = Part { path: mask.to_owned(), frame: Some(number), channels: 1, group: None };
                pairs.push((part.clone(), mask));
            }
        }
        Ok(pairs)
    }

    fn slice(&self, part: &Part) -> Result<Option<Slice>, DataError> {
        Ok(segmentation::slice_of(&DicomFile::open_header(&part.path)?, part.frame.unwrap_or(0)))
    }

    fn read_mask_values(&self, part: &Part) -> Result<MaskValues, DataError> {
        let not_a_mask = |reason| DataError::NotAMask { path: part.path.clone(), reason };
        let segmentation = self.segmentation(&part.path)?;
        segmentation.values(part.frame.unwrap_or(0)).map_err(not_a_mask)
    }

    fn mask_links(&self, mask: &Path) -> Result<Option<MaskLinks>, DataError> {
        if !Segmentation::is_in(&DicomFile::open_header(mask)?) {
            return Ok(None);
        }
        let segmentation = self.segmentation(mask)?;
        Ok(Some(MaskLinks {
            images: segmentation.images().into_iter().collect(),
            names: segmentation.segments.clone(),
        }))
    }

    fn link(&self, image: &Path) -> Result<Option<String>, DataError> {
        Ok(instance(&DicomFile::open_header(image)?))
    }
}

/// The SOP Instance UID of a file.
fn instance(file: &DicomFile) -> Option<String> {
    file.elements.text(&file.bytes, 0, tags::SOP_INSTANCE_UID)
}

fn list_file(path: &Path, file: &DicomFile) -> Result<Vec<Part>, DataError> {
    let header = file.header().map_err(|reason| unreadable(path, reason))?;
    let text = |tag| file.elements.text(&file.bytes, 0, tag);
    let several = header.frames > 1;
    // The images of a file stay together even if it names no patient.
    let alone = || several.then(|| path.display().to_string());
    let group = text(tags::PATIENT_ID).or_else(|| text(tags::STUDY_INSTANCE_UID)).or_else(alone);
    let frames = (0..header.frames).map(|frame| Part {
        path: path.to_owned(),
        frame: several.then_some(frame),
        channels: header.channels(),
        group: group.clone(),
    });
    Ok(frames.collect())
}
