//! Steps that count for nothing, before the first one that does.
//!
//! A device that compiles kernels chooses among them at first use, by time alone, for sizes rounded to powers of two, and
//! keeps what it chose. A choice made while the device is full is a choice among what still fits. So the sizes a run may
//! use are tried from the smallest up to the plan's while the device is empty, and what that leaves behind is freed.

use std::time::Instant;

use burn::tensor::Device;
use kindling_data::HostBatch;
use kindling_layers::host;
use kindling_memory::Plan;

use crate::attempt::Attempt;
use crate::error::TrainError;
use crate::fault::Faults;
use crate::inference::samples_at_once;
use crate::loss::Loss;
use crate::model_state::ModelState;
use crate::policy::Policy;
use crate::ranks::Ranks;
use crate::recovery::{abandon_graph, make_room};
use crate::step::{StepEngine, upload};
use crate::trainable::Trainable;
use crate::update::Update;

/// What was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Warmed {
    /// The micro-batches that fit, ascending.
    pub micro_batches: Vec<usize>,
    /// What did not fit, if something did not; larger ones were not tried.
    pub too_large: Option<usize>,
    /// How long it took.
    pub seconds: f64,
}

/// Computes and throws away a step of each micro-batch from one normalisation group up to the plan's, and then the
/// inference that validation will ask for. Nothing of the model state changes.
///
/// # Errors
/// What is no lack of memory.
pub(crate) fn warm_up<M: Trainable<D>, L: Loss<D> + Clone, const D: usize>(
    engine: &StepEngine<L>,
    model_state: &ModelState<M>,
    batch: &HostBatch,
    policy: &Policy,
    device: &Device,
) -> Result<Warmed, TrainError> {
    let began = Instant::now();
    let update = Update { faults: Faults::default(), ..engine.update.clone() };
    // Each rank by itself.
    let quiet = StepEngine { update, ranks: Ranks::alone(), ..engine.clone() };
    let plan = policy.plan();
    let sizes = policy.limits().sizes().into_iter().filter(|&size| size <= plan.micro_batch.min(batch.rows().len()));
    let (mut micro_batches, mut too_large) = (Vec::new(), None);
    for micro_batch in sizes {
        let part = first_rows(batch, micro_batch);
        let at = Attempt { step: 1, plan: Plan { micro_batch, ..plan }, loss_scale: 1.0 };
        match quiet.compute(model_state, &part, &at, 0.0) {
            // A loss that is not finite will be so in the first step too, and is told there.
            Ok(_) | Err(TrainError::NotFinite { .. } | TrainError::Overflow { .. }) => micro_batches.push(micro_batch),
            Err(TrainError::OutOfMemory { .. }) => {
                too_large = Some(micro_batch);
                abandon_graph(model_state.model(), device);
                break;
            }
            Err(other) => return Err(other),
        }
    }
    if let (Some(&group), Some(&largest)) = (micro_batches.first(), micro_batches.last()) {
        let at_once = samples_at_once(device, group, largest);
        let images = || upload(&first_rows(batch, at_once), 0..at_once, engine.precision, device);
        let inferred = TrainError::caught(None, at_once, || {
            let read = host::read(model_state.judged().logits(images()));
            read.map_err(|text| TrainError::of_device(None, at_once, &text))
        });
        match inferred {
            Ok(_) | Err(TrainError::InferenceOutOfMemory { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    make_room(device);
    Ok(Warmed { micro_batches, too_large, seconds: began.elapsed().as_secs_f64() })
}

/// So many of the rows whose images are there.
fn first_rows(batch: &HostBatch, count: usize) -> HostBatch {
    let [_, channels, height, width] = batch.shape;
    let first = batch.rows().start;
    let rows = first..first + count;
    HostBatch {
        images: batch.images_of(rows.clone()).to_vec(),
        first_row: 0,
        shape: [count, channels, height, width],
        labels: batch.labels[rows.clone()].to_vec(),
        targets: batch.targets_of(rows.clone()).map(<[f32]>::to_vec),
        masks: batch.masks_of(rows.clone()).map(<[u8]>::to_vec),
        pixels: batch.pixels.get(rows.clone()).map(<[_]>::to_vec).unwrap_or_default(),
        samples: batch.samples[rows].to_vec(),
        bad: Vec::new(),
        epoch: batch.epoch,
        index: batch.index,
    }
}
