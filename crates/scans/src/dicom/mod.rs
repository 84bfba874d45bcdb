//! DICOM files.

mod codec;
mod directory;
mod elements;
mod file;
mod frames;
mod header;
mod present;
mod rle;
mod tags;

use std::path::Path;

use kindling_data::{DataError, Format, Image, Part};

use self::file::{DicomFile, is_dicom, unreadable};
use crate::Window;

/// DICOM files and DICOMDIR: each image of a file is a sample, the patient its group.
///
/// Uncompressed, deflated, RLE, JPEG (8-bit lossy, lossless up to 16 bits) and JPEG 2000 files are supported. The values of grey images are
/// rescaled. Then [`Dicom::window`] or the first window of the file is applied; without a window, the range of the stored bits is mapped to
/// 0 to 1. MONOCHROME1 is inverted; palettes and YBR are converted to RGB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dicom {
    /// Replaces the windows of the files, in the same units (Hounsfield units for CT).
    pub window: Option<Window>,
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
