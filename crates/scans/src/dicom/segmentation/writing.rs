//! Writes masks of a series as a DICOM SEG: binary, a segment for each class but the background (PS3.3, A.51 and C.8.20).
//!
//! Images without a pixel of a class have no frame for it. They are named all the same, so that a reader knows that they were looked at.

use kindling_data::{DataError, Mask};
use sha2::{Digest, Sha256};

use super::SEGMENTATION_STORAGE;
use super::frame::{self, Groups, Plane};
use super::series::Series;
use crate::dicom::file::unreadable;
use crate::dicom::tags;
use crate::dicom::written::{DataSet, file_of};

/// The character set of what is written, unless the images have another one.
const UTF_8: &str = "ISO_IR 192";
/// Character sets that are part of it.
const PARTS_OF_UTF_8: [&[u8]; 3] = [b"", b"ISO_IR 6", b"ISO_IR 192"];
/// The scheme of codes that only this program has: a class is what its name says, and of no known ontology.
const OWN_CODES: &str = "99KINDLING";
/// The most letters of the types LO and SH.
const LONG_TEXT: usize = 64;
/// Series written by a machine have high numbers, so that viewers list them after those of the scanner.
const SERIES_NUMBER: &str = "300";

/// Who made a segmentation, and when.
#[derive(Clone, Copy, Debug)]
pub struct Maker<'a> {
    /// The algorithm: the network's name.
    pub algorithm: &'a str,
    /// The version of this program.
    pub version: &'a str,
    /// `YYYYMMDD`.
    pub date: &'a str,
    /// `HHMMSS`.
    pub time: &'a str,
}

/// The masks of a series, to be written.
#[derive(Debug)]
pub struct SegmentationFile<'a> {
    series: &'a Series,
    classes: &'a [String],
    /// For each class but the background and each image: a bit a pixel, `None` where there is none of the class.
    frames: Vec<Vec<Option<Vec<u8>>>>,
}

impl<'a> SegmentationFile<'a> {
    /// Without a pixel of any class. `classes` begin with the background.
    pub fn new(series: &'a Series, classes: &'a [String]) -> Self {
        let frames = vec![vec![None; series.images.len()]; classes.len().saturating_sub(1)];
        Self { series, classes, frames }
    }

    /// Sets the classes of an image's pixels.
    ///
    /// # Errors
    /// [`DataError::OutOfRange`] if there is no such image, and [`DataError::MaskSize`].
    pub fn set(&mut self, image: usize, mask: &Mask) -> Result<(), DataError> {
        let Series { images, rows, columns, .. } = self.series;
        let source = images.get(image).ok_or(DataError::OutOfRange { index: image, len: images.len() })?;
        if (mask.width, mask.height) != (*columns, *rows) {
            let (name, image, mask) = (source.part.name(), (*columns, *rows), (mask.width, mask.height));
            return Err(DataError::MaskSize { name, image, mask });
        }
        for (class, frames) in (1..).zip(&mut self.frames) {
            let mut bits = vec![0; mask.classes.len().div_ceil(8)];
            for (pixel, _) in mask.classes.iter().enumerate().filter(|(_, found)| **found == class) {
                bits[pixel / 8] |= 1 << (pixel % 8);
            }
            frames[image] = bits.iter().any(|byte| *byte != 0).then_some(bits);
        }
        Ok(())
    }

    /// The bytes of the file. Its UIDs follow from what is in it, so that the same masks of the same images at the same time are the same
    /// object, and others another one.
    ///
    /// # Errors
    /// [`DataError::Unreadable`] if there is more of it than a file can hold.
    pub fn bytes(&self, maker: &Maker<'_>) -> Result<Vec<u8>, DataError> {
        let mut data_set = self.data_set(maker)?;
        let content = Sha256::digest(data_set.encode());
        let [series, instance, dimensions] = ["series", "instance", "dimensions"].map(|what| uid(&content, what));
        data_set.text(tags::SERIES_INSTANCE_UID, b"UI", &series);
        data_set.text(tags::SOP_INSTANCE_UID, b"UI", &instance);
        frame::set_dimensions(&mut data_set, &dimensions, self.series.is_in_space());
        Ok(file_of(&data_set, SEGMENTATION_STORAGE, &instance))
    }

    /// Everything but the UIDs.
    fn data_set(&self, maker: &Maker<'_>) -> Result<DataSet, DataError> {
        let mut of = self.series.copied.clone();
        let is_in_space = self.series.is_in_space();
        if !is_in_space {
            of.remove(tags::FRAME_OF_REFERENCE_UID);
            of.remove(tags::POSITION_REFERENCE);
            of.text(tags::PATIENT_ORIENTATION, b"CS", "");
        } else if !of.has(tags::POSITION_REFERENCE) {
            of.text(tags::POSITION_REFERENCE, b"LO", "");
        }
        // What the standard wants to be there, if only empty.
        for (tag, kind) in [
            (tags::STUDY_DATE, b"DA"),
            (tags::STUDY_TIME, b"TM"),
            (tags::ACCESSION_NUMBER, b"SH"),
            (tags::REFERRING_PHYSICIAN, b"PN"),
            (tags::PATIENT_NAME, b"PN"),
            (tags::PATIENT_ID, b"LO"),
            (tags::PATIENT_BIRTH_DATE, b"DA"),
            (tags::PATIENT_SEX, b"CS"),
            (tags::STUDY_ID, b"SH"),
            (tags::CONTENT_CREATOR, b"PN"),
        ] {
            if !of.has(tag) {
                of.text(tag, kind, "");
            }
        }
        let names_any_letter = self.choose_character_set(&mut of);
        let words = |text: &str| long_text(text, names_any_letter);
        of.text(tags::SOP_CLASS_UID, b"UI", SEGMENTATION_STORAGE);
        of.text(tags::IMAGE_TYPE, b"CS", "DERIVED\\PRIMARY");
        of.text(tags::MODALITY, b"CS", "SEG");
        of.text(tags::SERIES_NUMBER, b"IS", SERIES_NUMBER);
        of.text(tags::INSTANCE_NUMBER, b"IS", "1");
        of.text(tags::SERIES_DESCRIPTION, b"LO", "Segmentation by Kindling");
        for (date, time) in [(tags::SERIES_DATE, tags::SERIES_TIME), (tags::CONTENT_DATE, tags::CONTENT_TIME)] {
            of.text(date, b"DA", maker.date);
            of.text(time, b"TM", maker.time);
        }
        of.text(tags::MANUFACTURER, b"LO", "Kindling");
        of.text(tags::MODEL_NAME, b"LO", &words(maker.algorithm));
        of.text(tags::SOFTWARE_VERSIONS, b"LO", &words(maker.version));
        of.text(tags::DEVICE_SERIAL_NUMBER, b"LO", "0");
        of.text(tags::CONTENT_LABEL, b"CS", "SEGMENTATION");
        of.text(tags::CONTENT_DESCRIPTION, b"LO", &words(&format!("Masks by {}", maker.algorithm)));
        of.text(tags::SEGMENTATION_TYPE, b"CS", "BINARY");
        if !of.has(tags::LOSSY_COMPRESSION) {
            of.text(tags::LOSSY_COMPRESSION, b"CS", "00");
        }
        of.items(tags::SEGMENT_SEQUENCE, self.segments(&words(maker.algorithm), &words));
        of.items(tags::REFERENCED_SERIES_SEQUENCE, vec![self.referenced_series()]);
        self.set_pixels(&mut of)?;
        Ok(of)
    }

    /// Takes UTF-8 where the values that were copied are plain ASCII or UTF-8, and otherwise leaves their character set. Returns whether
    /// names of classes can have any letters.
    fn choose_character_set(&self, of: &mut DataSet) -> bool {
        let theirs = of.value(tags::SPECIFIC_CHARACTER_SET).unwrap_or_default().trim_ascii_end();
        let is_part = PARTS_OF_UTF_8.contains(&theirs);
        if is_part {
            of.text(tags::SPECIFIC_CHARACTER_SET, b"CS", UTF_8);
        }
        is_part
    }

    /// A description of each segment.
    fn segments(&self, algorithm: &str, words: &impl Fn(&str) -> String) -> Vec<DataSet> {
        let segment = |(number, class): (u16, &String)| {
            let mut segment = DataSet::default();
            let name = words(class);
            segment.number(tags::SEGMENT_NUMBER, number);
            segment.text(tags::SEGMENT_LABEL, b"LO", &name);
            segment.text(tags::SEGMENT_ALGORITHM_TYPE, b"CS", "AUTOMATIC");
            segment.text(tags::SEGMENT_ALGORITHM_NAME, b"LO", algorithm);
            segment.items(tags::SEGMENT_CATEGORY_SEQUENCE, vec![frame::code("85756007", "SCT", "Tissue")]);
            segment.items(tags::SEGMENT_TYPE_SEQUENCE, vec![frame::code(&number.to_string(), OWN_CODES, &name)]);
            segment
        };
        (1..).zip(self.classes.iter().skip(1)).map(segment).collect()
    }

    /// Every image, also those without a frame.
    fn referenced_series(&self) -> DataSet {
        let mut instances: Vec<(&str, &str)> = Vec::new();
        for image in &self.series.images {
            let known = (image.class.as_str(), image.instance.as_str());
            if instances.last() != Some(&known) {
                instances.push(known);
            }
        }
        let instances = instances.into_iter().map(|(class, instance)| frame::instance(class, instance)).collect();
        let mut series = DataSet::default();
        series.text(tags::SERIES_INSTANCE_UID, b"UI", &self.series.uid);
        series.items(tags::REFERENCED_INSTANCE_SEQUENCE, instances);
        series
    }

    /// The frames: class by class, and of each from the first position to the last.
    fn set_pixels(&self, of: &mut DataSet) -> Result<(), DataError> {
        let Series { images, rows, columns, .. } = self.series;
        let (order, positions) = frame::order(self.series);
        let mut frames: Vec<(usize, usize)> = Vec::new();
        for (class, of_class) in self.frames.iter().enumerate() {
            frames.extend(order.iter().filter(|image| of_class[**image].is_some()).map(|image| (class, *image)));
        }
        if frames.is_empty() {
            // A file has at least one frame.
            frames.push((0, order.first().copied().unwrap_or(0)));
        }
        let area = rows * columns;
        let size = (frames.len() * area).div_ceil(8);
        if size >= u32::MAX as usize {
            let path = images.first().map_or(std::path::Path::new(""), |image| &image.part.path);
            return Err(unreadable(path, "its series has too many pixels for one segmentation"));
        }
        let mut pixels = vec![0; size];
        let groups = Groups::of(self.series);
        let mut frames_groups = Vec::with_capacity(frames.len());
        for (number, (class, image)) in frames.iter().copied().enumerate() {
            if let Some(bits) = self.frames.get(class).and_then(|of_class| of_class[image].as_deref()) {
                place_bits(&mut pixels, number * area, bits);
            }
            let plane = Plane { segment: class as u16 + 1, position: positions[image], image: &images[image] };
            frames_groups.push(plane.group(groups));
        }
        of.text(tags::NUMBER_OF_FRAMES, b"IS", &frames.len().to_string());
        of.number(tags::SAMPLES_PER_PIXEL, 1);
        of.text(tags::PHOTOMETRIC_INTERPRETATION, b"CS", "MONOCHROME2");
        // Sides are at most 65,535 (`Header`).
        of.number(tags::ROWS, *rows as u16);
        of.number(tags::COLUMNS, *columns as u16);
        for (tag, value) in
            [(tags::BITS_ALLOCATED, 1), (tags::BITS_STORED, 1), (tags::HIGH_BIT, 0), (tags::PIXEL_REPRESENTATION, 0)]
        {
            of.number(tag, value);
        }
        of.items(tags::SHARED_FUNCTIONAL_GROUPS_SEQUENCE, vec![groups.shared(self.series)]);
        of.items(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE, frames_groups);
        of.bytes(tags::PIXEL_DATA, b"OB", pixels);
        Ok(())
    }
}

/// Sets the bits of `pixels` from `start` on to those of a frame, of which only pixels are set.
fn place_bits(pixels: &mut [u8], start: usize, bits: &[u8]) {
    let (byte, shift) = (start / 8, start % 8);
    for (at, &value) in bits.iter().enumerate().filter(|(_, value)| **value != 0) {
        let word = u16::from(value) << shift;
        pixels[byte + at] |= word as u8;
        // A last byte whose upper bits are no pixels has nothing to carry over.
        if word > 0xFF {
            pixels[byte + at + 1] |= (word >> 8) as u8;
        }
    }
}

/// A UID that is a UUID (PS3.5, B.2) of the eighth kind: one that is made from a hash (RFC 9562, 5.8).
fn uid(content: &[u8], what: &str) -> String {
    let hash = Sha256::new().chain_update(what).chain_update(content).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    bytes[6] = bytes[6] & 0x0F | 0x80;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    format!("2.25.{}", u128::from_be_bytes(bytes))
}

/// A text of the type LO: no more than 64 letters, and none that separates values or controls a printer.
fn long_text(text: &str, any_letter: bool) -> String {
    let plain = |letter: char| match letter {
        '\\' => '/',
        letter if letter.is_control() => ' ',
        letter if !any_letter && !letter.is_ascii() => '?',
        letter => letter,
    };
    text.chars().take(LONG_TEXT).map(plain).collect()
}
