//! Decodes the bytes of a file into stored values.

use std::borrow::Cow;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use hayro_jpeg2000::{DecodeSettings, DecoderContext};
use jpeg_decoder::{ColorTransform, Decoder, PixelFormat};

use super::elements::Pixels;
use super::file::DicomFile;
use super::header::{Header, Photometric};
use super::{frames, rle};

/// How a transfer syntax encodes pixels.
enum Packing {
    None,
    Rle,
    Jpeg,
    Jpeg2000,
}

/// The stored values of an image.
pub(crate) struct Stored {
    /// Little-endian samples, channels interleaved.
    pub(crate) bytes: Vec<u8>,
    /// Bits of a sample: 8, 16 or 32.
    pub(crate) allocated: u32,
    /// How many of these bits hold the value.
    pub(crate) stored: u32,
    /// The highest bit of the value.
    pub(crate) high_bit: u32,
    pub(crate) signed: bool,
}

impl Stored {
    /// The values, row by row, channels interleaved.
    pub(crate) fn values(&self) -> impl Iterator<Item = i64> {
        let width = self.allocated as usize / 8;
        let (down, up) = (self.high_bit + 1 - self.stored, 64 - self.stored);
        self.bytes.chunks_exact(width.max(1)).map(move |sample| {
            let mut word = [0; 8];
            word[..sample.len()].copy_from_slice(sample);
            let value = (i64::from_le_bytes(word) >> down) << up;
            if self.signed { value >> up } else { (value as u64 >> up) as i64 }
        })
    }
}

/// Decodes an image of a file. If a decoder panics on a damaged stream, this is an error like any other.
pub(crate) fn decode(file: &DicomFile, header: &Header, frame: usize) -> Result<Stored, String> {
    // This assertion is sound, because nothing that the decoders write to outlives the panic.
    catch_unwind(AssertUnwindSafe(|| decode_unguarded(file, header, frame)))
        .unwrap_or_else(|_| Err("the decoder failed on its pixels".to_owned()))
}

fn decode_unguarded(file: &DicomFile, header: &Header, frame: usize) -> Result<Stored, String> {
    if frame >= header.frames {
        return Err(format!("it has no image {frame}"));
    }
    let stored = |bytes| Stored {
        bytes,
        allocated: header.allocated.max(8),
        stored: header.stored,
        high_bit: header.high_bit,
        signed: header.signed,
    };
    match packing(&file.transfer_syntax)? {
        Packing::None => Ok(stored(native(file, header, frame)?)),
        Packing::Rle => Ok(stored(rle::unpack(&frames::packed(file, header, frame)?, header)?)),
        Packing::Jpeg => jpeg(&frames::packed(file, header, frame)?, header),
        Packing::Jpeg2000 => jpeg_2000(&frames::packed(file, header, frame)?, header),
    }
}

/// The supported transfer syntaxes (PS3.6, annex A).
fn packing(uid: &str) -> Result<Packing, String> {
    let name = match uid {
        "1.2.840.10008.1.2" | "1.2.840.10008.1.2.1" | "1.2.840.10008.1.2.2" => return Ok(Packing::None),
        "1.2.840.10008.1.2.5" => return Ok(Packing::Rle),
        "1.2.840.10008.1.2.4.50" | "1.2.840.10008.1.2.4.51" | "1.2.840.10008.1.2.4.57" | "1.2.840.10008.1.2.4.70" => {
            return Ok(Packing::Jpeg);
        }
        "1.2.840.10008.1.2.4.90" | "1.2.840.10008.1.2.4.91" => return Ok(Packing::Jpeg2000),
        "1.2.840.10008.1.2.4.80" | "1.2.840.10008.1.2.4.81" => "JPEG-LS",
        "1.2.840.10008.1.2.4.201" | "1.2.840.10008.1.2.4.202" | "1.2.840.10008.1.2.4.203" => "HTJ2K",
        "1.2.840.10008.1.2.4.110" | "1.2.840.10008.1.2.4.111" | "1.2.840.10008.1.2.4.112" => "JPEG XL",
        uid if uid.starts_with("1.2.840.10008.1.2.4.10") => "MPEG video",
        _ => "",
    };
    Err(format!("pixels compressed as {uid:?} {name} are not supported").replace("  ", " "))
}

/// Pixels that are not compressed, as little-endian interleaved samples.
fn native(file: &DicomFile, header: &Header, frame: usize) -> Result<Vec<u8>, String> {
    let Some(Pixels::Native(place, words)) = &file.elements.pixels else {
        return Err(
            "it has no pixels, or they are compressed although its transfer syntax says that they are not".to_owned()
        );
    };
    let mut pixels = Cow::Borrowed(&file.bytes[place.clone()]);
    if file.elements.big_endian && *words && header.allocated == 8 {
        // The bytes of words are swapped, across the ends of rows and images.
        pixels.to_mut().chunks_exact_mut(2).for_each(<[u8]>::reverse);
    }
    let short = || format!("image {frame} is cut off: there are only {} bytes of pixels", pixels.len());
    if header.allocated == 1 {
        let first = frame * header.len();
        let bit = |index: usize| Some(pixels.get(index / 8)? >> (index % 8) & 1);
        return (first..first + header.len()).map(bit).collect::<Option<_>>().ok_or_else(short);
    }
    let deep = header.allocated as usize / 8;
    let shared = header.photometric == Photometric::Ybr(true);
    let size = if shared { header.rows * header.columns * 2 * deep } else { header.len() * deep };
    let own = pixels.get(frame * size..(frame + 1) * size).ok_or_else(short)?;
    let mut bytes = own.to_vec();
    if file.elements.big_endian {
        bytes.chunks_exact_mut(deep).for_each(<[u8]>::reverse);
    }
    if shared {
        if deep != 1 {
            return Err("subsampled chroma of more than 8 bits is not supported".to_owned());
        }
        // Two lumas, then the chroma of both (PS3.3, C.7.6.3.1.2).
        return Ok(bytes.chunks_exact(4).flat_map(|p| [p[0], p[2], p[3], p[1], p[2], p[3]]).collect());
    }
    if header.planar {
        let plane = header.rows * header.columns * deep;
        let pixel = |at: usize| (0..3).flat_map(move |channel| channel * plane + at..channel * plane + at + deep);
        bytes = (0..plane).step_by(deep).flat_map(pixel).map(|place| bytes[place]).collect();
    }
    Ok(bytes)
}

fn jpeg(packed: &[u8], header: &Header) -> Result<Stored, String> {
    let broken = |error: jpeg_decoder::Error| format!("its JPEG cannot be decoded: {error}");
    let mut decoder = Decoder::new(Cursor::new(packed));
    decoder.set_max_decoding_buffer_size(header.len() * 2);
    decoder.read_info().map_err(broken)?;
    let info = decoder.info().ok_or("its JPEG has no header")?;
    check_size(header, info.width.into(), info.height.into())?;
    let (samples, allocated) = match info.pixel_format {
        PixelFormat::L8 => (1, 8),
        PixelFormat::L16 => (1, 16),
        PixelFormat::RGB24 => (3, 8),
        PixelFormat::CMYK32 => return Err("its JPEG is CMYK, which is not supported".to_owned()),
    };
    if samples != header.samples {
        return Err(format!("its JPEG has {samples} channels instead of {}", header.samples));
    }
    // Request the values as they are stored: "RGB" leaves them unchanged ("none" would leave them planar, line by line). The DICOM header
    // says what they mean.
    if samples == 3 {
        decoder.set_color_transform(ColorTransform::RGB);
    }
    let mut bytes = decoder.decode().map_err(broken)?;
    if allocated == 16 {
        bytes.chunks_exact_mut(2).for_each(|pair| pair.copy_from_slice(&native_word(pair).to_le_bytes()));
    }
    if bytes.len() != header.len() * allocated as usize / 8 {
        return Err("its JPEG ends too early".to_owned());
    }
    let stored = header.stored.min(allocated);
    Ok(Stored { bytes, allocated, stored, high_bit: stored - 1, signed: header.signed })
}

fn native_word(pair: &[u8]) -> u16 {
    u16::from_ne_bytes([pair[0], pair[1]])
}

fn jpeg_2000(packed: &[u8], header: &Header) -> Result<Stored, String> {
    let broken = |error: &dyn std::fmt::Display| format!("its JPEG 2000 cannot be decoded: {error}");
    let settings = DecodeSettings { resolve_palette_indices: false, strict: false, target_resolution: None };
    let image = hayro_jpeg2000::Image::new(packed, &settings).map_err(|error| broken(&error))?;
    check_size(header, image.width() as usize, image.height() as usize)?;
    let signed = is_signed(packed).ok_or("its JPEG 2000 has no header")?;
    let mut context = DecoderContext::default();
    let decoded = image.decode(&mut context).map_err(|error| broken(&error))?;
    let channels = decoded.components();
    let pixels = header.rows * header.columns;
    if channels.len() != header.samples || channels.iter().any(|channel| channel.samples().len() != pixels) {
        return Err(format!("its JPEG 2000 has {} channels instead of {}", channels.len(), header.samples));
    }
    let depth = channels.iter().map(|channel| u32::from(channel.bit_depth())).max().unwrap_or(0);
    if !(1..=24).contains(&depth) {
        return Err(format!("its JPEG 2000 has {depth} bits a sample"));
    }
    // The decoder adds half of the range to signed values, as if they were unsigned.
    let (half, range) = (1i64 << (depth - 1), 1i64 << depth);
    let value_of = move |value: f32| {
        let value = value.round() as i64 - if signed { half } else { 0 };
        match (signed, header.signed) {
            // The header decides what the same bits mean.
            (false, true) if value >= half => value - range,
            (true, false) if value < 0 => value + range,
            _ => value,
        }
    };
    let bytes = (0..pixels)
        .flat_map(|pixel| channels.iter().map(move |channel| channel.samples()[pixel]))
        .flat_map(|value| (value_of(value) as i32).to_le_bytes())
        .collect();
    Ok(Stored { bytes, allocated: 32, stored: 32, high_bit: 31, signed: true })
}

/// Whether the first component's samples are signed: the highest bit of `Ssiz`, 42 bytes into the codestream
/// (ISO/IEC 15444-1, A.5.1).
fn is_signed(packed: &[u8]) -> Option<bool> {
    let start = packed.windows(4).position(|bytes| bytes == [0xFF, 0x4F, 0xFF, 0x51])?;
    Some(packed.get(start + 42)? & 0x80 != 0)
}

fn check_size(header: &Header, width: usize, height: usize) -> Result<(), String> {
    if (width, height) == (header.columns, header.rows) {
        return Ok(());
    }
    Err(format!(
        "its header says {} x {} pixels, and its compressed image has {width} x {height}",
        header.columns, header.rows
    ))
}
