//! NCCL, opened at run time: it moves memory of NVIDIA GPUs from one to the other, without a way through host memory.
//!
//! It stands beside MPI, which starts the processes and carries their words, this library's identifier among them. Additions stay ours,
//! see [`crate::reduce::sum_on_device`]: as with MPI, the order of NCCL's own reductions follows from the number of ranks and the
//! network. NCCL takes no two ranks on one GPU.

mod calls;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use calls::{Communicator, Cuda, Id, Library};
use serde::{Deserialize, Serialize};

use crate::{Error, Group, named};

/// The variable that names a library.
pub const LIBRARY_VARIABLE: &str = "KINDLING_NCCL";

const USUAL_NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// The first with `ncclSend`: 2.7, as older versions write it.
const LEAST_VERSION: i32 = 2700;

/// Why NCCL does not serve, as the end of a sentence. Nothing else is lost by it: MPI is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

impl Failed {
    /// With its reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// A library that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path if it was given by one, and its name otherwise.
    pub library: PathBuf,
    /// Its version: `2.21.5`.
    pub version: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NCCL {} ({})", self.version, self.library.display())
    }
}

/// Which library would be used: that of `path`, of `KINDLING_NCCL`, or the first of the usual names. It stays open.
///
/// # Errors
/// If there is none, or it cannot be used.
pub fn find(path: Option<&Path>) -> Result<Found, Failed> {
    open(path).map(|(found, _)| found)
}

fn open(path: Option<&Path>) -> Result<(Found, Library), Failed> {
    let given = named::given(path, LIBRARY_VARIABLE);
    let names: Vec<&OsStr> = match &given {
        Some(given) => vec![given.as_os_str()],
        None => USUAL_NAMES.map(OsStr::new).into(),
    };
    let mut tried = Vec::new();
    for name in names {
        match Library::open(name) {
            Ok(library) if library.version < LEAST_VERSION => {
                tried.push(format!("{} is NCCL {}, before 2.7", name.display(), written(library.version)));
            }
            Ok(library) => {
                return Ok((Found { library: name.into(), version: written(library.version) }, library));
            }
            Err(why) => tried.push(named::missing(name, why)),
        }
    }
    Err(Failed(format!("no NCCL library: {}", tried.join("; "))))
}

/// 22105 as NCCL prints it: 2.21.5. Before 2.9 it had a digit less.
fn written(version: i32) -> String {
    let (major, minor) = if version < 10_000 { (1000, 100) } else { (10_000, 100) };
    format!("{}.{}.{}", version / major, version % major / minor, version % minor)
}

/// What a rank says of itself before NCCL is started.
#[derive(Serialize, Deserialize)]
struct Offer {
    version: i32,
    /// The bus and place of its GPU, another one for each GPU of a machine.
    gpu: String,
}

/// A run of floats in memory of this rank's GPU, and who gets it or whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) rank: usize,
    pub(crate) address: u64,
    pub(crate) floats: usize,
}

/// All ranks of a group, connected by NCCL. When it is dropped, the connection ends without waiting for the others.
pub struct Nccl {
    communicator: Communicator,
    found: Found,
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nccl").field("found", &self.found).finish_non_exhaustive()
    }
}

impl Nccl {
    /// Connects the ranks of a group, each with the GPU of this number, or with the reason why it has none. Collective, and its outcome
    /// is the same on all ranks: they are connected, or the sentence says why they are not.
    ///
    /// # Errors
    /// Those of the group.
    pub fn connect(
        group: &Group,
        library: Option<&Path>,
        gpu: Result<usize, Failed>,
    ) -> Result<Result<Self, Failed>, Error> {
        let prepared = gpu.and_then(|gpu| {
            let (found, library) = open(library)?;
            let cuda = Cuda::open(gpu).map_err(Failed)?;
            Ok((found, library, cuda))
        });
        let offer = prepared.as_ref().map(|(_, library, cuda)| Offer { version: library.version, gpu: cuda.bus_id() });
        let offers = all_or_why(group, "libraries of NCCL", offer.map_err(Clone::clone))?;
        let offers = offers.and_then(|offers| check(group, &offers).map(|()| offers));
        let (found, library, cuda) = match offers.and(prepared) {
            Ok(prepared) => prepared,
            Err(why) => return Ok(Err(why)),
        };

        let id = if group.is_first() { library.unique_id().map(Some) } else { Ok(None) };
        let ids = all_or_why(group, "identifier of NCCL", id.map_err(Failed))?;
        let id =
            ids.and_then(|ids| ids.into_iter().flatten().find_map(Id::of).ok_or_else(|| Failed::new("no identifier")));
        let id = match id {
            Ok(id) => id,
            Err(why) => return Ok(Err(why)),
        };
        let joined = group.progress().waiting_for("start of NCCL", || {
            Communicator::join(library, cuda, id, group.size(), group.rank()).map_err(Failed)
        });
        let all = all_or_why(group, "start of NCCL", joined.as_ref().map(|_| ()).map_err(Clone::clone))?;
        Ok(all.and(joined).map(|communicator| Self { communicator, found }))
    }

    /// The library.
    pub fn library(&self) -> &Found {
        &self.found
    }
}

/// What all ranks say, or why the first that has nothing to say has nothing.
fn all_or_why<T: Serialize + serde::de::DeserializeOwned>(
    group: &Group,
    about: &'static str,
    mine: Result<T, Failed>,
) -> Result<Result<Vec<T>, Failed>, Error> {
    let all: Vec<Result<T, String>> = group.agree(about, &mine.map_err(|Failed(why)| why))?;
    let named = |(rank, said): (usize, Result<T, String>)| {
        said.map_err(|why| Failed(format!("{}: {why}", group.name_of(rank))))
    };
    Ok(all.into_iter().enumerate().map(named).collect())
}

/// Whether these ranks can be connected.
fn check(group: &Group, offers: &[Offer]) -> Result<(), Failed> {
    let first = offers[0].version;
    for (rank, offer) in offers.iter().enumerate() {
        let (name, host) = (group.name_of(rank), &group.hosts()[rank]);
        if offer.version != first {
            let (has, zero, other) = (written(offer.version), group.name_of(0), written(first));
            return Err(Failed(format!("{name} has NCCL {has}, and {zero} has {other}")));
        }
        if let Some(other) = (0..rank).find(|other| group.hosts()[*other] == *host && offers[*other].gpu == offer.gpu) {
            return Err(Failed(format!("{} and {name} compute on the same GPU ({})", group.name_of(other), offer.gpu)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::group::tests::on_ranks;

    #[test]
    fn versions_are_written_as_nccl_prints_them() {
        assert_eq!([2708, 21803, 22105].map(written), ["2.7.8", "2.18.3", "2.21.5"]);
    }

    #[test]
    fn what_was_named_and_is_not_nccl_is_told_of() {
        let missing = find(Some(Path::new("/nowhere/libnccl.so"))).unwrap_err().to_string();
        assert!(missing.contains("/nowhere/libnccl.so") && missing.contains("No such file"), "{missing}");
        let other = find(Some(Path::new("libc.so.6"))).unwrap_err().to_string();
        assert!(other.contains("libc.so.6") && other.contains("it has no ncclGetVersion"), "{other}");
    }

    #[test]
    fn ranks_without_a_gpu_are_told_so_alike() {
        let told = on_ranks(3, |group| {
            let gpu = if group.rank() == 2 { Err(Failed::new("it computes on the CPU")) } else { Ok(0) };
            Nccl::connect(group, Some(Path::new("/nowhere/libnccl.so")), gpu).unwrap().unwrap_err().to_string()
        });
        assert!(told.iter().all(|sentence| sentence.contains("rank 0 on ") && *sentence == told[0]), "{told:?}");
    }

    #[test]
    fn ranks_that_nccl_would_refuse_are_named() {
        let sentences = on_ranks(2, |group| {
            let offer = |version, gpu: &str| Offer { version, gpu: gpu.to_owned() };
            let refused = |offers: [Offer; 2]| check(group, &offers).unwrap_err().to_string();
            assert_eq!(check(group, &[offer(22105, "0000:01:00.0"), offer(22105, "0000:02:00.0")]), Ok(()));
            let same = refused([offer(22105, "0000:01:00.0"), offer(22105, "0000:01:00.0")]);
            assert!(
                same.contains("rank 0 on ") && same.contains("rank 1 on ") && same.contains("the same GPU"),
                "{same}"
            );
            refused([offer(22105, "a"), offer(21803, "b")])
        });
        assert!(sentences[0].contains("2.18.3") && sentences[0].contains("2.21.5"), "{sentences:?}");
    }
}
