//! The images that a segmentation is of: those of one series, with what a segmentation copies from them.

use std::path::{Path, PathBuf};

use kindling_data::{DataError, Part, Slice};

use super::{LABEL_MAP_SEGMENTATION_STORAGE, SEGMENTATION_STORAGE};
use crate::dicom::file::{DicomFile, unreadable};
use crate::dicom::tags::{self, Tag};
use crate::dicom::written::DataSet;
use crate::dicom::{directory, list_file, present};

/// The longest value that is copied, in bytes: longer than any that the standard allows for these elements.
const LONGEST: usize = 1 << 10;

/// What a segmentation copies from its images: the patient, the study, the clinical trial and the frame of reference, which is the same for
/// all images of a series. Values are copied as they are stored, in the character set of the file.
const COPIED: [(Tag, &[u8; 2]); 33] = [
    (tags::SPECIFIC_CHARACTER_SET, b"CS"),
    (tags::STUDY_DATE, b"DA"),
    (tags::STUDY_TIME, b"TM"),
    (tags::ACCESSION_NUMBER, b"SH"),
    (tags::REFERRING_PHYSICIAN, b"PN"),
    (tags::STUDY_DESCRIPTION, b"LO"),
    (tags::PATIENT_NAME, b"PN"),
    (tags::PATIENT_ID, b"LO"),
    // Issuer, size, weight and age of the patient.
    (Tag(0x0010, 0x0021), b"LO"),
    (tags::PATIENT_BIRTH_DATE, b"DA"),
    (tags::PATIENT_SEX, b"CS"),
    (Tag(0x0010, 0x1010), b"AS"),
    (Tag(0x0010, 0x1020), b"DS"),
    (Tag(0x0010, 0x1030), b"DS"),
    // Clinical trial: sponsor, protocol, site, subject, time point, coordinating centre.
    (Tag(0x0012, 0x0010), b"LO"),
    (Tag(0x0012, 0x0020), b"LO"),
    (Tag(0x0012, 0x0021), b"LO"),
    (Tag(0x0012, 0x0030), b"LO"),
    (Tag(0x0012, 0x0031), b"LO"),
    (Tag(0x0012, 0x0040), b"LO"),
    (Tag(0x0012, 0x0042), b"LO"),
    (Tag(0x0012, 0x0050), b"LO"),
    (Tag(0x0012, 0x0060), b"LO"),
    // Whether and how the identity was removed.
    (Tag(0x0012, 0x0062), b"CS"),
    (Tag(0x0012, 0x0063), b"LO"),
    // Body part and side.
    (Tag(0x0018, 0x0015), b"CS"),
    (tags::STUDY_INSTANCE_UID, b"UI"),
    (tags::STUDY_ID, b"SH"),
    (tags::FRAME_OF_REFERENCE_UID, b"UI"),
    (tags::POSITION_REFERENCE, b"LO"),
    (tags::LOSSY_COMPRESSION, b"CS"),
    (tags::LOSSY_RATIO, b"DS"),
    (tags::LOSSY_METHOD, b"CS"),
];

/// Images of one series that are of one size.
#[derive(Debug)]
pub struct Series {
    /// The images, file by file, in the order in which the files were given.
    pub images: Vec<SourceImage>,
    /// Its Series Instance UID.
    pub uid: String,
    /// Height in pixels.
    pub rows: usize,
    /// Width in pixels.
    pub columns: usize,
    pub(super) copied: DataSet,
    key: [Option<String>; 3],
}

/// An image of a series.
#[derive(Debug)]
pub struct SourceImage {
    /// Where it lies.
    pub part: Part,
    pub(super) class: String,
    pub(super) instance: String,
    pub(super) place: Place,
}

/// Where an image is in space, in the words of its file.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) position: Option<Vec<u8>>,
    pub(super) orientation: Option<Vec<u8>>,
    pub(super) spacing: Option<Vec<u8>>,
    pub(super) thickness: Option<Vec<u8>>,
    pub(super) between: Option<Vec<u8>>,
}

impl Series {
    /// The images of files, series by series; a DICOMDIR stands for the files that it lists. What a segmentation cannot be of comes back
    /// as errors, each with its path: damaged files, segmentations, and files without the UIDs that a segmentation refers to.
    pub fn of_files(files: &[PathBuf]) -> (Vec<Self>, Vec<DataError>) {
        let (mut found, mut errors) = (Vec::new(), Vec::new());
        for path in files {
            match listed(path) {
                Ok(listed) => {
                    for path in listed {
                        DicomFile::open_header(&path)
                            .and_then(|file| add(&mut found, &path, &file))
                            .unwrap_or_else(|error| errors.push(error));
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        (found, errors)
    }

    /// How many files the images are in.
    pub fn files(&self) -> usize {
        1 + self.images.windows(2).filter(|pair| pair[0].part.path != pair[1].part.path).count()
    }

    /// Whether all images say where they are in one frame of reference.
    pub(super) fn is_in_space(&self) -> bool {
        let is_placed = |image: &SourceImage| {
            image.place.position.is_some() && image.place.orientation.is_some() && image.place.spacing.is_some()
        };
        self.copied.has(tags::FRAME_OF_REFERENCE_UID) && self.images.iter().all(is_placed)
    }
}

/// The files that a path stands for.
fn listed(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    let file = DicomFile::open_header(path)?;
    if directory::is_directory(&file) { directory::images(path, &file) } else { Ok(vec![path.to_owned()]) }
}

/// Adds the images of a file to their series.
fn add(found: &mut Vec<Series>, path: &Path, file: &DicomFile) -> Result<(), DataError> {
    let text = |tag| file.elements.text(&file.bytes, 0, tag);
    let uid = |tag, name: &str| {
        let missing = || unreadable(path, format!("it has no {name}, by which a segmentation refers to it"));
        text(tag).filter(|uid| is_uid(uid)).ok_or_else(missing)
    };
    let class = uid(tags::SOP_CLASS_UID, "SOP Class UID")?;
    if [SEGMENTATION_STORAGE, LABEL_MAP_SEGMENTATION_STORAGE].contains(&class.as_str()) {
        return Err(unreadable(path, "it is a segmentation itself, not an image"));
    }
    let instance = uid(tags::SOP_INSTANCE_UID, "SOP Instance UID")?;
    let series = uid(tags::SERIES_INSTANCE_UID, "Series Instance UID")?;
    let study = uid(tags::STUDY_INSTANCE_UID, "Study Instance UID")?;
    let header = file.header().map_err(|reason| unreadable(path, reason))?;
    let key = [Some(series.clone()), Some(study), text(tags::FRAME_OF_REFERENCE_UID)];
    let size = (header.rows, header.columns);
    let images = list_file(path, file)?.into_iter().map(|part| {
        let place = Place::of(file, part.frame.unwrap_or(0));
        SourceImage { part, class: class.clone(), instance: instance.clone(), place }
    });
    match found.iter_mut().find(|series| series.key == key && (series.rows, series.columns) == size) {
        Some(series) => series.images.extend(images),
        None => found.push(Series {
            images: images.collect(),
            uid: series,
            rows: size.0,
            columns: size.1,
            copied: copied(file),
            key,
        }),
    }
    Ok(())
}

/// Whether a text can be a UID (PS3.5, 9.1).
fn is_uid(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn copied(file: &DicomFile) -> DataSet {
    let mut copied = DataSet::default();
    for (tag, kind) in COPIED {
        if let Some(value) = file.elements.bytes(&file.bytes, 0, tag).filter(|value| value.len() <= LONGEST) {
            copied.bytes(tag, kind, value);
        }
    }
    copied
}

impl Place {
    /// Of an image of a file, by its own functional groups, the shared ones, or the data set.
    fn of(file: &DicomFile, frame: usize) -> Self {
        let value = |sequence, tag| {
            let item = present::place_of(file, frame, sequence, tag);
            let value = file.elements.bytes(&file.bytes, item, tag)?;
            (value.len() <= LONGEST).then(|| value.to_vec())
        };
        Self {
            position: value(tags::PLANE_POSITION_SEQUENCE, tags::IMAGE_POSITION),
            orientation: value(tags::PLANE_ORIENTATION_SEQUENCE, tags::IMAGE_ORIENTATION),
            spacing: value(tags::PIXEL_MEASURES_SEQUENCE, tags::PIXEL_SPACING),
            thickness: value(tags::PIXEL_MEASURES_SEQUENCE, tags::SLICE_THICKNESS),
            between: value(tags::PIXEL_MEASURES_SEQUENCE, tags::SPACING_BETWEEN_SLICES),
        }
    }

    /// How far along the normal of its plane the image lies, mm; `None` if its numbers cannot be read.
    pub(super) fn along_normal(&self) -> Option<f64> {
        let ([x, y, z], [a, b, c]) = (numbers(self.position.as_deref()?)?, self.normal()?);
        Some(x * a + y * b + z * c)
    }

    /// The direction that is at a right angle to rows and columns.
    fn normal(&self) -> Option<[f64; 3]> {
        let [a, b, c, d, e, f] = numbers(self.orientation.as_deref()?)?;
        Some([b * f - c * e, c * d - a * f, a * e - b * d])
    }
}

/// Where an image of a file lies in its series; `None` if the file does not say.
pub(in crate::dicom) fn slice_of(file: &DicomFile, frame: usize) -> Option<Slice> {
    let series = file.elements.text(&file.bytes, 0, tags::SERIES_INSTANCE_UID)?;
    let place = Place::of(file, frame);
    let pixel = numbers(place.spacing.as_deref()?)?;
    let usable = pixel.iter().all(|distance| *distance > 0.0);
    let (position, normal) = (place.along_normal()?, place.normal()?);
    usable.then_some(Slice { volume: Some(series), position, normal, apart: None, pixel })
}

/// The numbers of a text, separated by `\`.
fn numbers<const COUNT: usize>(text: &[u8]) -> Option<[f64; COUNT]> {
    let text = std::str::from_utf8(text).ok()?;
    let trimmed = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
    let numbers: Option<Vec<f64>> = trimmed.split('\\').map(|number| number.trim().parse().ok()).collect();
    numbers?.try_into().ok().filter(|numbers: &[f64; COUNT]| numbers.iter().all(|number| number.is_finite()))
}
