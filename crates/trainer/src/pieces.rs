//! Inference on a batch in pieces that fit.

use std::ops::Range;

use kindling_memory::{has_pages, with_own_allocations};
use kindling_ops::FilterCache;

use crate::error::TrainError;
use crate::fault::Phase;
use crate::inference::Inference;
use crate::recovery::{Attempts, Lack, Recovery, make_room, until_it_fits};

/// How inference fits into memory, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Images at once, at most.
    pub size: usize,
    /// Whether each tensor gets an allocation of its own ([`engine::Policy`](crate::engine::Policy)).
    pub own_allocations: bool,
}

/// Batches in pieces that fit.
pub struct Pieces<'a> {
    inference: &'a Inference<'a>,
    fit: Fit,
    /// Pieces begun.
    count: usize,
    _filters: FilterCache,
    /// What it took to make them fit.
    pub recoveries: Vec<Recovery>,
}

impl<'a> Pieces<'a> {
    /// As large as the inference begins with.
    pub fn of(inference: &'a Inference<'a>) -> Self {
        Self::fitting(inference, Fit { size: inference.micro_batch, own_allocations: false })
    }

    /// As they have fitted before.
    pub fn fitting(inference: &'a Inference<'a>, fit: Fit) -> Self {
        Self { inference, fit, count: 0, _filters: FilterCache::open(), recoveries: Vec::new() }
    }

    /// How they fit by now.
    pub fn fit(&self) -> Fit {
        self.fit
    }

    /// How they are inferred.
    pub(crate) fn inference(&self) -> &'a Inference<'a> {
        self.inference
    }

    /// The answers of `ask` for the next rows of a batch of `len`, from `start` on: for as many as fit. What did not fit once is not tried
    /// again.
    ///
    /// # Errors
    /// Those of `ask`; [`TrainError::InferenceOutOfMemory`] if a single image does not fit.
    pub fn next<A>(
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
        self.start..(self.start + self.pieces.fit.size).min(self.len)
    }
}

impl<A, F: Fn(Range<usize>) -> Result<Vec<A>, TrainError>> Attempts for Piece<'_, '_, F> {
    type Done = Vec<A>;

    fn attempt(&mut self) -> Result<Self::Done, TrainError> {
        let rows = self.rows();
        let Self { pieces, ask, .. } = self;
        match pieces.fit.own_allocations {
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
        if !pieces.fit.own_allocations && has_pages(pieces.inference.device) {
            pieces.fit.own_allocations = true;
            return Some("each tensor in an allocation of its own".to_string());
        }
        if count == 1 {
            return None;
        }
        pieces.fit.size = count / 2;
        Some(format!("{count} -> {} images at once", pieces.fit.size))
    }

    fn make_room(&self) {
        make_room(self.pieces.inference.device);
    }
}
