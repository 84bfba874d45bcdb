//! Fingerprints, which tell versions of a file apart without reading all of it.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::str::FromStr;

use flate2::Crc;
use kindling_files as files;

/// How much of each end of a file is looked at.
const END_BYTES: u64 = 4 << 10;

/// The size of a file, and the CRC-32 of its first and its last 4 KiB; of 8 KiB and less that is all of it.
///
/// Opening a data set reads the beginning of every file anyway, so this costs one short read more, and a million files do not keep a
/// run waiting. A picture that was changed has another size or another end nearly always: what is compressed differs from the
/// change on, and the last bytes of a PNG are a check sum. What it does not see is a change in the middle of pixels that are
/// stored as they are (DICOM, NIfTI or TIFF without compression) and that leaves the size alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// In bytes.
    pub size: u64,
    /// CRC-32 of both ends.
    pub ends: u32,
}

impl Fingerprint {
    /// That of a whole file.
    ///
    /// # Errors
    /// The system's error if the file cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let (file, size) = files::open_within(path, u64::MAX)?;
        Self::of(file, 0, size)
    }

    /// That of a part of a file.
    pub(super) fn of_range(path: &Path, from: u64, size: u64) -> io::Result<Self> {
        Self::of(files::open(path)?, from, size)
    }

    /// That of two files that belong together: the sum of their sizes, and the CRC-32 of both.
    pub(super) fn with(self, other: Self) -> Self {
        let mut crc = Crc::new();
        [self.ends, other.ends].iter().for_each(|ends| crc.update(&ends.to_le_bytes()));
        Self { size: self.size.saturating_add(other.size), ends: crc.sum() }
    }

    fn of(mut file: impl Read + Seek, from: u64, size: u64) -> io::Result<Self> {
        let mut crc = Crc::new();
        let mut bytes = Vec::with_capacity((2 * END_BYTES).min(size) as usize);
        let mut look = |at: u64, length: u64| -> io::Result<()> {
            bytes.clear();
            file.seek(SeekFrom::Start(at))?;
            (&mut file).take(length).read_to_end(&mut bytes)?;
            crc.update(&bytes);
            Ok(())
        };
        if size <= 2 * END_BYTES {
            look(from, size)?;
        } else {
            look(from, END_BYTES)?;
            look(from + size - END_BYTES, END_BYTES)?;
        }
        Ok(Self { size, ends: crc.sum() })
    }
}

/// The check sum alone, as eight hexadecimal digits: the size has a column of its own.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.ends)
    }
}

/// From the size and the check sum, separated by a comma, as they stand in a list of files.
impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |text: &str| {
            let (size, ends) = text.split_once(',')?;
            Some(Self { size: size.parse().ok()?, ends: u32::from_str_radix(ends, 16).ok()? })
        };
        read(text).ok_or_else(|| format!("{text:?} is no size with a check sum of eight digits"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::Cursor;

    #[test]
    fn a_file_is_told_by_its_size_and_both_ends() {
        // The check value of CRC-32/ISO-HDLC.
        let small = Fingerprint::of(Cursor::new(b"123456789"), 0, 9).unwrap();
        assert_eq!((small.size, small.ends), (9, 0xcbf4_3926));
        assert_eq!(format!("{},{small}", small.size).parse(), Ok(small));

        let bytes: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
        let of = |bytes: &[u8]| Fingerprint::of(Cursor::new(bytes), 0, bytes.len() as u64).unwrap();
        let changed = |at: usize| {
            let mut other = bytes.clone();
            other[at] ^= 1;
            of(&other) != of(&bytes)
        };
        assert!(changed(0) && changed(4095) && changed(99_999) && changed(100_000 - 4096));
        assert_ne!(of(&bytes[..99_999]), of(&bytes));
        // Known and said: the middle is not looked at.
        assert!(!changed(50_000));
        let part = Fingerprint::of(Cursor::new(&bytes[..]), 100, 5000).unwrap();
        assert_eq!(part, of(&bytes[100..5100]));
    }
}
