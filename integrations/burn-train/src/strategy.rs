//! The strategy: Burn's loop over epochs, with steps that may be tried again.

use std::cell::RefCell;
use std::panic::resume_unwind;

use burn::tensor::Device;
use burn::train::train::WorkerFailure;
use burn::train::{
    EventProcessorTraining, InferenceStep, Interrupter, ItemLazy, Learner, LearnerEvent, LearnerModel,
    SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader, TrainStep, TrainingComponents,
    TrainingError, TrainingItem, ValidLoader,
};
use kindling_layers::pass::normalisation_groups;
use kindling_trainer::engine::{Checkpointing, Limits, Plan, Policy, Recovery, abandon_graph, carry_out, make_room};
use kindling_trainer::{TrainError, micro_batches};

use crate::batch::{Join, Split};
use crate::failure::{Failed, attempt, expect_lack_of_memory};
use crate::step::{Engine, Place, State, read};
use crate::tensors::private_copy;

/// Trains on one device, in micro-batches as large as its memory allows.
///
/// ```ignore
/// SupervisedTraining::new(directory, train, valid)
///     .with_training_strategy(TrainingStrategy::Custom(Arc::new(OomProofStrategy::new(device))))
/// ```
///
/// The first batch of the training loader is taken for the largest; later ones that are larger are computed in parts of at
/// most its size.
pub struct OomProofStrategy {
    device: Device,
    ghost_batch_size: usize,
    micro_batch: Option<usize>,
    seed: Option<u64>,
    observer: Option<Observer>,
}

/// Who is told of recoveries.
type Observer = Box<dyn Fn(&Recovery) + Send + Sync>;

impl OomProofStrategy {
    /// A strategy for a device, which gets gradients if it has none. For Burn's gradient checkpointing pass
    /// `device.autodiff().gradient_checkpointing()`: the builder's setting reaches Burn's own strategies only.
    pub fn new(device: Device) -> Self {
        Self { device: device.autodiff(), ghost_batch_size: 8, micro_batch: None, seed: None, observer: None }
    }

    /// Micro-batches are whole groups of at most `samples` consecutive samples: 8, unless something else is said.
    ///
    /// This is the least that is computed at once, and what `kindling_layers::BatchNorm` takes its statistics over. Without
    /// batch normalisation 1 is as good and needs less memory.
    ///
    /// # Panics
    /// If `samples` is 0.
    pub fn ghost_batch_size(mut self, samples: usize) -> Self {
        assert!(samples > 0, "a group holds at least one sample");
        self.ghost_batch_size = samples;
        self
    }

    /// Never more than `samples` at once in training, but always one group. The default is the whole batch.
    pub fn micro_batch(mut self, samples: usize) -> Self {
        self.micro_batch = Some(samples);
        self
    }

    /// Seeds the device's generator before each micro-batch, with a number that depends on `seed`, the epoch and the
    /// micro-batch's place in it: what a step draws is then drawn again when the step is tried again with the same plan.
    ///
    /// The generator may be one for the whole process.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Calls `observer` after each recovery. They are logged as warnings in any case.
    pub fn on_recovery(mut self, observer: impl Fn(&Recovery) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    fn training_policy(&self, batch: usize) -> Policy {
        let group = normalisation_groups(batch, self.ghost_batch_size)[0];
        let largest = self.micro_batch.unwrap_or(batch);
        let limits = Limits::new(group, batch)
            .with_largest(largest)
            .with_checkpointing(Checkpointing::None, Checkpointing::None);
        Policy::new(limits, Plan { micro_batch: largest, checkpointing: Checkpointing::None })
    }

    /// Runs `work` until it succeeds. What it changes must be thrown away if it fails.
    ///
    /// # Errors
    /// Nothing is left to try, or a device said something that is no lack of memory.
    ///
    /// # Panics
    /// With what `work` panics with, if that is no lack of memory.
    fn carry_out<T>(
        &self,
        policy: &mut Policy,
        step: Option<u64>,
        samples: usize,
        make_room: impl Fn(),
        mut work: impl FnMut(&Plan) -> Result<T, String>,
    ) -> Result<T, TrainError> {
        let mut thrown = None;
        let recovered = |recovery: &Recovery| {
            log::warn!("out of memory ({}): {}", recovery.reason, recovery.lever);
            if let Some(observer) = &self.observer {
                observer(recovery);
            }
        };
        let outcome = carry_out(policy, &self.device, make_room, recovered, |plan| {
            attempt(|| work(plan)).map_err(|failed| {
                let error = TrainError::of_device(step, plan.micro_batch.min(samples), &failed.text());
                if let (TrainError::Device { .. }, Failed::Panic(payload)) = (&error, failed) {
                    thrown = Some(payload);
                }
                error
            })
        });
        if let Some(payload) = thrown {
            resume_unwind(payload);
        }
        let (value, next) = outcome?;
        *policy = next;
        Ok(value)
    }
}

/// A run under way.
struct Run<'a, M: LearnerModel> {
    strategy: &'a OomProofStrategy,
    engine: Engine,
    state: State<M>,
    events: SupervisedTrainingEventProcessor<M>,
    interrupter: Interrupter,
    /// Known from the first batch on.
    training: Option<Policy>,
    /// Known from the first batch on. Without gradients the same size needs other memory.
    inference: Option<Policy>,
    steps: u64,
}

impl<M> SupervisedLearningStrategy<M> for OomProofStrategy
where
    M: LearnerModel + TrainStep<Input: Split, Output: Join> + InferenceStep<Input: Split, Output: Join>,
{
    /// As Burn's `SingleDeviceTrainingStrategy`, event for event.
    fn fit(
        &self,
        components: TrainingComponents<M>,
        mut learner: Learner<M>,
        train: TrainLoader<M>,
        valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let train = train.to_device(&self.device);
        let valid = valid.to_device(&self.device.clone().without_autodiff());
        learner.fork(&self.device);
        let mut checkpointer = components.checkpointer;
        let mut early_stopping = components.early_stopping;
        let interrupter = components.interrupter;
        let mut run = Run {
            strategy: self,
            engine: Engine { device: self.device.clone(), seed: self.seed, accumulation: components.grad_accumulation },
            state: State::new(learner),
            events: components.event_processor,
            interrupter: interrupter.clone(),
            training: None,
            inference: None,
            steps: 0,
        };

        for epoch in starting_epoch..=components.num_epochs {
            // The dashboard sets a hook of its own from its own thread: when the second epoch starts, it has.
            if epoch < starting_epoch + 2 {
                expect_lack_of_memory();
            }
            run.train(&train, epoch);
            if interrupter.should_stop() {
                if let Some(interruption) = interrupter.interruption() {
                    log::info!("Training interrupted: {}", interruption.reason.as_deref().unwrap_or("reason unknown"));
                }
                break;
            }

            run.validate(&valid, epoch);
            interrupter.fail_on_error(run.events.process_train(LearnerEvent::EndEpoch(epoch)));
            if checkpointer.is_some() || early_stopping.is_some() {
                interrupter.fail_on_error(run.events.flush());
            }
            if interrupter.should_stop() {
                break;
            }
            if let Some(checkpointer) = &mut checkpointer {
                checkpointer.checkpoint(&run.state.learner, epoch, &components.event_store);
            }
            if let Some(early_stopping) = &mut early_stopping
                && early_stopping.should_stop(epoch, &components.event_store)
            {
                break;
            }
        }
        (run.state.learner.model(), run.events)
    }
}

impl<M> Run<'_, M>
where
    M: LearnerModel + TrainStep<Input: Split, Output: Join> + InferenceStep<Input: Split, Output: Join>,
{
    /// One epoch of training.
    fn train(&mut self, loader: &TrainLoader<M>, epoch: usize) {
        let start = LearnerEvent::StartSplit { epoch_number: epoch, total_items: loader.num_items() };
        self.interrupter.fail_on_error(self.events.process_train(start));
        self.state.start_epoch();
        let mut batches = loader.iter();
        let (mut iteration, mut first) = (0, 0);
        while let Some(batch) = batches.next() {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    self.interrupter.fail(error);
                    break;
                }
            };
            iteration += 1;
            let progress = batches.progress();
            let samples = batch.samples();
            if samples == 0 {
                continue;
            }
            let output = match self.step(&batch, &Place { epoch, first, last: progress.is_completed() }) {
                Ok(output) => output,
                Err(error) => {
                    self.interrupter.fail(stopped_by(&error));
                    break;
                }
            };
            first += samples;
            let rate = self.state.learner.lr_current();
            let item = TrainingItem::new(output, progress, Some(iteration), Some(rate));
            self.interrupter.fail_on_error(self.events.process_train(LearnerEvent::ProcessedItem(item)));
            if self.interrupter.should_stop() {
                break;
            }
        }
        self.interrupter.fail_on_error(self.events.process_train(LearnerEvent::EndSplit(epoch)));
    }

    /// One step, tried until it fits.
    fn step(&mut self, batch: &<M as TrainStep>::Input, place: &Place) -> Result<<M as TrainStep>::Output, TrainError> {
        let Self { strategy, engine, state, .. } = self;
        let samples = batch.samples();
        self.steps += 1;
        // The copy outlives the attempt: what a failed one leaves on the device is found by it.
        let copy: RefCell<Option<M>> = RefCell::new(None);
        let make_room = || match copy.borrow_mut().take() {
            Some(model) => abandon_graph(&model, &engine.device),
            None => make_room(&engine.device),
        };
        let policy = self.training.get_or_insert_with(|| strategy.training_policy(samples));
        let good = strategy.carry_out(policy, Some(self.steps), samples, make_room, |plan| {
            let model = private_copy(&state.learner.model(), &engine.device);
            *copy.borrow_mut() = Some(model.clone());
            let cuts = micro_batches(samples, strategy.ghost_batch_size, plan.micro_batch);
            engine.compute(state, &model, batch, &cuts, place)
        })?;
        Ok(self.state.commit(good))
    }

    /// One epoch of validation.
    fn validate(&mut self, loader: &ValidLoader<M>, epoch: usize) {
        let start = LearnerEvent::StartSplit { epoch_number: epoch, total_items: loader.num_items() };
        self.interrupter.fail_on_error(self.events.process_valid(start));
        let model = self.state.learner.model().valid();
        let mut batches = loader.iter();
        let mut iteration = 0;
        while let Some(batch) = batches.next() {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    self.interrupter.fail(error);
                    break;
                }
            };
            iteration += 1;
            let progress = batches.progress();
            if batch.samples() == 0 {
                continue;
            }
            let output = match self.infer(&model, &batch) {
                Ok(output) => output,
                Err(error) => {
                    self.interrupter.fail(stopped_by(&error));
                    break;
                }
            };
            let item = TrainingItem::new(output, progress, Some(iteration), None);
            self.interrupter.fail_on_error(self.events.process_valid(LearnerEvent::ProcessedItem(item)));
            if self.interrupter.should_stop() {
                break;
            }
        }
        self.interrupter.fail_on_error(self.events.process_valid(LearnerEvent::EndSplit(epoch)));
    }

    /// One batch without gradients, tried until it fits.
    fn infer(
        &mut self,
        model: &M,
        batch: &<M as InferenceStep>::Input,
    ) -> Result<<M as InferenceStep>::Output, TrainError> {
        let Self { strategy, engine, .. } = self;
        let samples = batch.samples();
        let largest = Plan { micro_batch: samples, checkpointing: Checkpointing::None };
        let policy = self.inference.get_or_insert_with(|| Policy::new(Limits::of_inference(samples), largest));
        let device = engine.device.clone().without_autodiff();
        strategy.carry_out(
            policy,
            None,
            samples,
            || make_room(&device),
            |plan| {
                let mut outputs = Vec::new();
                for cut in micro_batches(samples, 1, plan.micro_batch) {
                    let part = batch.part(cut.rows);
                    let share = part.share(batch);
                    let output = InferenceStep::step(model, part);
                    outputs.push((output.sync().map_err(|error| error.to_string())?, share));
                }
                let output = <M as InferenceStep>::Output::join(outputs);
                read(output.witness().into_iter().collect())?;
                Ok(output)
            },
        )
    }
}

/// Burn's errors have no place for a device that is too small; a worker that failed is the nearest.
fn stopped_by(error: &TrainError) -> TrainingError {
    TrainingError::Workers(vec![WorkerFailure { device_id: 0, message: error.to_string() }])
}
