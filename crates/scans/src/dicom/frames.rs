//! Finds the bytes of each image of a file.

use std::ops::Range;

use super::elements::Pixels;
use super::file::DicomFile;
use super::header::Header;
use super::tags;

/// The compressed bytes of an image: its fragments, joined.
pub(crate) fn packed(file: &DicomFile, header: &Header, frame: usize) -> Result<Vec<u8>, String> {
    let Some(Pixels::Fragments(table, fragments)) = &file.elements.pixels else {
        return Err("its pixels are not compressed, although its transfer syntax says that they are".to_owned());
    };
    let of = group(file, header, table, fragments)?;
    let missing = || format!("image {frame} of {} is missing", header.frames);
    let own = of.get(frame).cloned().ok_or_else(missing)?;
    let pieces = fragments.get(own).filter(|pieces| !pieces.is_empty()).ok_or_else(missing)?;
    Ok(pieces.iter().flat_map(|place| &file.bytes[place.clone()]).copied().collect())
}

/// The fragments of each image.
fn group(
    file: &DicomFile,
    header: &Header,
    table: &Range<usize>,
    fragments: &[Range<usize>],
) -> Result<Vec<Range<usize>>, String> {
    if header.frames == 1 {
        return Ok(std::iter::once(0..fragments.len()).collect());
    }
    if header.frames == fragments.len() {
        return Ok((0..fragments.len()).map(|index| index..index + 1).collect());
    }
    let bytes = file.bytes.as_slice();
    let long = file.elements.bytes(bytes, 0, tags::EXTENDED_OFFSET_TABLE);
    let offsets: Vec<u64> = match long {
        Some(long) => long.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?))).collect(),
        None => bytes[table.clone()]
            .chunks_exact(4)
            .filter_map(|word| Some(u32::from_le_bytes(word.try_into().ok()?).into()))
            .collect(),
    };
    // Offsets count from the first fragment's item header, eight bytes before its value.
    let start = fragments.first().map_or(0, |first| first.start);
    let first_of = |offset: u64| fragments.iter().position(|place| (place.start - start) as u64 == offset);
    let mut firsts: Vec<usize> = offsets.iter().filter_map(|&offset| first_of(offset)).collect();
    if firsts.len() != header.frames {
        // Without a table, an image starts where a JPEG or JPEG 2000 stream starts.
        let starts = |place: &Range<usize>| {
            bytes[place.clone()].starts_with(&[0xFF, 0xD8]) || bytes[place.clone()].starts_with(&[0xFF, 0x4F])
        };
        firsts = (0..fragments.len()).filter(|&index| starts(&fragments[index])).collect();
    }
    if firsts.len() != header.frames || !firsts.is_sorted() {
        return Err(format!("its {} fragments cannot be assigned to its images", fragments.len()));
    }
    let ends = firsts.iter().skip(1).copied().chain([fragments.len()]);
    Ok(firsts.iter().copied().zip(ends).map(|(first, end)| first..end).collect())
}
