//! What decoders may be given and may take, and how it is told that they cannot.

use std::io::{BufRead, Seek};
use std::path::Path;

use crate::error::DataError;

/// The longest side of an image that is read, in pixels.
pub const MAX_SIDE: u32 = 32_768;
/// The largest image that is read, in pixels (8192 x 8192; 768 MiB as RGB in f32).
pub const MAX_PIXELS: u64 = 1 << 26;
/// The largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 512 << 20;
/// What a decoder may allocate, its output included, in bytes.
pub(super) const MAX_DECODER_BYTES: u64 = 768 << 20;
/// What a PNG may hold besides its pixels: text, profiles.
pub(super) const MAX_PNG_EXTRAS: u64 = 32 << 20;

/// What decoders read from, of one type for all so that each of them is compiled once.
pub(crate) trait Input: BufRead + Seek {}

impl<T: BufRead + Seek> Input for T {}

/// Fails if an image of this many pixels, and decoded of this many bytes, is too large.
///
/// # Errors
/// [`DataError::TooLarge`], and [`DataError::Unreadable`] for an image without pixels.
pub(super) fn check_size(path: &Path, width: u32, height: u32, bytes: u64) -> Result<(), DataError> {
    if width == 0 || height == 0 {
        return Err(unreadable(path, "it has no pixels"));
    }
    let too_large = |limit| {
        let what = format!("{width} x {height} pixels");
        Err(DataError::TooLarge { path: path.to_owned(), what, limit })
    };
    if width.max(height) > MAX_SIDE {
        return too_large(format!("{MAX_SIDE} a side"));
    }
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return too_large(format!("{MAX_PIXELS} pixels"));
    }
    if bytes > MAX_DECODER_BYTES {
        return too_large(format!("{} MiB decoded", MAX_DECODER_BYTES >> 20));
    }
    Ok(())
}

/// A file that is no image, or not a whole one.
pub(super) fn unreadable(path: &Path, reason: &str) -> DataError {
    DataError::Unreadable { path: path.to_owned(), reason: reason.to_owned() }
}

/// A decoder asked for more than it may have.
pub(super) fn too_much_memory(path: &Path) -> DataError {
    let limit = format!("{} MiB", MAX_DECODER_BYTES >> 20);
    DataError::TooLarge { path: path.to_owned(), what: "its decoder asks for too much memory".to_owned(), limit }
}
