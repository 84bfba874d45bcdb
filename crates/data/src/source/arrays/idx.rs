//! The IDX format of MNIST and its descendants: big-endian sizes, then bytes.
//!
//! Source: "The IDX file format", Y. LeCun, C. Cortes and C. Burges, on the MNIST page.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use kindling_files as files;

use crate::error::DataError;

/// The largest array that is read, in bytes; MNIST's largest has 47 MB.
pub const MAX_IDX_BYTES: u64 = 1 << 30;
/// The code of unsigned bytes, the only values that are understood.
const UNSIGNED_BYTES: u8 = 0x08;

/// An array of unsigned bytes from an IDX file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// The length of each dimension, the slowest first: `[images, rows, columns]` or `[labels]`.
    pub sizes: Vec<usize>,
    /// The values, the last dimension fastest; as many as the sizes say.
    pub values: Vec<u8>,
}

/// Reads an IDX file of unsigned bytes, plain or packed with gzip (which is recognised by content).
///
/// # Errors
/// [`DataError::Io`], [`DataError::TooLarge`] (beyond [`MAX_IDX_BYTES`]) and [`DataError::Unreadable`] (another type of
/// value, too short, too long, not gzip), with the path.
pub fn read_idx(path: &Path) -> Result<Idx, DataError> {
    let io = |cause| DataError::Io { path: path.to_owned(), cause };
    let mut start = [0; 2];
    let mut file = files::open(path).map_err(io)?;
    let packed = file.read_exact(&mut start).is_ok() && start == [0x1f, 0x8b];
    let file = files::open(path).map_err(io)?;
    let parsed = if packed { parse(GzDecoder::new(file)) } else { parse(file) };
    parsed.map_err(|problem| match problem {
        Problem::Nonsense(reason) => DataError::Unreadable { path: path.to_owned(), reason },
        Problem::TooLarge(what) => {
            DataError::TooLarge { path: path.to_owned(), what, limit: format!("{} MiB", MAX_IDX_BYTES >> 20) }
        }
    })
}

/// Reads an IDX array from bytes.
///
/// # Errors
/// What is wrong with them, in words.
pub fn parse_idx(bytes: &[u8]) -> Result<Idx, String> {
    parse(bytes).map_err(|problem| match problem {
        Problem::Nonsense(reason) | Problem::TooLarge(reason) => reason,
    })
}

enum Problem {
    Nonsense(String),
    TooLarge(String),
}

fn parse(mut from: impl Read) -> Result<Idx, Problem> {
    let nonsense = |reason: &str| Problem::Nonsense(reason.to_owned());
    // A packed stream reports damage as an error of reading.
    let ended = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::UnexpectedEof => nonsense("it ends too early"),
        _ => Problem::Nonsense(cause.to_string()),
    };
    let mut magic = [0; 4];
    from.read_exact(&mut magic).map_err(ended)?;
    let [0, 0, kind, dimensions @ 1..=4] = magic else { return Err(nonsense("it is not an IDX file")) };
    if kind != UNSIGNED_BYTES {
        return Err(Problem::Nonsense(format!("its values are of type {kind:#04x}, not unsigned bytes (0x08)")));
    }
    let mut sizes = Vec::with_capacity(usize::from(dimensions));
    let mut total: u64 = 1;
    for _ in 0..dimensions {
        let mut size = [0; 4];
        from.read_exact(&mut size).map_err(ended)?;
        let size = u32::from_be_bytes(size);
        sizes.push(size as usize);
        total = total.saturating_mul(u64::from(size));
    }
    if total > MAX_IDX_BYTES {
        return Err(Problem::TooLarge(format!("{sizes:?} bytes")));
    }
    // What is there is read, and no more than the header says: neither can be used to make us allocate.
    let mut values = Vec::new();
    from.by_ref().take(total).read_to_end(&mut values).map_err(ended)?;
    if values.len() as u64 != total {
        return Err(nonsense("it ends too early"));
    }
    if from.read(&mut [0]).map_err(ended)? != 0 {
        return Err(nonsense("it goes on after its last value"));
    }
    Ok(Idx { sizes, values })
}
