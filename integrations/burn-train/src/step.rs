//! One optimizer step on one batch: computed beside the learner, and found good before it takes its place.

use burn::module::ParamGroup;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use burn::train::{ItemLazy, Learner, LearnerModel, TrainStep};
use kindling_layers::host;
use kindling_layers::pass::{self, BatchStatistics, TrainingPass};
use kindling_random::{Purpose, rng};
use kindling_trainer::MicroBatch;
use rand::RngExt;

use crate::batch::{Join, Split};
use crate::tensors::{RunningStates, accumulate, copy, squares};

/// Everything a step may change.
pub(crate) struct State<M: LearnerModel> {
    pub(crate) learner: Learner<M>,
    /// Gradients of batches that wait for an optimizer step, where the user accumulates several.
    gradients: GradientsParams,
    /// How many such batches there are.
    batches: usize,
}

/// Which step it is.
pub(crate) struct Place {
    pub(crate) epoch: usize,
    /// The place of the batch's first sample in the epoch.
    pub(crate) first: usize,
    /// Whether it is the last batch of the epoch.
    pub(crate) last: bool,
}

/// What does not change from step to step.
pub(crate) struct Engine {
    /// With gradients.
    pub(crate) device: Device,
    pub(crate) seed: Option<u64>,
    /// Batches to one optimizer step.
    pub(crate) accumulation: Option<usize>,
}

/// A step that was computed and found good.
pub(crate) struct Good<M: LearnerModel> {
    state: State<M>,
    running: RunningStates,
    pub(crate) output: <M as TrainStep>::Output,
}

impl<M: LearnerModel> State<M> {
    pub(crate) fn new(learner: Learner<M>) -> Self {
        Self { learner, gradients: GradientsParams::new(), batches: 0 }
    }

    /// Lets go of gradients that wait for an optimizer step, as Burn does when an epoch starts.
    pub(crate) fn start_epoch(&mut self) {
        self.gradients = GradientsParams::new();
        self.batches = 0;
    }

    /// Makes a step count, and returns its output.
    pub(crate) fn commit(&mut self, good: Good<M>) -> <M as TrainStep>::Output {
        *self = good.state;
        good.running.put(self.learner.model());
        good.output
    }
}

impl Engine {
    /// Computes a step from `state`, which stays as it is, with `model`, a private copy of its model.
    ///
    /// # Errors
    /// What the device said. Panics of its runtime are the caller's to catch.
    pub(crate) fn compute<M>(
        &self,
        state: &State<M>,
        model: &M,
        batch: &<M as TrainStep>::Input,
        cuts: &[MicroBatch],
        place: &Place,
    ) -> Result<Good<M>, String>
    where
        M: LearnerModel + TrainStep<Input: Split, Output: Join>,
    {
        let mut gradients = GradientsParams::new();
        let mut statistics = BatchStatistics::default();
        let mut outputs = Vec::with_capacity(cuts.len());
        for cut in cuts {
            let first = place.first + cut.rows.start;
            if let Some(seed) = self.seed {
                self.device.seed(rng(seed, Purpose::Dropout, place.epoch as u64, first as u64).random());
            }
            let pass = TrainingPass {
                groups: cut.groups.clone(),
                seed: self.seed.unwrap_or(0),
                epoch: place.epoch as u64,
                samples: (first as u64..).take(cut.rows.len()).collect(),
            };
            let part = batch.part(cut.rows.clone());
            let share = part.share(batch);
            let (left, observed) = pass::training(pass, || TrainStep::step(model, part));
            statistics.merge(observed);
            accumulate(model, &mut gradients, left.grads, share);
            outputs.push((left.item.sync().map_err(|error| error.to_string())?, share));
        }
        let output = <M as TrainStep>::Output::join(outputs);

        let mut next = State {
            learner: state.learner.clone(),
            gradients: copy(model, &state.gradients),
            batches: state.batches + 1,
        };
        accumulate(model, &mut next.gradients, gradients, 1.0);
        if self.accumulation.is_none_or(|wanted| wanted <= next.batches || place.last) {
            next.learner.lr_step();
            next.learner.optimizer_step(std::mem::take(&mut next.gradients));
            next.batches = 0;
        }
        next.learner = with_statistics(next.learner, statistics);

        let running = RunningStates::of(model);
        let mut numbers = squares(&next.learner.model(), &next.gradients);
        numbers.extend(running.squares());
        numbers.extend(output.witness());
        read(numbers)?;
        Ok(Good { state: next, running, output })
    }
}

/// The learner with the running statistics of `kindling_layers` moved. A learner takes tensors by record only, and a record
/// lies in host memory; it holds nothing else.
fn with_statistics<M: LearnerModel>(mut learner: Learner<M>, statistics: BatchStatistics) -> Learner<M> {
    let ids = statistics.ids();
    if !ids.is_empty() {
        let moved = statistics.commit(learner.model(), 0.0);
        learner.load_model(moved.into_record_group(ParamGroup::from_ids(ids)).allow_partial(true));
    }
    learner
}

/// The finite check: a device reports what failed when a value is read that depends on it. Which numbers they are does not count.
///
/// # Errors
/// What the device says.
pub(crate) fn read(numbers: Vec<Tensor<1>>) -> Result<(), String> {
    if numbers.is_empty() {
        return Ok(());
    }
    host::read(Tensor::cat(numbers, 0).sum()).map(drop)
}
