//! Ranks that are threads of one process, for tests that need several ranks and no MPI.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use super::{Transport, alone, assert_parts, starts};
use crate::{Error, leave};

/// One of several ranks. From each rank to each other there is a channel, so that messages stay in order.
struct Thread {
    rank: usize,
    to: Vec<Mutex<Sender<Vec<u8>>>>,
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

/// The ranks of a group of `size`, in order, each to be moved to a thread of its own.
pub fn threads(size: usize) -> Vec<Box<dyn Transport>> {
    let mut to: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
    let mut from: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
    for to in &mut to {
        for from in &mut from {
            let (sender, receiver) = channel();
            to.push(Mutex::new(sender));
            from.push(Mutex::new(receiver));
        }
    }
    let ranks = to.into_iter().zip(from).enumerate();
    ranks.map(|(rank, (to, from))| Box::new(Thread { rank, to, from }) as Box<dyn Transport>).collect()
}

impl Thread {
    fn send(&self, rank: usize, bytes: &[u8]) -> Result<(), Error> {
        let to = self.to[rank].lock().unwrap_or_else(PoisonError::into_inner);
        to.send(bytes.to_vec()).map_err(|_| Error::Gone { rank })
    }

    fn receive(&self, rank: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let from = self.from[rank].lock().unwrap_or_else(PoisonError::into_inner);
        let got = from.recv().map_err(|_| Error::Gone { rank })?;
        assert_eq!(got.len(), bytes.len(), "rank {rank} and rank {} make different calls", self.rank);
        bytes.copy_from_slice(&got);
        Ok(())
    }
}

impl Transport for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn host(&self) -> String {
        alone::host()
    }

    fn all_gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<(), Error> {
        assert_parts(all.len(), counts, self.size());
        assert_eq!(mine.len(), counts[self.rank]);
        (0..self.size()).try_for_each(|rank| self.send(rank, mine))?;
        let mut parts = starts(counts).zip(counts).enumerate();
        parts.try_for_each(|(rank, (start, count))| self.receive(rank, &mut all[start..start + count]))
    }

    fn exchange(
        &self,
        send: &[u8],
        send_counts: &[usize],
        receive: &mut [u8],
        receive_counts: &[usize],
    ) -> Result<(), Error> {
        assert_parts(send.len(), send_counts, self.size());
        assert_parts(receive.len(), receive_counts, self.size());
        let mut parts = starts(send_counts).zip(send_counts).enumerate();
        parts.try_for_each(|(rank, (start, count))| self.send(rank, &send[start..start + count]))?;
        let mut parts = starts(receive_counts).zip(receive_counts).enumerate();
        parts.try_for_each(|(rank, (start, count))| self.receive(rank, &mut receive[start..start + count]))
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<(), Error> {
        if self.rank == root {
            (0..self.size()).filter(|rank| *rank != root).try_for_each(|rank| self.send(rank, bytes))
        } else {
            self.receive(root, bytes)
        }
    }

    fn abort(&self, code: i32) -> ! {
        leave::at_once(code)
    }

    fn finish(&self) -> Result<(), Error> {
        Ok(())
    }
}
