//! MPI, opened at run time: which library there is, and a [`Transport`] on it.

mod calls;

use std::ffi::{OsStr, OsString, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use calls::{Address, Calls, Library, NotOpened};

use crate::{Error, Transport, launcher, leave, named};

/// The variable that names a library.
pub const LIBRARY_VARIABLE: &str = "KINDLING_MPI";

/// Names of Open MPI, of MPICH and those that share its ABI (Debian has it under another name), and of MPI 5's standard ABI.
const OPEN_MPI: &[&str] = &["libmpi.so.40"];
const MPICH: &[&str] = &["libmpi.so.12", "libmpich.so.12"];
const STANDARD: &[&str] = &["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];
/// What is left, if a system has development packages or names of its own.
const ANY: &[&str] = &["libmpi.so", "libmpich.so", "libmpi.dylib", "libmpi_abi.dylib"];

/// The binary interface of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Open MPI's.
    OpenMpi,
    /// MPICH's, which Intel MPI, Cray MPICH and MVAPICH share.
    Mpich,
    /// MPI 5's standard one.
    Standard,
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI's ABI",
            Self::Mpich => "MPICH's ABI",
            Self::Standard => "MPI's standard ABI",
        })
    }
}

/// A library that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path if it was given by one, and its name otherwise.
    pub library: PathBuf,
    /// Its binary interface.
    pub flavour: Flavour,
    /// Its name and version: `Open MPI v4.1.4`, `MPICH 4.0.2`.
    pub version: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.version, self.library.display(), self.flavour)
    }
}

/// Which library would be used: that of `path`, of `KINDLING_MPI`, or the first of the usual names. It is opened and asked for its version;
/// nothing is initialised. It stays open, which lets no other be used in this process.
///
/// # Errors
/// If there is none, or what was named cannot be used.
pub fn find(path: Option<&Path>) -> Result<Found, Error> {
    let (found, library) = open(path)?;
    // Some libraries start threads when they are opened, which must not lose their code.
    std::mem::forget(library);
    Ok(found)
}

/// The path that was given, here or in the environment.
pub(crate) fn given(path: Option<&Path>) -> Option<OsString> {
    named::given(path, LIBRARY_VARIABLE)
}

fn open(path: Option<&Path>) -> Result<(Found, Library), Error> {
    let given = given(path);
    let names: Vec<&OsStr> = match &given {
        Some(given) => vec![given.as_os_str()],
        None => usual_names().map(OsStr::new).collect(),
    };
    let mut tried = Vec::new();
    for name in names {
        match Library::open(name) {
            Ok(library) => {
                let version = in_short(&library.version);
                return Ok((Found { library: name.into(), flavour: library.flavour, version }, library));
            }
            Err(NotOpened::Missing(why)) => tried.push(named::missing(name, why)),
            Err(NotOpened::Unusable(why)) => return Err(Error::Unusable { library: name.into(), why }),
        }
    }
    Err(Error::NotFound { tried: tried.join("; ") })
}

/// The names in the order of what the launcher speaks.
fn usual_names() -> impl Iterator<Item = &'static str> {
    let order =
        if launcher::prefers_mpich() { [MPICH, STANDARD, OPEN_MPI, ANY] } else { [OPEN_MPI, MPICH, STANDARD, ANY] };
    order.into_iter().flatten().copied()
}

/// `Open MPI v4.1.4, package: ...` and `MPICH Version:      4.0.2\nMPICH Release date: ...` without what follows.
fn in_short(version: &str) -> String {
    let first = version.split([',', '\n']).next().unwrap_or_default();
    first.replace("Version:", "").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Opens a library and joins the processes that the launcher started.
///
/// # Errors
/// If there is no library, or it refuses.
pub(crate) fn join(path: Option<&Path>) -> Result<(Found, Box<dyn Transport>), Error> {
    let (found, library) = open(path)?;
    let unusable = |why| Error::Unusable { library: found.library.clone(), why };
    let transport: Box<dyn Transport> = match found.flavour {
        Flavour::OpenMpi => Mpi::<Address>::started(Calls::of_open_mpi(library).map_err(unusable)?, &found)?,
        Flavour::Standard => Mpi::<Address>::started(Calls::of_standard(library).map_err(unusable)?, &found)?,
        Flavour::Mpich => Mpi::<c_int>::started(Calls::of_mpich(library).map_err(unusable)?, &found)?,
    };
    Ok((found, transport))
}

/// All processes of an MPI program.
struct Mpi<H> {
    rank: usize,
    size: usize,
    /// MPI was asked for calls of any thread, one at a time.
    calls: Mutex<Calls<H>>,
}

impl<H: Copy + Send + Sync + 'static> Mpi<H> {
    fn started(calls: Calls<H>, found: &Found) -> Result<Box<dyn Transport>, Error> {
        let (rank, size) = calls.initialize(&found.version)?;
        Ok(Box::new(Self { rank, size, calls: Mutex::new(calls) }))
    }

    fn calls(&self) -> MutexGuard<'_, Calls<H>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Copy + Send + Sync + 'static> Transport for Mpi<H> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn host(&self) -> String {
        self.calls().processor_name()
    }

    fn all_gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<(), Error> {
        assert_eq!((counts.len(), counts[self.rank]), (self.size, mine.len()));
        self.calls().all_gather(mine, counts, all)
    }

    fn exchange(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), Error> {
        assert_eq!((send_counts.len(), receive_counts.len()), (self.size, self.size));
        self.calls().exchange(send, send_counts, receive, receive_counts)
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<(), Error> {
        self.calls().broadcast(root, bytes)
    }

    fn abort(&self, code: i32) -> ! {
        // Another thread that is inside MPI does not leave it any more, so nobody waits for it: the launcher ends the others when this
        // process ends.
        if let Ok(calls) = self.calls.try_lock() {
            calls.abort(code);
        }
        leave::at_once(code)
    }

    fn finish(&self) -> Result<(), Error> {
        self.calls().finalize()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn versions_are_told_in_short() {
        assert_eq!(in_short("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4"), "Open MPI v4.1.4");
        assert_eq!(in_short("MPICH Version:\t4.0.2\nMPICH Release date:\tThu"), "MPICH 4.0.2");
        assert_eq!(
            in_short("Intel(R) MPI Library 2021.11 for Linux* OS\n"),
            "Intel(R) MPI Library 2021.11 for Linux* OS"
        );
    }

    #[test]
    fn what_was_named_and_is_not_mpi_is_told_of() {
        let missing = find(Some(Path::new("/nowhere/libmpi.so"))).unwrap_err().to_string();
        assert!(missing.contains("/nowhere/libmpi.so") && missing.contains("No such file"), "{missing}");
        let other = find(Some(Path::new("libc.so.6"))).unwrap_err().to_string();
        assert!(other.contains("libc.so.6") && other.contains("it has no MPI_Get_library_version"), "{other}");
    }
}
