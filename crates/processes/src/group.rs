//! The processes that train together, and the messages between them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::launcher::launched;
use crate::mpi::{self, Found};
use crate::progress::Progress;
use crate::transport::{Alone, Transport, starts, threads};
use crate::{Error, tree};

/// Bytes of a small message that travel at once; longer ones take a second call.
const SMALL: usize = 256;
/// The length of a small message stands before it.
const HEAD: usize = size_of::<u64>();
/// Bytes of all ranks in one call of [`Group::gather`] and [`Group::broadcast`].
const AT_ONCE: usize = 64 << 20;

/// The ranks of a run, this process being one of them. All methods that send are collective: every rank calls them in the same order.
pub struct Group {
    transport: Box<dyn Transport>,
    found: Option<Found>,
    hosts: Vec<String>,
    /// The same on all ranks and another one in every run.
    nonce: u64,
    progress: Arc<Progress>,
    sent: AtomicU64,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Group {
    /// One process. Nothing is loaded.
    pub fn alone() -> Self {
        let hosts = vec![Alone.host()];
        Self { nonce: nonce(), ..Self::with(Box::new(Alone), hosts) }
    }

    /// The processes that a launcher started, this one being among them. Without a launcher, or if it started one process, this process
    /// is alone and nothing is loaded, unless `library` or `KINDLING_MPI` names a library.
    ///
    /// # Errors
    /// If there is no MPI library, it cannot be used, or it knows of another number of processes than the launcher started.
    pub fn join(library: Option<&Path>) -> Result<Self, Error> {
        let launched = launched();
        if mpi::given(library).is_none() && launched.is_none_or(|launched| launched.size == Some(1)) {
            return Ok(Self::alone());
        }
        let (found, transport) = mpi::join(library).map_err(|error| match (error, launched) {
            (Error::NotFound { tried }, Some(launched)) => {
                Error::NoLibrary { launcher: launched.launcher, started: launched.size, tried }
            }
            (error, _) => error,
        })?;
        if let Some((launched, started)) = launched.and_then(|launched| Some((launched, launched.size?)))
            && started != transport.size()
        {
            let (launcher, seen) = (launched.launcher, transport.size());
            return Err(Error::Mismatch { launcher, started, library: found.to_string(), seen });
        }
        Ok(Self { found: Some(found), ..Self::new(transport)? })
    }

    /// Ranks that are threads of this process, in order, each for a thread of its own: for tests without MPI.
    pub fn of_threads(size: usize) -> Vec<Self> {
        let mut joining: Vec<Option<Self>> = (0..size).map(|_| None).collect();
        std::thread::scope(|scope| {
            for (place, transport) in joining.iter_mut().zip(threads(size)) {
                scope.spawn(|| *place = Self::new(transport).ok());
            }
        });
        joining.into_iter().flatten().collect()
    }

    /// A group on any transport. Collective, because it asks all ranks for their hosts.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn new(transport: Box<dyn Transport>) -> Result<Self, Error> {
        let host = transport.host();
        let mut group = Self::with(transport, Vec::new());
        let told: Vec<(String, u64)> = group.agree("names of hosts", &(host, nonce()))?;
        group.nonce = told[0].1;
        group.hosts = told.into_iter().map(|(host, _)| host).collect();
        Ok(group)
    }

    fn with(transport: Box<dyn Transport>, hosts: Vec<String>) -> Self {
        Self { transport, found: None, hosts, nonce: 0, progress: Arc::new(Progress::new()), sent: AtomicU64::new(0) }
    }

    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.transport.size()
    }

    /// Whether this is rank 0, which alone prints and writes.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The library that connects the ranks, if one does.
    pub fn library(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// The machine of each rank.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// `rank 2 on node7`, for sentences.
    pub fn name_of(&self, rank: usize) -> String {
        format!("rank {rank} on {}", self.hosts.get(rank).map_or("an unknown host", String::as_str))
    }

    /// This rank among those on the same machine, from 0: the number of its GPU.
    pub fn local_rank(&self) -> usize {
        let mine = &self.hosts[self.rank()];
        self.hosts[..self.rank()].iter().filter(|host| *host == mine).count()
    }

    /// The number of ranks on this machine, which share its cores.
    pub fn local_size(&self) -> usize {
        let mine = &self.hosts[self.rank()];
        self.hosts.iter().filter(|host| *host == mine).count()
    }

    /// What this rank owns of `leaves` normalisation groups: see [`tree::share`].
    pub fn share(&self, leaves: usize) -> Range<usize> {
        tree::share(leaves, self.rank(), self.size())
    }

    /// Bytes that this rank sent to others.
    pub fn bytes_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Time that this rank spent in collective calls: waiting for others, and moving bytes.
    pub fn waited(&self) -> Duration {
        self.progress.now().waited
    }

    /// Everyone tells something small, and learns what all told, in the order of ranks. `about` says what, as it reads after "waits for
    /// the": `states of step`. Messages are JSON, so a float that is to keep its bits travels as an integer.
    ///
    /// # Errors
    /// If a rank is gone, or a message is not a `T`.
    pub fn agree<T: Serialize + DeserializeOwned>(&self, about: &'static str, mine: &T) -> Result<Vec<T>, Error> {
        let unreadable = |rank, reason: serde_json::Error| Error::Message { rank, about, reason: reason.to_string() };
        let mine = serde_json::to_vec(mine).map_err(|reason| unreadable(self.rank(), reason))?;
        let all = self.gather(about, &mine)?;
        let read =
            |(rank, bytes): (usize, Vec<u8>)| serde_json::from_slice(&bytes).map_err(|reason| unreadable(rank, reason));
        all.into_iter().enumerate().map(read).collect()
    }

    /// Everyone gets the bytes of all ranks, in the order of ranks. They may be of any length.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn gather(&self, about: &'static str, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.progress.waiting_for(about, || {
            let blocks = self.gather_small(mine)?;
            let lengths: Vec<usize> = blocks.iter().map(length_of).collect();
            if lengths.iter().all(|length| *length <= SMALL - HEAD) {
                return Ok(blocks
                    .iter()
                    .zip(lengths)
                    .map(|(block, length)| block[HEAD..HEAD + length].to_vec())
                    .collect());
            }
            self.gather_long(mine, &lengths)
        })
    }

    /// The length of each rank's message, with its first bytes.
    fn gather_small(&self, mine: &[u8]) -> Result<Vec<[u8; SMALL]>, Error> {
        let mut block = [0; SMALL];
        block[..HEAD].copy_from_slice(&(mine.len() as u64).to_le_bytes());
        let inline = mine.len().min(SMALL - HEAD);
        block[HEAD..HEAD + inline].copy_from_slice(&mine[..inline]);
        let mut all = vec![[0; SMALL]; self.size()];
        self.all_gather(&block, &vec![SMALL; self.size()], all.as_flattened_mut())?;
        Ok(all)
    }

    /// Messages of any length, in pieces that MPI can count.
    fn gather_long(&self, mine: &[u8], lengths: &[usize]) -> Result<Vec<Vec<u8>>, Error> {
        let most = (AT_ONCE / self.size()).max(1);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut all: Vec<Vec<u8>> = lengths.iter().map(|length| Vec::with_capacity(*length)).collect();
        for begin in (0..longest).step_by(most) {
            let piece = |length: usize| begin.min(length)..(begin + most).min(length);
            let counts: Vec<usize> = lengths.iter().map(|length| piece(*length).len()).collect();
            let mut pieces = vec![0; counts.iter().sum()];
            self.all_gather(&mine[piece(mine.len())], &counts, &mut pieces)?;
            for ((whole, start), count) in all.iter_mut().zip(starts(&counts)).zip(&counts) {
                whole.extend_from_slice(&pieces[start..start + count]);
            }
        }
        Ok(all)
    }

    /// Everyone gets the bytes of `root`; those of others are replaced.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn broadcast(&self, about: &'static str, root: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        self.progress.waiting_for(about, || {
            let mut length = (bytes.len() as u64).to_le_bytes();
            self.transport.broadcast(root, &mut length)?;
            bytes.resize(u64::from_le_bytes(length) as usize, 0);
            bytes.chunks_mut(AT_ONCE).try_for_each(|piece| self.transport.broadcast(root, piece))?;
            // A tree of sends: all but the root get the bytes once, whoever sends them.
            if self.rank() == root {
                self.count((bytes.len() + HEAD) * (self.size() - 1));
            }
            Ok(())
        })
    }

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn meet(&self, about: &'static str) -> Result<(), Error> {
        self.gather(about, &[]).map(drop)
    }

    /// Ends all processes of the run at once, as after an error that the others do not know of. Say why before.
    pub fn abort(&self, code: i32) -> ! {
        self.transport.abort(code)
    }

    /// Leaves in an orderly way, when all ranks have come to the same end. Launchers take a process that ends without it for a failure.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn finish(&self) -> Result<(), Error> {
        self.progress.waiting_for("end", || self.transport.finish())
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }

    pub(crate) fn all_gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<(), Error> {
        self.count(mine.len() * (self.size() - 1));
        self.transport.all_gather(mine, counts, all)
    }

    pub(crate) fn exchange(&self, send: &[u8], to: &[usize], receive: &mut [u8], from: &[usize]) -> Result<(), Error> {
        self.count(send.len() - to[self.rank()]);
        self.transport.exchange(send, to, receive, from)
    }

    /// Counts bytes that were sent to others.
    pub(crate) fn count(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

fn length_of(block: &[u8; SMALL]) -> usize {
    block.first_chunk().map_or(0, |head| u64::from_le_bytes(*head) as usize)
}

/// A number that hardly any other run has, made of the time and the process, for there is no source of randomness here.
fn nonce() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() as u64) ^ (u64::from(std::process::id()) << 40)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What each rank of `size` computes, in order.
    pub(crate) fn on_ranks<T: Send>(size: usize, work: impl Fn(&Group) -> T + Sync) -> Vec<T> {
        let groups = Group::of_threads(size);
        assert_eq!(groups.len(), size);
        std::thread::scope(|scope| {
            let ranks: Vec<_> = groups.into_iter().map(|group| scope.spawn(|| work(&{ group }))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn everyone_learns_what_all_told_however_long_it_is() {
        for size in 1..9 {
            for length in [0, 1, SMALL - HEAD, SMALL - HEAD + 1, 5000] {
                // Rank 0 tells nothing, and the others more and more.
                let told = |rank: usize| vec![rank as u8 + 1; rank * length];
                let all = on_ranks(size, |group| group.gather("messages", &told(group.rank())).unwrap());
                let expected: Vec<Vec<u8>> = (0..size).map(told).collect();
                assert!(all.iter().all(|all| *all == expected), "{size} ranks, {length} bytes");
            }
            let states =
                on_ranks(size, |group| group.agree("states", &(group.rank(), Some("fits".to_owned()))).unwrap().len());
            assert_eq!(states, vec![size; size]);
        }
    }

    #[test]
    fn everyone_gets_the_bytes_of_the_root() {
        for root in 0..3 {
            let all = on_ranks(3, |group| {
                let mut bytes = vec![group.rank() as u8; 10 * group.rank()];
                group.broadcast("a configuration", root, &mut bytes).unwrap();
                bytes
            });
            assert_eq!(all, vec![vec![root as u8; 10 * root]; 3]);
        }
    }

    #[test]
    fn a_message_of_another_kind_is_told_of_with_its_rank() {
        let said = on_ranks(2, |group| {
            if group.rank() == 1 {
                return group.agree("states", &"a word".to_owned()).map(drop);
            }
            group.agree("states", &7).map(drop)
        });
        let sentence = said[0].as_ref().unwrap_err().to_string();
        assert!(sentence.contains("rank 1 about states cannot be read"), "{sentence}");
    }

    #[test]
    fn a_rank_that_has_ended_is_an_error_for_the_others() {
        let said = on_ranks(3, |group| if group.rank() == 2 { Ok(()) } else { group.meet("everyone") });
        assert!(matches!(said[0], Err(Error::Gone { .. })), "{said:?}");
    }

    #[test]
    fn ranks_know_their_places() {
        let places = on_ranks(3, |group| {
            (group.local_rank(), group.local_size(), group.is_first(), group.share(7), group.nonce())
        });
        assert_eq!(places.iter().map(|place| place.0).collect::<Vec<_>>(), [0, 1, 2], "all are on one machine");
        assert!(places.iter().all(|place| place.1 == 3 && place.4 == places[0].4), "{places:?}");
        assert_eq!(places.iter().map(|place| place.3.clone()).collect::<Vec<_>>(), [0..2, 2..4, 4..7]);
        assert_eq!(places.iter().map(|place| place.2).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn alone_everything_is_a_copy_and_nothing_is_sent() {
        let group = Group::alone();
        assert_eq!(group.agree("states", &3).unwrap(), [3]);
        assert_eq!((group.size(), group.local_size(), group.bytes_sent()), (1, 1, 0));
        assert!(group.library().is_none());
        group.finish().unwrap();
    }
}
