//! The bytes of a DICOM file: preamble, meta information, data set.

use std::io::Read;
use std::path::Path;

use flate2::read::DeflateDecoder;
use kindling_data::{DataError, MAX_FILE_BYTES, first_bytes};
use kindling_files as files;

use super::elements::{Elements, Failure, Notation};
use super::header::Header;

/// The preamble and `DICM`.
const START: usize = 132;
/// Bytes that are read first to find the header before the pixels. If they are not enough, the whole file is read.
const HEADER_BYTES: u64 = 256 << 10;
/// "Deflated Explicit VR Little Endian".
const DEFLATED: &str = "1.2.840.10008.1.2.1.99";
const IMPLICIT_LITTLE_ENDIAN: &str = "1.2.840.10008.1.2";
const EXPLICIT_BIG_ENDIAN: &str = "1.2.840.10008.1.2.2";
const EXPLICIT_LITTLE_ENDIAN: &str = "1.2.840.10008.1.2.1";

/// A data set that has been read.
pub(crate) struct DicomFile {
    /// The data set, unpacked.
    pub(crate) bytes: Vec<u8>,
    pub(crate) elements: Elements,
    /// A UID.
    pub(crate) transfer_syntax: String,
}

/// Whether a file begins like a DICOM file.
pub(crate) fn is_dicom(path: &Path) -> bool {
    first_bytes(path, START as u64).get(START - 4..) == Some(b"DICM")
}

impl DicomFile {
    /// Reads the header before the pixels.
    pub(crate) fn open_header(path: &Path) -> Result<Self, DataError> {
        let start = first_bytes(path, HEADER_BYTES);
        let partial = start.len() as u64 >= HEADER_BYTES;
        match Self::parse(start, !partial) {
            Err(Failure::TooShort) if partial => Self::open(path),
            Err(Failure::Nonsense(reason)) => Err(unreadable(path, reason)),
            Err(Failure::TooShort) => Err(unreadable(path, "it ends too early")),
            Ok(file) => Ok(file),
        }
    }

    /// The description of its pixels.
    pub(crate) fn header(&self) -> Result<Header, String> {
        Header::of(&self.elements, &self.bytes)
    }

    /// Reads a whole file.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let io = |cause| DataError::Io { path: path.to_owned(), cause };
        let meta = std::fs::metadata(path).map_err(io)?;
        if !meta.is_file() {
            return Err(unreadable(path, "it is not a file"));
        }
        if meta.len() > MAX_FILE_BYTES {
            let megabytes = |bytes: u64| format!("{} MiB", bytes >> 20);
            let (what, limit) = (megabytes(meta.len()), megabytes(MAX_FILE_BYTES));
            return Err(DataError::TooLarge { path: path.to_owned(), what, limit });
        }
        let bytes = files::read(path, MAX_FILE_BYTES).map_err(io)?;
        Self::parse(bytes, true).map_err(|failure| match failure {
            Failure::Nonsense(reason) => unreadable(path, reason),
            Failure::TooShort => unreadable(path, "it ends too early"),
        })
    }

    /// Reads a file from its bytes; see [`Elements::read`] for `whole`.
    pub(crate) fn parse(mut bytes: Vec<u8>, whole: bool) -> Result<Self, Failure> {
        let (transfer_syntax, start) = read_meta(&bytes)?;
        if transfer_syntax == DEFLATED {
            return Self::inflated(&bytes[start..], whole);
        }
        bytes.drain(..start);
        // Some files omit the types of elements, whatever they declare. Then there are no two capital letters after the first tag.
        let typed = bytes.get(4..6).is_none_or(|kind| kind.iter().all(u8::is_ascii_uppercase));
        let explicit = typed && transfer_syntax != IMPLICIT_LITTLE_ENDIAN;
        let notation = Notation { explicit, big_endian: transfer_syntax == EXPLICIT_BIG_ENDIAN };
        let elements = Elements::read(&bytes, notation, whole)?;
        Ok(Self { bytes, elements, transfer_syntax })
    }
}

/// Bytes of a deflated data set that are unpacked first, to read its header.
const FIRST_UNPACKED: u64 = 4 << 20;
/// The most bytes around the pixels of a deflated data set.
const MAX_AROUND: u64 = 16 << 20;

impl DicomFile {
    /// Reads a deflated data set, and unpacks no more than its header announces.
    fn inflated(packed: &[u8], whole: bool) -> Result<Self, Failure> {
        let refused = |cause: std::io::Error| match whole {
            true => Failure::Nonsense(format!("it cannot be decompressed: {cause}")),
            false => Failure::TooShort,
        };
        let parse = |bytes: Vec<u8>, whole: bool| {
            let elements = Elements::read(&bytes, Notation { explicit: true, big_endian: false }, whole)?;
            Ok(Self { bytes, elements, transfer_syntax: EXPLICIT_LITTLE_ENDIAN.to_owned() })
        };
        let mut stream = DeflateDecoder::new(packed);
        let mut bytes = Vec::new();
        stream.by_ref().take(FIRST_UNPACKED).read_to_end(&mut bytes).map_err(refused)?;
        if (bytes.len() as u64) < FIRST_UNPACKED {
            return parse(bytes, whole);
        }
        let too_long = || format!("the data before its pixels is longer than {} MiB", FIRST_UNPACKED >> 20);
        let start = parse(bytes, false).map_err(|_| Failure::Nonsense(too_long()))?;
        if !whole {
            return Ok(start);
        }
        let header = start.header().map_err(Failure::Nonsense)?;
        let announced = [header.columns, header.samples, header.frames, header.allocated as usize];
        let bits =
            announced.into_iter().fold(header.rows as u64, |product, factor| product.saturating_mul(factor as u64));
        let most = (bits / 8).saturating_add(MAX_AROUND).min(MAX_FILE_BYTES);
        let mut bytes = start.bytes;
        let more = most.saturating_sub(bytes.len() as u64);
        bytes
            .try_reserve_exact(more as usize)
            .map_err(|_| Failure::Nonsense("there is not enough memory for it".to_owned()))?;
        let read = stream.by_ref().take(more).read_to_end(&mut bytes).map_err(refused)? as u64;
        if read == more && stream.read(&mut [0]).map_err(refused)? > 0 {
            let megabytes = most >> 20;
            return Err(Failure::Nonsense(format!(
                "it decompresses to more than the {megabytes} MiB that its header announces"
            )));
        }
        parse(bytes, true)
    }
}

/// The transfer syntax, and where the data set starts. The meta information is always explicit and little-endian, and
/// has no sequences (PS3.10, 7.1).
fn read_meta(bytes: &[u8]) -> Result<(String, usize), Failure> {
    if bytes.get(START - 4..START) != Some(b"DICM") {
        return Err(Failure::Nonsense("it is not a DICOM file: `DICM` is missing at byte 128".to_owned()));
    }
    let (mut at, mut syntax) = (START, None);
    while let Some([2, 0, low, high, a, b, rest @ ..]) = bytes.get(at..) {
        let (head, length) = match (&[*a, *b], rest) {
            (b"OB" | b"UN" | b"OW" | b"SQ" | b"UT", [_, _, l0, l1, l2, l3, ..]) => {
                (12, u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize)
            }
            (_, [l0, l1, ..]) => (8, usize::from(u16::from_le_bytes([*l0, *l1]))),
            _ => return Err(Failure::TooShort),
        };
        let value = bytes.get(at + head..).and_then(|rest| rest.get(..length)).ok_or(Failure::TooShort)?;
        if u16::from_le_bytes([*low, *high]) == 0x0010 {
            let text = String::from_utf8_lossy(value);
            syntax = Some(text.trim_matches(|letter: char| letter == '\0' || letter == ' ').to_owned());
        }
        at += head + length;
    }
    match syntax {
        Some(syntax) => Ok((syntax, at)),
        None => Err(Failure::Nonsense("its meta information names no transfer syntax".to_owned())),
    }
}

pub(crate) fn unreadable(path: &Path, reason: impl Into<String>) -> DataError {
    DataError::Unreadable { path: path.to_owned(), reason: reason.into() }
}
