//! Live bytes by purpose, and their peak.

use super::Phase;
use crate::pages::Pools;

/// The purpose of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Weights,
    Gradients,
    Optimizer,
    Activations,
    Workspace,
    Overhead,
}

const PARTS: usize = 6;

/// The state of the ledger at the peak so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    pub(super) parts: [u64; PARTS],
    pub(super) phase: Phase,
}

impl Peak {
    pub(super) fn total(&self) -> u64 {
        self.parts.iter().sum()
    }
}

/// A buffer, which is freed when its last reference is released.
pub(super) type BufferId = usize;

#[derive(Clone, Copy, Debug)]
struct Buffer {
    bytes: u64,
    part: Part,
    references: usize,
}

/// Buffers, their sum, and its peak.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    buffers: Vec<Buffer>,
    live: [u64; PARTS],
    peak: Peak,
    /// The same bytes as the pools of a GPU see them.
    pools: Pools,
    /// The most workspace since [`Ledger::start_scratch`].
    scratch: u64,
    /// What is told stands for as many like it, which happen at the same time.
    times: Times,
    pub(super) phase: Phase,
}

/// A factor, 1 unless another is set.
#[derive(Clone, Copy, Debug)]
struct Times(u64);

impl Default for Times {
    fn default() -> Self {
        Self(1)
    }
}

impl Ledger {
    /// Allocates, with one reference.
    pub(super) fn make(&mut self, part: Part, bytes: u64) -> BufferId {
        self.add(part, bytes);
        self.buffers.push(Buffer { bytes, part, references: 1 });
        self.buffers.len() - 1
    }

    /// From now on each allocation and release stands for so many.
    pub(super) fn times(&mut self, times: usize) {
        self.times = Times(times as u64);
    }

    /// Allocates permanently.
    pub(super) fn add(&mut self, part: Part, bytes: u64) {
        let bytes = bytes * self.times.0;
        self.live[part as usize] += bytes;
        self.scratch = self.scratch.max(self.live[Part::Workspace as usize]);
        self.pools.add(bytes);
        if self.live.iter().sum::<u64>() > self.peak.total() {
            self.peak.parts = self.live;
            self.peak.phase = self.phase;
        }
    }

    /// Allocates several tensors permanently.
    pub(super) fn add_all(&mut self, part: Part, sizes: impl IntoIterator<Item = u64>) {
        sizes.into_iter().for_each(|bytes| self.add(part, bytes));
    }

    /// Frees what [`Ledger::add`] allocated.
    pub(super) fn remove(&mut self, part: Part, bytes: u64) {
        let bytes = bytes * self.times.0;
        self.live[part as usize] = self.live[part as usize].saturating_sub(bytes);
        self.pools.remove(bytes);
    }

    /// Frees what [`Ledger::add_all`] allocated.
    pub(super) fn remove_all(&mut self, part: Part, sizes: impl IntoIterator<Item = u64>) {
        sizes.into_iter().for_each(|bytes| self.remove(part, bytes));
    }

    /// Allocates and frees at once.
    pub(super) fn burst(&mut self, bytes: u64) {
        self.burst_of(&[bytes]);
    }

    /// Allocates tensors that exist at the same time, and frees them.
    pub(super) fn burst_of(&mut self, pieces: &[u64]) {
        pieces.iter().for_each(|bytes| self.add(Part::Workspace, *bytes));
        pieces.iter().for_each(|bytes| self.remove(Part::Workspace, *bytes));
    }

    /// Adds a reference.
    pub(super) fn retain(&mut self, buffer: BufferId) -> BufferId {
        self.buffers[buffer].references += 1;
        buffer
    }

    /// Removes a reference. The last one frees the buffer.
    pub(super) fn release(&mut self, buffer: BufferId) {
        let Buffer { bytes, part, references } = &mut self.buffers[buffer];
        *references -= 1;
        if *references == 0 {
            let (part, bytes) = (*part, *bytes);
            self.remove(part, bytes);
        }
    }

    /// Whether there is only one reference, so that Burn writes results into the buffer itself.
    pub(super) fn unique(&self, buffer: BufferId) -> bool {
        self.buffers[buffer].references == 1
    }

    pub(super) fn bytes(&self, buffer: BufferId) -> u64 {
        self.buffers[buffer].bytes
    }

    pub(super) fn start_scratch(&mut self) {
        self.scratch = 0;
    }

    pub(super) fn scratch(&self) -> u64 {
        self.scratch
    }

    pub(super) fn peak(&self) -> Peak {
        self.peak
    }

    pub(super) fn pools(&self) -> Pools {
        self.pools
    }

    /// Live bytes of a purpose.
    #[cfg(test)]
    pub(super) fn live(&self, part: Part) -> u64 {
        self.live[part as usize]
    }
}
