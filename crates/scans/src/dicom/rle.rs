//! RLE: a PackBits stream for every byte of every sample (PS3.5, annex G).

use super::header::Header;

/// Unpacks an image: little-endian samples, channels interleaved.
pub(crate) fn unpack(packed: &[u8], header: &Header) -> Result<Vec<u8>, String> {
    let word = |place: usize| -> Option<usize> {
        let bytes = packed.get(place * 4..place * 4 + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let deep = header.allocated as usize / 8;
    let pixels = header.rows * header.columns;
    let segments = word(0).ok_or("its RLE header ends too early")?;
    if deep == 0 || segments != header.samples * deep {
        return Err(format!("its RLE data has {segments} segments instead of {}", header.samples * deep));
    }
    let mut unpacked = vec![0; pixels * segments];
    for segment in 0..segments {
        let start = word(segment + 1).ok_or("its RLE header ends too early")?;
        let end = if segment + 1 < segments { word(segment + 2) } else { None }.unwrap_or(packed.len());
        let stream = packed.get(start..end).ok_or("an RLE segment lies outside the data")?;
        // The most significant byte comes first.
        let (sample, byte) = (segment / deep, deep - 1 - segment % deep);
        let places = (0..pixels).map(|pixel| (pixel * header.samples + sample) * deep + byte);
        unpack_segment(stream, places, &mut unpacked)?;
    }
    Ok(unpacked)
}

fn unpack_segment(
    stream: &[u8],
    mut places: impl ExactSizeIterator<Item = usize>,
    unpacked: &mut [u8],
) -> Result<(), String> {
    let mut rest = stream;
    while places.len() > 0 {
        let (&code, after) = rest.split_first().ok_or("an RLE segment ends too early")?;
        rest = after;
        match code as i8 {
            -128 => {}
            length @ 0.. => {
                let count = length as usize + 1;
                let literal = rest.get(..count).ok_or("an RLE segment ends too early")?;
                places.by_ref().zip(literal).for_each(|(place, &value)| unpacked[place] = value);
                rest = &rest[count..];
            }
            negative => {
                let count = 1 - isize::from(negative);
                let (&value, after) = rest.split_first().ok_or("an RLE segment ends too early")?;
                rest = after;
                places.by_ref().take(count as usize).for_each(|place| unpacked[place] = value);
            }
        }
    }
    Ok(())
}
