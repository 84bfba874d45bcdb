//! Reading files that a user names, within limits: only regular files, and no more bytes than files of that kind have. And tables, the
//! text format that more than one crate reads.
//!
//! A device like `/dev/zero` never ends, opening a pipe waits for a writer, and a file may grow while it is read. Links are followed, and
//! their targets are checked.

pub mod csv;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a configuration, a plan, or a summary of a run.
pub const MAX_TEXT_BYTES: u64 = 64 << 20;
/// The most bytes of a log or a table of results.
pub const MAX_LOG_BYTES: u64 = 4 << 30;
/// The most bytes of a file of weights or of a part of a checkpoint.
pub const MAX_WEIGHTS_BYTES: u64 = 16 << 30;

/// Opens a regular file.
///
/// # Errors
/// Errors of the system, and [`io::ErrorKind::InvalidInput`] for anything that is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Check before opening, because opening a pipe may wait, and again afterwards, because the file may have been replaced.
    regular(&fs::metadata(path)?)?;
    let file = File::open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a regular file of at most `most` bytes, and returns it with its size.
///
/// # Errors
/// As [`open`], and [`io::ErrorKind::FileTooLarge`] beyond `most` bytes.
pub fn open_within(path: &Path, most: u64) -> io::Result<(File, u64)> {
    let file = open(path)?;
    let length = file.metadata()?.len();
    within(length, most)?;
    Ok((file, length))
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open_within`], before anything is read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, length) = open_within(path, most)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // Try to read one byte more, to notice a file that grows.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    within(bytes.len() as u64, most)?;
    Ok(bytes)
}

/// Reads a regular file of at most `most` bytes of UTF-8.
///
/// # Errors
/// As [`read`], and [`io::ErrorKind::InvalidData`] for other text.
pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

fn regular(meta: &fs::Metadata) -> io::Result<()> {
    let kind = meta.file_type();
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => Ok(()),
        (_, true) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder, not a file")),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device or a pipe, not a file")),
    }
}

fn within(length: u64, most: u64) -> io::Result<()> {
    if length <= most {
        return Ok(());
    }
    let text = format!("it is larger than the {} MiB that a file of this kind may have", most >> 20);
    Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_up_to_their_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, b"12345").expect("writable");
        assert_eq!(read(&path, 5).expect("readable"), b"12345");
        assert_eq!(read_to_string(&path, 6).expect("readable"), "12345");
        assert_eq!(read(&path, 4).expect_err("too large").kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(open_within(&path, 4).expect_err("too large").kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(open_within(&path, 5).expect("readable").1, 5);
        fs::write(&path, [0xff]).expect("writable");
        assert_eq!(read_to_string(&path, 6).expect_err("no text").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    #[cfg(unix)]
    fn what_is_no_file_is_refused_at_once_behind_a_link_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
        std::os::unix::fs::symlink("/dev/zero", &link).expect("a link");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
        assert!(made.success());
        for path in [Path::new("/dev/zero"), &link, &pipe, folder.path()] {
            assert_eq!(open(path).expect_err("no file").kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        assert_eq!(open(&folder.path().join("none")).expect_err("absent").kind(), io::ErrorKind::NotFound);
    }
}
