//! What the decoder of TIFF does not do: several pages in a file, and grey floating point.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use ::tiff::ColorType;
use ::tiff::decoder::{Decoder, DecodingResult, Limits};
use ::tiff::tags::{SampleFormat, Tag};

use super::limits::{Input, MAX_DECODER_BYTES, check_size, unreadable};
use crate::error::DataError;

/// The most pages that are looked for.
const MOST_PAGES: usize = 1 << 16;
/// The most bytes of a page's directory: as many entries as the classic format can count.
const MOST_DIRECTORY: u64 = 20 << 16;
/// The tag that says what a page is beside the others (TIFF 6.0, `NewSubfileType`): bit 0 marks one of lower resolution, bit 2 a
/// mask.
const SUBFILE: u16 = 254;
const NO_PAGE: u32 = 0b101;

/// Where a file keeps the place of its first directory, and how it writes numbers.
#[derive(Clone, Copy, Debug)]
struct Layout {
    little: bool,
    /// Offsets have 64 bits (BigTIFF).
    big: bool,
}

impl Layout {
    fn read(file: &mut impl Input) -> io::Result<Option<Self>> {
        file.seek(SeekFrom::Start(0))?;
        let mut start = [0; 4];
        file.read_exact(&mut start)?;
        Ok(match start {
            [b'I', b'I', 42, 0] => Some(Self { little: true, big: false }),
            [b'M', b'M', 0, 42] => Some(Self { little: false, big: false }),
            [b'I', b'I', 43, 0] => Some(Self { little: true, big: true }),
            [b'M', b'M', 0, 43] => Some(Self { little: false, big: true }),
            _ => None,
        })
    }

    /// Where the place of the first directory stands.
    fn place(self) -> u64 {
        if self.big { 8 } else { 4 }
    }

    fn number(self, bytes: &[u8]) -> u64 {
        let digit = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if self.little { bytes.iter().rev().fold(0, digit) } else { bytes.iter().fold(0, digit) }
    }

    fn offset(self, file: &mut impl Input) -> io::Result<u64> {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..if self.big { 8 } else { 4 }];
        file.read_exact(bytes)?;
        Ok(self.number(bytes))
    }

    /// An offset as the file would write it.
    fn written(self, offset: u64) -> Vec<u8> {
        let size = if self.big { 8 } else { 4 };
        match self.little {
            true => offset.to_le_bytes()[..size].to_vec(),
            false => offset.to_be_bytes()[8 - size..].to_vec(),
        }
    }
}

/// Where the directories of a file's pages stand, in order, without previews and masks.
pub(super) fn pages(file: &mut impl Input) -> io::Result<Vec<u64>> {
    let Some(layout) = Layout::read(file)? else { return Ok(Vec::new()) };
    file.seek(SeekFrom::Start(layout.place()))?;
    let mut next = layout.offset(file)?;
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    while next != 0 && found.len() < MOST_PAGES && seen.insert(next) {
        let here = next;
        file.seek(SeekFrom::Start(here))?;
        let (count_bytes, entry, value) = if layout.big { (8, 20, 12) } else { (2, 12, 8) };
        let mut count = [0; 8];
        file.read_exact(&mut count[..count_bytes])?;
        let bytes = layout.number(&count[..count_bytes]).saturating_mul(entry);
        if bytes > MOST_DIRECTORY {
            break;
        }
        let mut entries = vec![0; bytes as usize];
        file.read_exact(&mut entries)?;
        next = layout.offset(file)?;
        let kind = entries
            .chunks_exact(entry as usize)
            .find(|entry| layout.number(&entry[..2]) == u64::from(SUBFILE))
            .map_or(0, |entry| layout.number(&entry[value..value + 4]) as u32);
        if kind & NO_PAGE == 0 {
            found.push(here);
        }
    }
    Ok(found)
}

/// A file that says its first page is another: every decoder reads the first.
pub(super) fn beginning_with(page: u64, mut file: impl Input) -> io::Result<impl Input> {
    let layout = Layout::read(&mut file)?.ok_or(io::ErrorKind::InvalidData)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(BufReader::new(Patched { file, at: 0, from: layout.place(), patch: layout.written(page) }))
}

/// A file of which some bytes are read as others.
struct Patched<R> {
    file: R,
    at: u64,
    from: u64,
    patch: Vec<u8>,
}

impl<R: Read> Read for Patched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        for (place, byte) in (self.from..).zip(&self.patch) {
            if let Some(at) = place.checked_sub(self.at).filter(|at| *at < count as u64) {
                buffer[at as usize] = *byte;
            }
        }
        self.at += count as u64;
        Ok(count)
    }
}

impl<R: Seek> Seek for Patched<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = self.file.seek(to)?;
        Ok(self.at)
    }
}

/// The size of a file's first page if that is grey in floating point of 32 bits, which `image` has no type for.
pub(super) fn grey_float(path: &Path, mut file: impl Input) -> Result<Option<(u32, u32)>, DataError> {
    // What is wrong with the file is said by whoever decodes it.
    let Ok(mut decoder) = Decoder::new(&mut file) else { return Ok(None) };
    let formats = decoder.find_tag_unsigned_vec::<u16>(Tag::SampleFormat).ok().flatten().unwrap_or_default();
    let is_float = formats.first() == Some(&SampleFormat::IEEEFP.to_u16());
    if !is_float || !matches!(decoder.colortype(), Ok(ColorType::Gray(32))) {
        return Ok(None);
    }
    let Ok((width, height)) = decoder.dimensions() else { return Ok(None) };
    check_size(path, width, height, u64::from(width) * u64::from(height) * 4)?;
    Ok(Some((width, height)))
}

/// The values of such a page.
pub(super) fn read_grey_float(path: &Path, file: impl Input) -> Result<Vec<f32>, DataError> {
    let wrong = |error: ::tiff::TiffError| unreadable(path, &error.to_string());
    let mut limits = Limits::default();
    limits.decoding_buffer_size = MAX_DECODER_BYTES as usize;
    limits.intermediate_buffer_size = MAX_DECODER_BYTES as usize;
    match Decoder::new(file).map_err(wrong)?.with_limits(limits).read_image().map_err(wrong)? {
        DecodingResult::F32(values) => Ok(values),
        _ => Err(unreadable(path, "its values are not of the kind that its header says")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;

    use super::*;

    /// A classic file of directories with one entry each, the tag 254, and nothing else.
    fn file(little: bool, kinds: &[u32]) -> Vec<u8> {
        let layout = Layout { little, big: false };
        let short = |value: u16| if little { value.to_le_bytes() } else { value.to_be_bytes() };
        let mut bytes = if little { b"II".to_vec() } else { b"MM".to_vec() };
        bytes.extend(short(42));
        bytes.extend(layout.written(8));
        for (index, kind) in kinds.iter().enumerate() {
            bytes.extend(short(1));
            bytes.extend(short(SUBFILE));
            bytes.extend(short(4));
            bytes.extend(layout.written(1));
            bytes.extend(layout.written(u64::from(*kind)));
            let next = bytes.len() as u64 + 4;
            bytes.extend(layout.written(if index + 1 < kinds.len() { next } else { 0 }));
        }
        bytes
    }

    #[test]
    fn pages_are_found_and_previews_and_masks_are_none() {
        for little in [true, false] {
            let bytes = file(little, &[0, 1, 2, 4, 0]);
            let pages = pages(&mut Cursor::new(&bytes)).unwrap();
            assert_eq!(pages, [8, 8 + 2 * 18, 8 + 4 * 18]);
            let mut turned = beginning_with(pages[2], Cursor::new(&bytes)).unwrap();
            assert_eq!(super::pages(&mut turned).unwrap(), [pages[2]]);
        }
    }

    #[test]
    fn directories_in_a_circle_end() {
        let mut bytes = file(true, &[0, 0]);
        let end = bytes.len() - 4;
        bytes[end..].copy_from_slice(&8u32.to_le_bytes());
        assert_eq!(pages(&mut Cursor::new(&bytes)).unwrap().len(), 2);
        assert!(pages(&mut Cursor::new(&bytes[..20])).is_err());
    }
}
