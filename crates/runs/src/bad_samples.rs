//! What a run could not read.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use kindling_files as files;
use serde::{Deserialize, Serialize};

use crate::{RunError, write_atomically};

/// One line of `bad-samples.jsonl`: a sample that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadSampleLine {
    /// `train`, `val` or `test`.
    pub split: String,
    /// Index of the sample in its split, from 0.
    pub sample: u64,
    /// Path of the sample, or another name that its source gives it.
    pub path: String,
    /// Why it could not be read.
    pub reason: String,
}

/// `bad-samples.jsonl`: every sample once, in the order in which they were found. It is there only if there is something
/// to say. What an earlier sitting of the run found stays.
#[derive(Debug)]
pub struct BadSamples {
    path: PathBuf,
    seen: BTreeSet<(String, u64)>,
    /// Whether it is this process that writes it.
    written: bool,
}

impl BadSamples {
    /// Opens the list of a run. A line that a kill has torn is cut off: its sample will be found again.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`], [`RunError::Malformed`] if a line is something else.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let (list, text, whole) = Self::of(path)?;
        if whole < text.len() {
            write_atomically(path, &text[..whole])?;
        }
        Ok(list)
    }

    /// What a list has in its whole lines, its bytes, and how many of them these are.
    fn of(path: &Path) -> Result<(Self, Vec<u8>, usize), RunError> {
        let text = match files::read(path, files::MAX_LOG_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(RunError::io("read", path, error)),
        };
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut seen = BTreeSet::new();
        for line in text[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: BadSampleLine = serde_json::from_slice(line)
                .map_err(|error| RunError::Malformed { path: path.into(), reason: error.to_string() })?;
            seen.insert((line.split, line.sample));
        }
        Ok((Self { path: path.into(), seen, written: true }, text, whole))
    }

    /// The list of a run that another process writes, as it is now.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::Malformed`].
    pub fn unwritten(path: &Path) -> Result<Self, RunError> {
        Ok(Self { written: false, ..Self::of(path)?.0 })
    }

    /// Adds a sample, if it is not there yet; says whether it was new.
    ///
    /// # Errors
    /// [`RunError::Io`], [`RunError::DiskFull`].
    pub fn add(&mut self, line: &BadSampleLine) -> Result<bool, RunError> {
        if !self.seen.insert((line.split.clone(), line.sample)) {
            return Ok(false);
        }
        if !self.written {
            return Ok(true);
        }
        let mut bytes = serde_json::to_vec(line)
            .map_err(|error| RunError::Inexpressible { path: self.path.clone(), reason: error.to_string() })?;
        bytes.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(&bytes)).map_err(RunError::on("write", &self.path))?;
        Ok(true)
    }

    /// The samples of a split that are listed.
    pub fn samples(&self, split: &str) -> Vec<u64> {
        self.seen.iter().filter(|(of, _)| of == split).map(|(_, sample)| *sample).collect()
    }

    /// How many samples are listed.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether everything could be read so far.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn line(split: &str, sample: u64) -> BadSampleLine {
        BadSampleLine { split: split.into(), sample, path: "a\nb.png".into(), reason: "it ends".into() }
    }

    #[test]
    fn a_sample_is_listed_once_over_all_sittings_and_a_torn_line_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad-samples.jsonl");
        let mut list = BadSamples::open(&path).unwrap();
        assert!(list.is_empty() && !path.exists(), "a run without bad samples has no such file");
        assert!(list.add(&line("train", 7)).unwrap());
        assert!(!list.add(&line("train", 7)).unwrap());
        assert!(list.add(&line("val", 7)).unwrap());
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], br#"{"split":"tra"#].concat()).unwrap();

        let mut again = BadSamples::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert!(!again.add(&line("train", 7)).unwrap());
        assert!(again.add(&line("train", 8)).unwrap());
        assert_eq!((again.samples("train"), again.samples("val"), again.len()), (vec![7, 8], vec![7], 3));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 3, "a name with a newline is one line");
        fs::write(&path, "something else\n").unwrap();
        assert!(matches!(BadSamples::open(&path), Err(RunError::Malformed { .. })));
    }
}
