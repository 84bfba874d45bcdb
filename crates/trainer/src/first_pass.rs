//! The first of two passes over a batch, where a loss is no sum over samples: Dice over the batch is a ratio of sums over all of them.
//!
//! Given these sums, the loss can be written so that parts of the batch add up to it ([`OverBatch`]). So the network's answers are computed
//! twice: first without a gradient, for the sums, and then as in any step. Both passes draw the same random numbers, which belong to
//! samples, and take the same normalisation groups, so the second sees the very logits of the first. Statistics are those of the second.
//!
//! What samples add is read to the host and added in float64, one sample after the other in the order of the batch. So neither the
//! micro-batch nor the number of processes changes it.

use burn::tensor::Tensor;
use kindling_data::HostBatch;
use kindling_layers::{host, pass};
use kindling_nvtx::range;

use crate::attempt::Attempt;
use crate::error::TrainError;
use crate::exchange::rows_of_ranks;
use crate::fault::Phase;
use crate::loss::{Loss, OverBatch, Whole};
use crate::micro_batch::MicroBatch;
use crate::step::StepEngine;
use crate::teams;
use crate::trainable::Trainable;

impl<L: Clone> StepEngine<L> {
    /// What the parts of a step's loss have to know of the whole batch. Of its micro-batches this process computes those given, of which
    /// the first is the one with this number.
    ///
    /// # Errors
    /// What the device says, and [`TrainError::Elsewhere`] or [`TrainError::Processes`].
    pub(crate) fn whole<M: Trainable<D>, const D: usize>(
        &self,
        model: &M,
        batch: &HostBatch,
        (first, cuts): (usize, &[MicroBatch]),
        at: &Attempt,
    ) -> Result<Whole, TrainError>
    where
        L: Loss<D>,
    {
        let weight = self.loss.total_weight(batch);
        let Some(loss) = self.loss.over_batch() else { return Ok(Whole { weight, sums: Vec::new() }) };
        let rows = || self.rows(loss, model, batch, (first, cuts), at);
        Ok(Whole { weight, sums: rows_of_ranks(&self.ranks, at.step, rows)? })
    }

    /// What each row of some micro-batches adds to the sums.
    fn rows<M: Trainable<D>, const D: usize>(
        &self,
        loss: &dyn OverBatch<D>,
        model: &M,
        batch: &HostBatch,
        (first, cuts): (usize, &[MicroBatch]),
        at: &Attempt,
    ) -> Result<Vec<Vec<f64>>, TrainError> {
        let _pass = range(|| "first pass");
        let plain = model.valid();
        let (faults, feed) = (&self.update.faults, self.feed());
        let of = |(index, micro): (usize, &MicroBatch)| {
            faults.at(at.step, Phase::FirstPass, index);
            let (images, pass) = feed.micro_batch(batch, micro);
            let (logits, _) = pass::training(pass, || plain.logits(images));
            loss.of_rows(logits, batch, micro)
        };
        let numbered: Vec<(usize, &MicroBatch)> = (first..).zip(cuts).collect();
        let at_once = numbered.chunks(self.at_once(batch.len(), at));
        let rows: Vec<Tensor<2>> = at_once.flat_map(|some| teams::at_once(some.to_vec(), of)).collect();
        let largest = cuts.iter().map(|micro| micro.rows.len()).max().unwrap_or(0);
        read(rows).map_err(|text| TrainError::of_device(Some(at.step), largest, &text))
    }
}

/// Rows on the host, in one transfer.
fn read(rows: Vec<Tensor<2>>) -> Result<Vec<Vec<f64>>, String> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let rows = Tensor::cat(rows, 0);
    let [_, sums] = rows.dims();
    let data = host::read(rows)?.convert::<f64>();
    let numbers = data.try_to_vec::<f64>().map_err(|error| format!("{error:?}"))?;
    Ok(numbers.chunks(sums.max(1)).map(<[f64]>::to_vec).collect())
}
