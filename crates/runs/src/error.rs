//! What can go wrong with a run's files, each as one sentence that names the path and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the run directory. Its text is a whole sentence that already contains the cause, so `source` is not
/// set and nothing is said twice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The folder asked for already holds a run.
    #[error("{} already holds a run; continue it with --resume {}, or choose another folder with --out", path.display(), path.display())]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// The folder asked for holds something else.
    #[error("{} is not empty, and a run does not mix with other files; choose a new or empty folder with --out", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// There is a file where the run's folder should go.
    #[error("{} is a file, but a run is a folder; choose another place with --out", path.display())]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// The folder does not hold a run.
    #[error("{} holds no run: there is no config.toml in it; give the folder that `kindling train` named", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was made for a run that was stopped before its configuration was written.
    #[error("{} holds no run yet: it was stopped before its config.toml was written; start it again, with the same --out", path.display())]
    NotYetARun {
        /// The folder.
        path: PathBuf,
    },
    /// Another process is writing to the run.
    #[error("another process is writing to {}; wait for it or stop it, then try again", path.display())]
    Busy {
        /// The event log both want.
        path: PathBuf,
    },
    /// The disk or the quota is full. What stood under this name before is untouched.
    #[error("No space left on device while writing {}; free some space and try again", path.display())]
    DiskFull {
        /// The file being written.
        path: PathBuf,
    },
    /// Another failure of the file system.
    #[error("cannot {action} {}: {cause}; check that the path exists and that you may use it", path.display())]
    Io {
        /// What was being done, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        cause: io::Error,
    },
    /// A file of the run cannot be understood.
    #[error("{} cannot be understood: {reason}; correct it or restore it from a copy", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place.
        reason: String,
    },
    /// A run has neither predictions nor cases.
    #[error("{} has no predictions.csv and no cases.csv: it has not ended, or is of an earlier version; `kindling eval` scores it", path.display())]
    NotEvaluated {
        /// The run's folder.
        path: PathBuf,
    },
    /// A value cannot be written in the file's format.
    #[error("cannot express the contents of {}: {reason}", path.display())]
    Inexpressible {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl RunError {
    /// Sorts a failure of the file system: a full disk is worth naming, for the user can do something about it.
    pub(crate) fn io(action: &'static str, path: &Path, cause: io::Error) -> Self {
        let path = path.to_path_buf();
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Io { action, path, cause },
        }
    }

    /// The form of [`RunError::io`] that `map_err` takes.
    pub(crate) fn on<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + 'a {
        move |cause| Self::io(action, path, cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_as_such() {
        let error = RunError::io("write", Path::new("runs/a/weights.safetensors"), io::Error::from_raw_os_error(28));
        let text = error.to_string();
        assert!(text.contains("No space left") && text.contains("runs/a/weights.safetensors"), "{text}");
        assert!(!text.contains("--resume"), "what remains of a run is not known here: {text}");
    }

    #[test]
    fn every_error_is_one_line_that_names_its_path() {
        let path = PathBuf::from("runs/a");
        let cause = || io::Error::from(io::ErrorKind::PermissionDenied);
        for error in [
            RunError::Taken { path: path.clone() },
            RunError::NotEmpty { path: path.clone() },
            RunError::NotAFolder { path: path.clone() },
            RunError::NotARun { path: path.clone() },
            RunError::NotYetARun { path: path.clone() },
            RunError::Busy { path: path.clone() },
            RunError::DiskFull { path: path.clone() },
            RunError::Io { action: "read", path: path.clone(), cause: cause() },
            RunError::Malformed { path: path.clone(), reason: "line 3".into() },
            RunError::NotEvaluated { path: path.clone() },
            RunError::Inexpressible { path: path.clone(), reason: "a map".into() },
        ] {
            let text = error.to_string();
            assert!(text.contains("runs/a") && !text.contains('\n'), "{text}");
        }
    }
}
