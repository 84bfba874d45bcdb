//! Files that grow.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use kindling_files as files;

use crate::TrackingError;

/// A file to which whole pieces are added.
#[derive(Debug)]
pub(crate) struct Appended {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Appended {
    /// Opens the file with all that it holds, and makes it and its folders if they are not there.
    ///
    /// # Errors
    /// [`TrackingError::Io`].
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<u8>), TrackingError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(TrackingError::on("create", folder))?;
        }
        // Not opened for appending: some systems cut no file that is.
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
        let file = file.map_err(TrackingError::on("open", path))?;
        let bytes = files::read(path, files::MAX_LOG_BYTES).map_err(TrackingError::on("read", path))?;
        Ok((Self { path: path.into(), file, length: bytes.len() as u64 }, bytes))
    }

    /// Bytes in the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Drops what comes after the first `length` bytes.
    ///
    /// # Errors
    /// [`TrackingError::Io`].
    pub(crate) fn cut(&mut self, length: u64) -> Result<(), TrackingError> {
        if length < self.length {
            self.file.set_len(length).map_err(TrackingError::on("write", &self.path))?;
            self.length = length;
        }
        Ok(())
    }

    /// Adds all of `bytes`, or nothing.
    ///
    /// # Errors
    /// [`TrackingError::Io`].
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), TrackingError> {
        let place = self.file.seek(SeekFrom::Start(self.length));
        if let Err(cause) = place.and_then(|_| self.file.write_all(bytes)) {
            // If this fails too, the half piece is cut off when the file is opened again.
            let _ = self.file.set_len(self.length);
            return Err(TrackingError::Io { action: "write", path: self.path.clone(), cause });
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}
