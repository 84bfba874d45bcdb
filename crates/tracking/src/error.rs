//! What can go wrong between a run and a tracker, each as one sentence.

use std::io;
use std::path::{Path, PathBuf};

use kindling_runs::RunError;

/// Why something was not delivered to a tracker. None of these is a reason to stop a run: the log has everything, and the next
/// [`poll`](crate::Follower::poll) tries again. The text is a whole sentence with its cause, so `source` is not set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrackingError {
    /// The run's own files cannot be read.
    #[error("{0}")]
    Run(RunError),
    /// Another process delivers the same run to the same tracker.
    #[error("another process is writing {}; wait for it or stop it, then try again", path.display())]
    Busy {
        /// The folder or file that both write to.
        path: PathBuf,
    },
    /// The file system refuses.
    #[error("cannot {action} {}: {cause}; check that the path exists and that you may use it", path.display())]
    Io {
        /// What was being done, as a verb.
        action: &'static str,
        /// The file or folder that it is about.
        path: PathBuf,
        /// What the operating system said.
        cause: io::Error,
    },
    /// There is a file in the way that was not written for this run.
    #[error("{} is in the way: {reason}; move it, or choose another place", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What the file should be and is not.
        reason: &'static str,
    },
    /// The server cannot be reached, or does not answer in time.
    #[error("{url} cannot be reached or does not answer ({reason}); what is missing there follows once it does")]
    Away {
        /// The server's address.
        url: String,
        /// The message of the operating system.
        reason: String,
    },
    /// The file of certificates to trust holds none.
    #[error("{} holds no certificate in PEM; correct MLFLOW_TRACKING_SERVER_CERT_PATH, which names it", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The server refuses the call.
    #[error("{url} refuses {call} with {status}: {said}")]
    Refused {
        /// The server's address.
        url: String,
        /// The part of its interface that was called.
        call: String,
        /// HTTP status of the answer.
        status: u16,
        /// The beginning of its explanation.
        said: String,
    },
    /// The time for the last deliveries is over.
    #[error("not all of the run has arrived in {} s; `kindling runs export` delivers the rest", seconds)]
    Late {
        /// Time limit in seconds.
        seconds: u64,
    },
}

impl TrackingError {
    /// The form that `map_err` takes for errors of the file system.
    pub(crate) fn on<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + 'a {
        move |cause| Self::Io { action, path: path.to_owned(), cause }
    }
}

impl From<RunError> for TrackingError {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}
