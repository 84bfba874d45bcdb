//! Reads a NIfTI-1 file without trusting it: the header is checked before any voxel is read.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use data_encoding::HEXLOWER;
use flate2::bufread::GzDecoder;
use kindling_files as files;
use nifti::{NiftiHeader, NiftiType};
use sha2::{Digest, Sha256};

use crate::nifti::axes::{Axis, anatomical_axes};
use crate::nifti::grid::Grid;
use crate::nifti::labels::Labels;
use crate::nifti::volume::Volume;
use crate::nifti::voxels::Voxels;

/// The most voxels along an axis.
const MAX_SIDE: usize = 1024;
/// The most voxels of a volume: four times the largest of our volumes.
const MAX_VOXELS: usize = 1 << 27;
/// The most bytes between header and voxels, and after the voxels.
const MAX_EXTRA: u64 = 1 << 20;
/// The header and the four bytes that say whether extensions follow.
pub(crate) const HEADER_BYTES: u64 = 348;
pub(crate) const FIRST_VOXEL: u64 = 352;

/// A volume and the SHA-256 of its unpacked file, in hexadecimal.
#[derive(Debug)]
pub struct Loaded {
    /// The voxels with their grid.
    pub volume: Volume,
    /// SHA-256 of the unpacked file, in hexadecimal digits.
    pub sha256: String,
}

/// Errors of reading a volume.
#[derive(Debug)]
pub enum ReadError {
    /// The file could not be opened or read.
    Io(io::Error),
    /// The file is invalid, with the reason.
    Nonsense(String),
}

/// Reads `path`, a `.nii` or `.nii.gz`, as the volume called `name`, to its very end.
///
/// # Errors
/// [`ReadError`].
pub fn read_volume(path: &Path, name: &str) -> Result<Loaded, ReadError> {
    read_from(unpacked(path)?, name)
}

/// Reads where the voxels of `path` are, from its header.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn read_grid(path: &Path) -> Result<Grid, ReadError> {
    let header = NiftiHeader::from_reader(unpacked(path)?).map_err(nonsense)?;
    let (dims, ..) = check(&header).map_err(ReadError::Nonsense)?;
    Ok(Grid::new(anatomical_axes(&header, dims).map_err(ReadError::Nonsense)?))
}

/// Reads `path` as numbers of voxels.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn read_labels(path: &Path) -> Result<Labels, ReadError> {
    labels_from(&mut unpacked(path)?)
}

/// As [`read_labels`], with the SHA-256 of the unpacked file in hexadecimal digits.
///
/// # Errors
/// [`ReadError`].
pub(crate) fn read_checked_labels(path: &Path) -> Result<(Labels, String), ReadError> {
    let mut stream = Hashed { inner: unpacked(path)?, sha256: Sha256::new() };
    let labels = labels_from(&mut stream)?;
    Ok((labels, HEXLOWER.encode(&stream.sha256.finalize())))
}

/// Reads the bytes of an unpacked file as numbers of voxels.
fn labels_from(stream: &mut impl Read) -> Result<Labels, ReadError> {
    let mut scaling = None;
    let (voxels, axes) = read_voxels(stream, |read| {
        scaling = Some((read.scl_slope, read.scl_inter));
        // A sign turns intensities around, and means nothing for numbers.
        read.scl_slope = 1.0;
    })?;
    // A slope of 0 means that there is no scaling, and some write that as NaN.
    let plain = scaling.is_none_or(|(slope, inter)| slope == 0.0 || !slope.is_finite() || (slope, inter) == (1.0, 0.0));
    if !plain {
        return Err(ReadError::Nonsense(
            "its numbers are scaled (scl_slope, scl_inter), and those of a mask are not".into(),
        ));
    }
    let mut values = (0..voxels.len()).map(|index| f64::from(voxels.get(index)));
    Labels::of(&mut values, Grid::new(axes)).map_err(ReadError::Nonsense)
}

/// The bytes of a file, unpacked if it is packed.
pub(crate) fn unpacked(path: &Path) -> Result<Box<dyn Read>, ReadError> {
    let mut file = BufReader::new(files::open(path).map_err(ReadError::Io)?);
    let packed = file.fill_buf().map_err(ReadError::Io)?.starts_with(&[0x1f, 0x8b]);
    // A file with the extension of gzip that is not gzip should be reported as such, and not as an invalid NIfTI file.
    if packed || path.extension().is_some_and(|have| have.eq_ignore_ascii_case("gz")) {
        return Ok(Box::new(GzDecoder::new(file)));
    }
    Ok(Box::new(file))
}

/// Reads the bytes of an unpacked file.
pub(crate) fn read_from(stream: impl Read, name: &str) -> Result<Loaded, ReadError> {
    let mut stream = Hashed { inner: stream, sha256: Sha256::new() };
    let (voxels, axes) = read_voxels(&mut stream, |_| {})?;
    let volume = Volume::new(name, voxels, axes).map_err(ReadError::Nonsense)?;
    let sha256 = HEXLOWER.encode(&stream.sha256.finalize());
    Ok(Loaded { volume, sha256 })
}

/// Reads voxels and axes, to the very end. `look` sees the header, and may change how the voxels are understood.
fn read_voxels(stream: &mut impl Read, look: impl FnOnce(&mut NiftiHeader)) -> Result<(Voxels, [Axis; 3]), ReadError> {
    let mut header = NiftiHeader::from_reader(&mut *stream).map_err(nonsense)?;
    let (dims, element, start) = check(&header).map_err(ReadError::Nonsense)?;
    let axes = anatomical_axes(&header, dims).map_err(ReadError::Nonsense)?;
    look(&mut header);

    skip(stream, start - HEADER_BYTES)?;
    let voxels = voxels(stream, dims.iter().product(), element, &header)?;
    // Read to the very end, because the checksum of a gzip file comes last.
    if skip(stream, MAX_EXTRA)? == MAX_EXTRA {
        return Err(ReadError::Nonsense("much more data follows than its header announces".into()));
    }
    Ok((voxels, axes))
}

/// The shape, the voxel type and the position of the first voxel.
pub(crate) fn check(header: &NiftiHeader) -> Result<([usize; 3], NiftiType, u64), String> {
    if header.sizeof_hdr != HEADER_BYTES as i32 || &header.magic != b"n+1\0" {
        return Err("it is not a NIfTI-1 file with header and voxels in one".into());
    }
    let sides = header.dim().map_err(|error| error.to_string())?;
    let dims = match sides {
        [x, y, z, more @ ..] if more.iter().all(|&side| side == 1) => [*x, *y, *z].map(usize::from),
        _ => return Err(format!("its shape is {sides:?}, and only a single 3-D volume is read")),
    };
    let count: usize = dims.iter().product();
    if dims.iter().any(|&side| side > MAX_SIDE) || count > MAX_VOXELS {
        return Err(format!(
            "it announces {dims:?} voxels; at most {MAX_SIDE} along a side and {MAX_VOXELS} in all are read"
        ));
    }
    let element = header.data_type().map_err(|error| error.to_string())?;
    if usize::try_from(header.bitpix) != Ok(element.size_of() * 8) {
        return Err(format!("it announces {} bits a voxel for voxels of type {element:?}", header.bitpix));
    }
    let start = header.vox_offset;
    if !((FIRST_VOXEL as f32)..=(MAX_EXTRA as f32)).contains(&start) || start.fract() != 0.0 {
        return Err(format!("its header says that its voxels start at byte {start}"));
    }
    Ok((dims, element, start as u64))
}

/// Reads `count` voxels in the type in which they are kept, piece by piece, so that nothing is in memory twice.
fn voxels(stream: &mut impl Read, count: usize, element: NiftiType, header: &NiftiHeader) -> Result<Voxels, ReadError> {
    // A negative slope inverts intensities. A positive one has no effect, because the intensity window undoes it.
    let inverted = header.scl_slope < 0.0;
    let sign = if inverted { -1.0 } else { 1.0 };
    let mut stored = Stored { stream, count, native: header.endianness == nifti::Endianness::native() };
    Ok(match element {
        NiftiType::Uint8 if !inverted => Voxels::U8(stored.read(u8::from_ne_bytes)?),
        NiftiType::Int16 if !inverted => Voxels::I16(stored.read(i16::from_ne_bytes)?),
        NiftiType::Uint16 if !inverted => Voxels::U16(stored.read(u16::from_ne_bytes)?),
        NiftiType::Uint8 => Voxels::F32(stored.read(|it| sign * f32::from(u8::from_ne_bytes(it)))?),
        NiftiType::Int8 => Voxels::F32(stored.read(|it| sign * f32::from(i8::from_ne_bytes(it)))?),
        NiftiType::Int16 => Voxels::F32(stored.read(|it| sign * f32::from(i16::from_ne_bytes(it)))?),
        NiftiType::Uint16 => Voxels::F32(stored.read(|it| sign * f32::from(u16::from_ne_bytes(it)))?),
        NiftiType::Int32 => Voxels::F32(stored.read(|it| sign * i32::from_ne_bytes(it) as f32)?),
        NiftiType::Uint32 => Voxels::F32(stored.read(|it| sign * u32::from_ne_bytes(it) as f32)?),
        NiftiType::Float32 => Voxels::F32(stored.read(|it| sign * f32::from_ne_bytes(it))?),
        NiftiType::Float64 => Voxels::F32(stored.read(|it| sign * f64::from_ne_bytes(it) as f32)?),
        other => return Err(nonsense(nifti::NiftiError::UnsupportedDataType(other))),
    })
}

/// The voxels of a file, of which the header has been read.
struct Stored<'a, R> {
    stream: &'a mut R,
    count: usize,
    /// Whether its bytes are in this machine's order.
    native: bool,
}

impl<R: Read> Stored<'_, R> {
    fn read<T, const SIZE: usize>(&mut self, value: impl Fn([u8; SIZE]) -> T) -> Result<Vec<T>, ReadError> {
        /// Voxels of a piece.
        const PIECE: usize = 1 << 13;
        let mut values = Vec::new();
        let no_room = |_| ReadError::Nonsense(format!("there is not enough memory for its {} voxels", self.count));
        let mut piece = vec![0; PIECE * SIZE];
        while values.len() < self.count {
            let piece = &mut piece[..(self.count - values.len()).min(PIECE) * SIZE];
            self.stream.read_exact(piece).map_err(|error| nonsense(error.into()))?;
            // Memory for all voxels is allocated only after some were read, so that a header alone cannot allocate it.
            values.try_reserve_exact(self.count - values.len()).map_err(no_room)?;
            values.extend(piece.as_chunks::<SIZE>().0.iter().map(|bytes| {
                let mut bytes = *bytes;
                if !self.native {
                    bytes.reverse();
                }
                value(bytes)
            }));
        }
        Ok(values)
    }
}

/// Skips at most `count` bytes and returns how many there were.
fn skip(stream: &mut impl Read, count: u64) -> Result<u64, ReadError> {
    io::copy(&mut stream.take(count), &mut io::sink()).map_err(|error| nonsense(error.into()))
}

/// The errors of a stream that could be opened: broken gzip, a file that ends too early, or a reader's complaint.
fn nonsense(error: nifti::NiftiError) -> ReadError {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match error {
        nifti::NiftiError::Io(error) => match error.kind() {
            UnexpectedEof => ReadError::Nonsense("it ends too early".into()),
            InvalidData | InvalidInput => ReadError::Nonsense(error.to_string()),
            _ => ReadError::Io(error),
        },
        error => ReadError::Nonsense(error.to_string()),
    }
}

/// Computes the SHA-256 of what is read through it.
struct Hashed<R> {
    inner: R,
    sha256: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.sha256.update(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nifti::plane::Plane;
    use crate::nifti::synthetic::{Nifti, ramp};

    fn reason(nifti: &Nifti) -> String {
        reason_of(&nifti.packed())
    }

    fn reason_of(bytes: &[u8]) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.nii.gz");
        std::fs::write(&path, bytes).unwrap();
        match read_volume(&path, "a").unwrap_err() {
            ReadError::Nonsense(reason) => reason,
            ReadError::Io(error) => panic!("{error}"),
        }
    }

    #[test]
    fn every_voxel_type_gives_the_same_slices() {
        let wanted = ramp().read();
        for element in [256, 4, 512, 8, 768, 16, 64] {
            let volume = Nifti { element, ..ramp() }.read();
            for plane in Plane::ALL {
                assert_eq!(volume.slice(plane, 1), wanted.slice(plane, 1), "type {element}");
            }
        }
    }

    #[test]
    fn extensions_before_the_voxels_are_skipped() {
        let with = Nifti { vox_offset: 384.0, ..ramp() }.read();
        assert_eq!(with.slice(Plane::Axial, 2), ramp().read().slice(Plane::Axial, 2));
    }

    #[test]
    fn a_negative_slope_inverts_the_intensities() {
        for element in [2, 16] {
            let inverted = Nifti { slope: -1.0, element, ..ramp() }.read();
            let (up, down) = (ramp().read().slice(Plane::Axial, 1), inverted.slice(Plane::Axial, 1));
            assert!(up.pixels[0] > up.pixels[up.pixels.len() - 1]);
            assert!(down.pixels[0] < down.pixels[down.pixels.len() - 1]);
        }
    }

    #[test]
    fn headers_that_lie_are_refused_in_a_sentence() {
        for (nifti, says) in [
            (Nifti { dim: [3, 0, 4, 5, 1, 1, 1, 1], ..ramp() }, "dim"),
            (Nifti { dim: [9, 3, 4, 5, 1, 1, 1, 1], ..ramp() }, ""),
            (Nifti { dim: [2, 3, 4, 5, 1, 1, 1, 1], ..ramp() }, "3-D"),
            (Nifti { dim: [4, 3, 4, 5, 2, 1, 1, 1], ..ramp() }, "3-D"),
            (Nifti { dim: [3, 3, 4, 1025, 1, 1, 1, 1], ..ramp() }, "at most 1024"),
            (Nifti { dim: [3, 65535, 65535, 65535, 1, 1, 1, 1], ..ramp() }, "at most 1024"),
            (Nifti { dim: [3, 1024, 1024, 1024, 1, 1, 1, 1], ..ramp() }, "in all"),
            (Nifti { dim: [3, 300, 300, 300, 1, 1, 1, 1], ..ramp() }, ""),
            (Nifti { bits: Some(-8), ..ramp() }, "bits a voxel"),
            (Nifti { bits: Some(64), ..ramp() }, "bits a voxel"),
            (Nifti { element: 32, bits: Some(64), ..ramp() }, ""),
            (Nifti { element: 7777, bits: Some(8), ..ramp() }, ""),
            (Nifti { vox_offset: 0.0, ..ramp() }, "start at byte"),
            (Nifti { vox_offset: f32::NAN, ..ramp() }, "start at byte"),
            (Nifti { vox_offset: f32::INFINITY, ..ramp() }, "start at byte"),
            (Nifti { magic: *b"ni1\0", ..ramp() }, "NIfTI-1"),
            (Nifti { magic: *b"oops", ..ramp() }, ""),
            (Nifti { sform_code: 0, ..ramp() }, "orientation"),
            (Nifti { extra: 2 << 20, ..ramp() }, "more data follows"),
            (Nifti { values: vec![3; 60], ..ramp() }, "same"),
        ] {
            let reason = reason(&nifti);
            assert!(!reason.is_empty() && reason.contains(says), "{reason} ({says})");
        }
    }

    #[test]
    fn cut_and_flipped_files_are_refused_and_never_panic() {
        let whole = ramp().packed();
        let unpacked = ramp().unpacked();
        assert!(reason_of(b"not gzip at all").contains("gzip"));
        assert!(!reason_of(b"").is_empty());
        for end in 1..whole.len() {
            assert!(!reason_of(&whole[..end]).is_empty(), "cut at {end}");
        }
        let mut refused = 0;
        for position in 0..unpacked.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = unpacked.clone();
                bytes[position] ^= flip;
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("a.nii.gz");
                std::fs::write(&path, crate::nifti::synthetic::pack(&bytes)).unwrap();
                refused += usize::from(read_volume(&path, "a").is_err());
            }
        }
        assert!(refused > 50, "{refused}");
    }

    #[test]
    fn a_flipped_bit_in_the_packed_file_is_noticed() {
        let mut packed = ramp().packed();
        let checksum = packed.len() - 8;
        packed[checksum] ^= 1;
        assert!(!reason_of(&packed).is_empty());
    }
}
