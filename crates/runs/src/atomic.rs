//! Files that are either the old ones or the new ones, never something between.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{RunError, kill};

/// Writes `bytes` to `path` so that the name never shows a half-written file.
///
/// The bytes go to a hidden file in the same folder (`.NAME.partial`), are forced to the disk, and take the name by
/// a rename, which is forced to the disk too. Killed or without power at any moment, `path` therefore holds the whole
/// old contents or the whole new ones; when this returns `Ok`, the new ones survive a power cut. After an error the
/// old contents stand and the hidden file is gone. After a kill it may remain, and the next write of the same name
/// takes it over, so remains do not pile up.
///
/// One writer a file at a time: two that write the same path at once would share the hidden file.
///
/// # Errors
/// [`RunError::DiskFull`] or [`RunError::Io`], naming `path`.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    stream_atomically(path, |file| {
        if kill::asked("half") {
            let _ = file.write_all(&bytes[..bytes.len() / 2]);
            kill::now();
        }
        file.write_all(bytes)
    })
}

/// As [`write_atomically`]; `write` writes the bytes.
///
/// # Errors
/// As [`write_atomically`], those of `write` included.
pub fn stream_atomically(path: &Path, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<(), RunError> {
    let partial = partial_name(path)?;
    kill::reach("create");
    let mut file = File::create(&partial).map_err(RunError::on("write", path))?;
    let written = write(&mut file)
        .and_then(|()| {
            kill::reach("sync");
            file.sync_all()
        })
        .and_then(|()| {
            drop(file);
            kill::reach("rename");
            fs::rename(&partial, path)
        })
        .map_err(RunError::on("write", path));
    if written.is_err() {
        // The error above is the one to report; that this fails as well would add nothing.
        let _ = fs::remove_file(&partial);
        return written;
    }
    kill::reach("renamed");
    sync_folder(folder_of(path)).map_err(RunError::on("write", path))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

pub(crate) fn partial_name(path: &Path) -> Result<PathBuf, RunError> {
    let Some(name) = path.file_name() else {
        let cause = std::io::Error::from(std::io::ErrorKind::InvalidFilename);
        return Err(RunError::io("write", path, cause));
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".partial");
    Ok(folder_of(path).join(hidden))
}

/// A rename is only durable once the folder that holds the name is.
#[cfg(unix)]
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Elsewhere folders cannot be opened as files, and the file system's journal orders the rename.
#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn writing_atomically_replaces_the_file_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.json");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["metrics.json"]);
    }

    #[test]
    fn writing_atomically_leaves_the_old_file_when_it_fails() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.json");
        write_atomically(&path, b"old").unwrap();
        // A folder in the way of the hidden file makes the write fail before the rename.
        fs::create_dir(folder.path().join(".metrics.json.partial")).unwrap();
        let error = write_atomically(&path, b"new").unwrap_err();
        assert!(error.to_string().contains("metrics.json"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_failed_rename_leaves_no_partial_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("kept"), b"kept").unwrap();
        write_atomically(&path, b"new").unwrap_err();
        assert_eq!(names(folder.path()), ["weights"]);
        assert_eq!(fs::read(path.join("kept")).unwrap(), b"kept");
    }

    #[test]
    fn what_a_killed_writer_left_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.json");
        fs::write(folder.path().join(".metrics.json.partial"), b"a longer half-written file").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["metrics.json"]);
    }

    #[test]
    fn a_missing_folder_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone").join("metrics.json");
        let error = write_atomically(&path, b"new").unwrap_err();
        assert!(error.to_string().contains("gone/metrics.json"), "{error}");
    }
}
