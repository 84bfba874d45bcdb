//! The sums over the files of a checkpoint.
//!
//! `SHA256SUMS` has a line for every other file of the folder, as `sha256sum` writes and checks them. It is written last and
//! read first: nothing of a checkpoint is used before its sum is right, and a changed bit of the sums themselves leaves
//! a sum that is wrong, a name that is not there, or a line that is none.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use data_encoding::HEXLOWER;
use kindling_files as files;
use kindling_layers::tensors::{self, Tensors};
use kindling_runs::{NewFolder, RunError};
use sha2::{Digest, Sha256};

/// The file's name.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// SHA-256 sums in hexadecimal digits, by the name of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums(BTreeMap<String, String>);

impl Sums {
    /// Writes a file into a new folder and remembers its sum.
    ///
    /// # Errors
    /// [`RunError::DiskFull`] or [`RunError::Io`], naming the file.
    pub(crate) fn file(
        &mut self,
        folder: &NewFolder,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), RunError> {
        let mut sum = Sha256::new();
        folder.file(name, |out| write(&mut Summed { out, sum: &mut sum }))?;
        self.0.insert(name.to_string(), hex(sum));
        Ok(())
    }

    /// Writes the sums themselves.
    ///
    /// # Errors
    /// As [`Sums::file`].
    pub(crate) fn write(&self, folder: &NewFolder) -> Result<(), RunError> {
        let text: String = self.0.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
        folder.file(SUMS, |out| out.write_all(text.as_bytes()))
    }

    /// Reads the sums of a folder; `None` if it has none, as those of older releases.
    ///
    /// # Errors
    /// A sentence about what is wrong with them.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, String> {
        match fs::symlink_metadata(folder.join(SUMS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            _ => {}
        }
        let damaged = || format!("{SUMS} is damaged");
        let text = String::from_utf8(read_text(folder, SUMS)?).map_err(|_| damaged())?;
        let mut sums = BTreeMap::new();
        for line in text.strip_suffix('\n').ok_or_else(damaged)?.split('\n') {
            let (sum, name) = line.split_once("  ").ok_or_else(damaged)?;
            let is_sum = sum.len() == 64 && sum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
            if !(is_sum && is_name) || sums.insert(name.to_string(), sum.to_string()).is_some() {
                return Err(damaged());
            }
        }
        Ok(Some(Self(sums)))
    }

    /// The sums of a release that kept them in `state.toml`.
    pub(crate) fn of(sums: BTreeMap<String, String>) -> Self {
        Self(sums)
    }

    /// The names of the files.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The contents of a file, if they are those that were written.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub(crate) fn contents(&self, folder: &Path, name: &str) -> Result<Vec<u8>, String> {
        let sum = self.0.get(name).ok_or_else(|| format!("{SUMS} knows no {name}"))?;
        let bytes = read_text(folder, name)?;
        if *sum != hex(Sha256::new_with_prefix(&bytes)) {
            return Err(format!("{name} is damaged (its checksum does not match)"));
        }
        Ok(bytes)
    }

    /// The tensors of a file, if it is what was written. They are read one by one while the sum is made.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub(crate) fn tensors(&self, folder: &Path, name: &str) -> Result<Tensors, String> {
        let sum = self.0.get(name).ok_or_else(|| format!("{SUMS} knows no {name}"))?;
        let unreadable = |error: io::Error| format!("{name} is unreadable: {error}");
        let mut file = files::open(&folder.join(name)).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut found = Sha256::new();
        let mut input = SummedReader { input: &mut file, sum: &mut found };
        let tensors = tensors::from_reader(&mut input, length);
        // What stopped the reader is not the first thing to say of a file that is another one.
        io::copy(&mut input, &mut io::sink()).map_err(unreadable)?;
        if *sum != hex(found) {
            return Err(format!("{name} is damaged (its checksum does not match)"));
        }
        tensors.map_err(|error| format!("{name} is damaged: {error}"))
    }
}

/// A file that holds no tensors: `state.toml`, the sums, lines of the log.
///
/// # Errors
/// A sentence that names it.
pub(crate) fn read_text(folder: &Path, name: &str) -> Result<Vec<u8>, String> {
    files::read(&folder.join(name), files::MAX_TEXT_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => format!("{name} is damaged: {error}"),
        _ => format!("{name} is unreadable: {error}"),
    })
}

/// A file and the checksum of what is read from it.
struct SummedReader<'a> {
    input: &'a mut File,
    sum: &'a mut Sha256,
}

impl Read for SummedReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(bytes)?;
        self.sum.update(&bytes[..count]);
        Ok(count)
    }
}

/// A file and the checksum of what is written to it.
struct Summed<'a> {
    out: &'a mut File,
    sum: &'a mut Sha256,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn hex(sum: Sha256) -> String {
    HEXLOWER.encode(&sum.finalize())
}
