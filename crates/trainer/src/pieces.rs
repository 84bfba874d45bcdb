//! Inference on a batch in pieces that fit.

use std::ops::Range;

use kindling_memory::{has_pages, with_own_allocations};

use crate::error::TrainError;
use crate::fault::Phase;
use crate::inference::Inference;
use crate::recovery::{Attempts, Lack, Recovery, make_room, until_it_fits};

/// Batches in pieces that fit.
pub(crate) struct Pieces<'a> {
    inference: &'a Inference<'a>,
    size: usize,
    /// Whether each tensor gets an allocation of its own, as in [`crate::policy`].
    own_allocations: bool,
    /// Pieces begun.
    count: usize,
    /// What it took to make them fit.
    pub(crate) recoveries: Vec<Recovery>,
}

impl<'a> Pieces<'a> {
    /// As large as the inference begins with.
    pub(crate) fn of(inference: &'a Inference<'a>) -> Self {
        Self { inference, size: inference.micro_batch, own_allocations: false, count: 0, recoveries: Vec::new() }
    }

    /// How they are inferred.
    pub(crate) fn inference(&self) -> &'a Inference<'a> {
        self.inference
    }

    /// What `ask` says of the next rows of a batch of `len`, from `start` on: of as many as fit. What did not fit once is not tried
    /// again.
    pub(crate) fn next<A>(
        &mut self,
        len: usize,
        start: usize,
        ask: impl Fn(Range<usize>) -> Result<Vec<A>, TrainError>,
    ) -> Result<Vec<A>, TrainError> {
        let mut recoveries = Vec::new();
        let piece = Piece { pieces: self, ask, len, start, reclaimed: false };
        let outcome = until_it_fits(piece, |recovery| recoveries.push(recovery.clone()));
        self.recoveries.append(&mut recoveries);
        outcome
    }

    fn try_rows<A>(
        &mut self,
        ask: &impl Fn(Range<usize>) -> Result<Vec<A>, TrainError>,
        rows: Range<usize>,
    ) -> Result<Vec<A>, TrainError> {
        let (count, piece) = (rows.len(), self.count);
        self.count += 1;
        TrainError::caught(None, count, || {
            if let Some((faults, step)) = self.inference.faults {
                faults.at(step, Phase::Eval, piece);
            }
            ask(rows)
        })
    }
}

/// The next rows of a batch.
struct Piece<'a, 'b, F> {
    pieces: &'a mut Pieces<'b>,
    ask: F,
    len: usize,
    start: usize,
    /// Whether cached memory was freed for it.
    reclaimed: bool,
}

impl<F> Piece<'_, '_, F> {
    fn rows(&self) -> Range<usize> {
        self.start..(self.start + self.pieces.size).min(self.len)
    }
}

impl<A, F: Fn(Range<usize>) -> Result<Vec<A>, TrainError>> Attempts for Piece<'_, '_, F> {
    type Done = Vec<A>;

    fn attempt(&mut self) -> Result<Self::Done, TrainError> {
        let rows = self.rows();
        let Self { pieces, ask, .. } = self;
        match pieces.own_allocations {
            true => with_own_allocations(pieces.inference.device, || pieces.try_rows(ask, rows)),
            false => pieces.try_rows(ask, rows),
        }
    }

    fn lever(&mut self, lack: &Lack) -> Option<String> {
        let count = self.rows().len();
        let pieces = &mut *self.pieces;
        if !self.reclaimed && !lack.too_large {
            self.reclaimed = true;
            return Some("freed what was cached".to_string());
        }
        if !pieces.own_allocations && has_pages(pieces.inference.device) {
            pieces.own_allocations = true;
            return Some("each tensor in an allocation of its own".to_string());
        }
        if count == 1 {
            return None;
        }
        pieces.size = count / 2;
        Some(format!("{count} -> {} images at once", pieces.size))
    }

    fn make_room(&self) {
        make_room(self.pieces.inference.device);
    }
}
