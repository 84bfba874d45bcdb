//! What moves bytes between ranks.
//!
//! Everything else of this crate is written on these four calls, so that another way to move bytes of host memory is one more
//! implementation. NCCL is none: it moves memory of GPUs, and only between ranks that these calls have brought together, see
//! [`crate::nccl`].

mod alone;
mod threads;

pub use alone::Alone;
pub use threads::threads;

use crate::Error;

/// Moves bytes between the ranks of a group. All calls but [`Self::abort`] are collective: every rank makes them, in the same order, and
/// each returns when its own part is done. Counts are of bytes; at most 2147483647 in one call.
pub trait Transport: Send + Sync {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// The name of the machine that this rank runs on.
    fn host(&self) -> String;

    /// Everyone gets the bytes of all ranks, in the order of ranks. `counts` has the length of each rank's bytes, the same on all ranks,
    /// and `all` has room for their sum.
    ///
    /// # Errors
    /// If a rank is gone or the library refuses.
    fn all_gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<(), Error>;

    /// Each rank sends `send_counts[r]` bytes to rank `r` and gets `receive_counts[r]` from it, both in the order of ranks.
    ///
    /// # Errors
    /// If a rank is gone or the library refuses.
    fn exchange(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), Error>;

    /// Everyone gets the bytes of `root`. All ranks give room for the same number.
    ///
    /// # Errors
    /// If a rank is gone or the library refuses.
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<(), Error>;

    /// Ends all processes of the group, at once and from any of them.
    fn abort(&self, code: i32) -> !;

    /// Leaves the group in an orderly way, once, after the last call of all ranks.
    ///
    /// # Errors
    /// If the library refuses.
    fn finish(&self) -> Result<(), Error>;
}

/// The first byte of each rank's part.
pub(crate) fn starts(counts: &[usize]) -> impl Iterator<Item = usize> {
    counts.iter().scan(0, |next, count| Some(std::mem::replace(next, *next + count)))
}

/// Checks what both ends of a call rely on. Wrong lengths are a mistake of this crate, never of a user's.
pub(crate) fn assert_parts(bytes: usize, counts: &[usize], size: usize) {
    assert_eq!(counts.len(), size, "a count for every rank");
    assert_eq!(counts.iter().sum::<usize>(), bytes, "counts are of these bytes");
}
