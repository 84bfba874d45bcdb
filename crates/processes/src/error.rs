//! What can go wrong between processes.

use std::path::PathBuf;

use crate::launcher::Launcher;

/// Why processes cannot work together. After an error of a collective call the processes do not agree any more on what comes next, so
/// whoever gets one ends the run: see [`crate::Group::abort`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// None of the libraries could be opened.
    #[error(
        "{launcher} started {}, and there is no MPI library to connect them ({tried}): load the module or install the package that the \
         launcher belongs to, or name the library with --mpi-library or KINDLING_MPI",
        processes(*.started)
    )]
    NoLibrary {
        /// Who started the processes.
        launcher: Launcher,
        /// How many, if it says so.
        started: Option<usize>,
        /// Names with the reasons.
        tried: String,
    },
    /// A library that was named cannot be opened, or there is none where nobody needs one.
    #[error("no MPI library: {tried}")]
    NotFound {
        /// Names with the reasons.
        tried: String,
    },
    /// A library is there, and it is none that this crate can call.
    #[error("{} is no MPI library that can be used: {why}", library.display())]
    Unusable {
        /// Its path or name.
        library: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The launcher and the library do not know of each other.
    #[error(
        "{launcher} started {started} processes, but {library} sees {seen}: the launcher and the library do not belong together; {}",
        launcher.advice()
    )]
    Mismatch {
        /// Who started the processes.
        launcher: Launcher,
        /// How many.
        started: usize,
        /// The library's own words.
        library: String,
        /// How many it knows of.
        seen: usize,
    },
    /// MPI was initialised before, by this crate or by another part of the program.
    #[error("MPI is initialised already, and that is possible only once in a process")]
    Twice,
    /// The library does not let threads call it.
    #[error("{library} cannot be called from another thread than the first (it offers thread level {level})")]
    Threads {
        /// The library's own words.
        library: String,
        /// What it offers, as its number.
        level: i32,
    },
    /// A call of MPI failed.
    #[error("{call} failed: {text}")]
    Call {
        /// The name of the function.
        call: &'static str,
        /// MPI's words.
        text: String,
    },
    /// A message exceeds what MPI can count.
    #[error("a message of {bytes} bytes is too large; at most 2147483647 can be sent at once")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// Another rank has ended, which is noticed only among threads of one process. MPI's launchers end all processes then.
    #[error("rank {rank} has ended")]
    Gone {
        /// Which.
        rank: usize,
    },
    /// A message is not what was expected, as from a rank that runs another version.
    #[error("the message of rank {rank} about {about} cannot be read: {reason}")]
    Message {
        /// Whose.
        rank: usize,
        /// What all were to tell.
        about: &'static str,
        /// Why not.
        reason: String,
    },
    /// The nodes that were given are not those of this rank's share.
    #[error("rank {rank} of {size} has other nodes than those of its share of {leaves} leaves: {given}")]
    Nodes {
        /// The rank that noticed it.
        rank: usize,
        /// How many ranks.
        size: usize,
        /// The leaves of the whole tree.
        leaves: usize,
        /// What was given.
        given: String,
    },
}

fn processes(started: Option<usize>) -> String {
    match started {
        Some(count) => format!("{count} processes"),
        None => "this process as one of several".to_owned(),
    }
}
