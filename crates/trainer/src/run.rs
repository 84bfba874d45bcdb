//! A run in progress, whatever it trains: where it is, what it writes down and what it saves.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::module::Module;
use burn::tensor::Device;
use kindling_data::{BadSample, HostBatch, Loader, Split};
use kindling_layers::Checkpointing;
use kindling_memory::{Meter, Plan};
use kindling_runs::{BadSamples, Event, EventLog, RunDir, stream_atomically};
use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoints, Loaded, save_whatever_happens};
use crate::checkpointable::Checkpointable;
use crate::error::TrainError;
use crate::fault::Faults;
use crate::host_copy::HostCopy;
use crate::journal::{Journal, Observer};
use crate::model_snapshot::ModelSnapshot;
use crate::parts::{self, OfModule, Unwritten};
use crate::policy::Policy;
use crate::ranks::Ranks;
use crate::recovery::{Recovery, describe};
use crate::state::{Best, Progress, TrainState};

/// What a run is made of besides what it trains.
pub struct Setup<'a> {
    /// The zoo's name of the model, or of the pair of models.
    pub model_name: &'a str,
    /// A note in the weights files: what they belong to.
    pub note: String,
    /// The device, without gradients.
    pub device: Device,
    /// Training samples, a step's in a batch, shuffled and augmented.
    pub train: Loader,
    /// Where everything is written.
    pub run: &'a RunDir,
    /// Set from outside to end the run after the current step.
    pub stop: Arc<AtomicBool>,
    /// How much is computed at once in the first step.
    pub start: Plan,
    /// Failures to come, for tests.
    pub faults: Faults,
    /// The processes that do it together; the first of them writes everything.
    pub ranks: Rc<Ranks>,
}

impl<'a> Setup<'a> {
    /// A run of this process alone, without a note, that goes on to its end. Its first step computes `micro_batch` samples at once and no
    /// activation again.
    pub fn new(model_name: &'a str, device: Device, train: Loader, run: &'a RunDir, micro_batch: usize) -> Self {
        Self {
            model_name,
            note: String::new(),
            device,
            train,
            run,
            stop: Arc::default(),
            start: Plan { micro_batch, checkpointing: Checkpointing::None },
            faults: Faults::default(),
            ranks: Ranks::alone(),
        }
    }
}

/// What the first rank found of a run that goes on.
#[derive(Default, Serialize, Deserialize)]
struct Found {
    /// The step of the newest checkpoint.
    step: Option<u64>,
    /// Whether it had ended.
    complete: bool,
    /// Whether it had, and is longer now.
    longer: bool,
}

/// What became of a rank's rows of a batch.
#[derive(Serialize, Deserialize)]
struct OfBatch {
    first_row: usize,
    /// Whose images are there, if some stand for others.
    samples: Vec<u64>,
    /// What could not be read.
    bad: Vec<BadSample>,
    /// Pixels of each class, of a segmentation.
    pixels: Vec<Vec<u64>>,
    /// Whether the rank is asked to stop.
    stop: bool,
}

/// A run in progress, between two steps. Only a commit changes what it trains.
pub struct Run<'a, S> {
    pub(crate) setup: Setup<'a>,
    pub(crate) state: TrainState<S>,
    pub(crate) journal: Journal,
    checkpoints: Checkpoints,
    host_copy: HostCopy,
    /// Whether the ranks have told each other that one of them is to stop.
    stop_agreed: bool,
    /// The last step after which the ranks were found to hold the same.
    same_after: u64,
}

/// Whether a run that is there is over.
type IsOver<'a> = &'a dyn Fn(&Progress) -> bool;

impl<'a, S: Checkpointable + Clone> Run<'a, S> {
    /// A run at its start.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the event log or the list of bad samples cannot be opened.
    pub(crate) fn new(state: TrainState<S>, setup: Setup<'a>) -> Result<Self, TrainError> {
        let (events, bad_samples) = (setup.run.events(), setup.run.bad_samples());
        let (log, bad_samples) = match setup.ranks.is_first() {
            true => (EventLog::open(&events)?, BadSamples::open(&bad_samples)?),
            false => (EventLog::unwritten(&events), BadSamples::unwritten(&bad_samples)?),
        };
        setup.train.remember_bad(bad_samples.samples(Split::Train.name()));
        let meter = Meter::new(&setup.device);
        Ok(Self {
            state,
            journal: Journal { log, bad_samples, meter, complete: false, saved: None },
            checkpoints: Checkpoints::new(setup.run.checkpoints(), setup.model_name),
            host_copy: HostCopy::new(&setup.device),
            stop_agreed: false,
            same_after: 0,
            setup,
        })
    }

    /// What it is made of.
    pub fn setup(&self) -> &Setup<'a> {
        &self.setup
    }

    /// Where it is.
    pub fn progress(&self) -> &Progress {
        self.state.progress()
    }

    /// What it trains, as the last step left it.
    pub fn state(&self) -> &S {
        self.state.model_state()
    }

    /// How much is computed at once now.
    pub fn plan(&self) -> Plan {
        self.state.policy().plan()
    }

    /// Whether it had ended before it was resumed. Nothing is written into its log then.
    pub fn was_complete(&self) -> bool {
        self.journal.complete
    }

    /// Writes an event to the log and shows it to the observer.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the log cannot be written.
    pub fn emit(&mut self, event: Event, observer: &mut dyn Observer) -> Result<(), TrainError> {
        self.journal.emit(event, observer)
    }

    /// Notes that it was looked at after the last step, and the score if none was better.
    pub fn looked(&mut self, best: Option<Best>) {
        self.state.evaluated(best);
    }

    /// Writes a network as a weights file, with the run's note.
    ///
    /// # Errors
    /// [`TrainError::Run`] if the file cannot be written, and what the device says.
    pub fn write_weights<M: Module>(&self, network: &M, path: &Path) -> Result<(), TrainError> {
        if !self.setup.ranks.is_first() {
            return Ok(());
        }
        let mut refused = None;
        let written = stream_atomically(path, |file| {
            let written = parts::write(&OfModule::of(network), Some(&self.setup.note), file);
            written.map(|_| ()).map_err(|unwritten| match unwritten {
                Unwritten::File(error) => error,
                Unwritten::Device(text) => io::Error::other(refused.insert(text).clone()),
            })
        });
        match refused {
            Some(text) => Err(TrainError::of_device(Some(self.progress().step), 0, &text)),
            None => Ok(written?),
        }
    }

    /// Counts recoveries and writes them down.
    pub(crate) fn tell(
        &mut self,
        during: &str,
        recoveries: Vec<Recovery>,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        for Recovery { reason, lever, seconds } in recoveries {
            self.state.recovered(seconds);
            let (step, during) = (self.progress().step, during.to_string());
            self.emit(Event::Recovered { step, during, reason, lever, seconds }, observer)?;
        }
        Ok(())
    }

    /// Lists samples that could not be read, and reports those that were not listed yet.
    pub(crate) fn note_bad(
        &mut self,
        split: Split,
        bad: &[BadSample],
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        self.journal.note_bad(self.state.progress().step, split, bad, observer)
    }

    /// Writes down that the next step is computed otherwise than the one that was done with the plan `used`, if it is.
    pub(crate) fn replanned(&mut self, used: Option<Plan>, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let (step, next) = (self.progress().step, self.plan());
        let Some(used) = used.filter(|used| *used != next) else { return Ok(()) };
        let smaller = next.micro_batch < used.micro_batch || next.checkpointing > used.checkpointing;
        let reason = if smaller { "the plan before worked only just" } else { "there is room for it" };
        self.emit(Event::Replanned { step, reason: reason.to_string(), lever: describe(&used, &next) }, observer)
    }

    /// Continues from the newest checkpoint, with which the log is brought in line, or from the start if nothing was saved
    /// yet, which `started` records. `is_over` says whether a run that is there has ended. Returns whether the run had ended, and
    /// is longer now.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if there is none that can be used, though there was one.
    pub(crate) fn resume(
        &mut self,
        is_over: IsOver<'_>,
        started: Event,
        observer: &mut dyn Observer,
    ) -> Result<bool, TrainError> {
        let ranks = Rc::clone(&self.setup.ranks);
        if ranks.is_alone() {
            return self.resume_alone(is_over, started, observer);
        }
        // The first brings the files of the run in order before the others look at them.
        let mut found = None;
        if ranks.is_first() {
            let longer = self.resume_alone(is_over, started, observer)?;
            found = Some(Found { step: self.journal.saved, complete: self.journal.complete, longer });
        }
        let found = ranks.agree("run's newest checkpoint", found)?.into_iter().flatten().next();
        let found = found.unwrap_or_default();
        if let (false, Some(step)) = (ranks.is_first(), found.step) {
            let (asked, device) = (self.state.policy().clone(), self.setup.device.clone().autodiff());
            self.state = self.checkpoints.load_step(step, self.state.clone(), &device)?;
            self.go_on_as(asked);
            (self.journal.saved, self.journal.complete) = (found.step, found.complete);
        }
        self.same_after = self.progress().last_comparison();
        Ok(found.longer)
    }

    /// What was found out about memory is kept, unless something else is asked for now.
    fn go_on_as(&mut self, asked: Policy) {
        if asked.limits() != self.state.policy().limits() {
            self.state.replan(asked);
        }
    }

    /// [`Run::resume`] of a process that writes the run.
    fn resume_alone(
        &mut self,
        is_over: IsOver<'_>,
        started: Event,
        observer: &mut dyn Observer,
    ) -> Result<bool, TrainError> {
        let asked = self.state.policy().clone();
        let device = self.setup.device.clone().autodiff();
        let Some(Loaded { state, log: mark }) = self.checkpoints.load(self.state.clone(), &device)? else {
            return self.begin_again(started, observer).map(|()| false);
        };
        self.state = state;
        self.go_on_as(asked);
        let step = self.progress().step;
        self.journal.saved = Some(step);
        let warning = match mark {
            Some(mark) => {
                let found = self.journal.log.bring_in_line(step, &mark)?;
                if found.complete {
                    self.journal.complete = is_over(self.progress());
                    return Ok(!self.journal.complete);
                }
                (found.lost > 0).then(|| format!("{} lines are missing in the log before this step", found.lost))
            }
            None => {
                self.journal.log.rewind_to(step)?;
                let text = "the checkpoint is an older release's: it has no checksum over its counters, which were checked \
                            by their ranges only";
                Some(text.to_string())
            }
        };
        self.emit(Event::Resumed { step }, observer)?;
        warning.map_or(Ok(()), |text| self.emit(Event::Warned { step, text }, observer))?;
        Ok(false)
    }

    /// Begins a run again that was stopped before its first checkpoint. Its state is that of the start.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if the log names a checkpoint: what was saved is not to be lost because a folder is missing.
    fn begin_again(&mut self, started: Event, observer: &mut dyn Observer) -> Result<(), TrainError> {
        if let Some(step) = self.journal.log.last_saved()? {
            let reason = format!(
                "there is no checkpoint, though one of step {step} was saved; put it back, or start a new run, with --config {} \
                 to keep the settings",
                self.setup.run.config().display()
            );
            return Err(TrainError::Checkpoint { path: self.setup.run.checkpoints(), reason });
        }
        if !self.journal.log.rewind_to_start()? {
            self.emit(started, observer)?;
        }
        self.emit(Event::Resumed { step: 0 }, observer)
    }

    /// Whether the last step is in a checkpoint.
    pub(crate) fn is_saved(&self) -> bool {
        self.journal.saved == Some(self.progress().step)
    }

    /// Whether it was asked to stop.
    pub(crate) fn is_to_stop(&self) -> bool {
        self.stop_agreed || self.setup.ranks.is_alone() && self.setup.stop.load(Ordering::Relaxed)
    }

    /// Tells the other ranks what became of a batch here, and learns what became of it there.
    ///
    /// # Errors
    /// [`TrainError::Data`] if too many samples cannot be read, [`TrainError::Elsewhere`] if another rank cannot go on.
    pub(crate) fn agree_on(&mut self, mut batch: HostBatch) -> Result<HostBatch, TrainError> {
        let Setup { ranks, train, stop, .. } = &self.setup;
        if ranks.is_alone() {
            return Ok(batch);
        }
        let rows = batch.rows();
        let samples = if batch.bad.is_empty() { Vec::new() } else { batch.samples[rows.clone()].to_vec() };
        let stop = stop.load(Ordering::Relaxed);
        let pixels = batch.pixels.get(rows.clone()).map(<[_]>::to_vec).unwrap_or_default();
        let mine = OfBatch { first_row: rows.start, samples, bad: batch.bad.clone(), pixels, stop };
        for OfBatch { first_row, samples, bad, pixels, stop } in ranks.agree("batches", mine)? {
            self.stop_agreed |= stop;
            batch.pixels.iter_mut().skip(first_row).zip(pixels).for_each(|(place, counts)| *place = counts);
            train.correct(&mut batch, first_row..first_row + samples.len(), &samples);
            train.count_bad(&bad)?;
            for sample in bad {
                if !batch.bad.contains(&sample) {
                    batch.bad.push(sample);
                }
            }
        }
        batch.bad.sort_by_key(|bad| bad.sample);
        Ok(batch)
    }

    /// Compares the state with that of the other ranks, once after a step. All ranks call it.
    ///
    /// # Errors
    /// [`TrainError::Apart`] if one is another, which all ranks learn.
    pub(crate) fn compare_ranks(&mut self) -> Result<(), TrainError> {
        let (ranks, step) = (&self.setup.ranks, self.progress().step);
        if ranks.is_alone() || self.same_after == step {
            return Ok(());
        }
        let snapshot = self.state().snapshot();
        let mine = snapshot.map_err(|text| TrainError::of_device(Some(step), 0, &text))?.sha256();
        let all = ranks.agree("hashes of weights", mine)?;
        match all.iter().position(|other| *other != all[0]) {
            Some(rank) => Err(TrainError::Apart { step, since: self.same_after, rank: ranks.group().name_of(rank) }),
            None => {
                self.same_after = step;
                Ok(())
            }
        }
    }

    /// Saves a checkpoint, reports what it took, and returns the name of its folder.
    pub(crate) fn save(&mut self, observer: &mut dyn Observer) -> Result<String, TrainError> {
        if !self.setup.ranks.is_first() {
            self.journal.saved = Some(self.progress().step);
            return Ok(String::new());
        }
        let Self { setup, state, journal, checkpoints, .. } = &*self;
        let mut recoveries = Vec::new();
        let told = |recovery: &Recovery| recoveries.push(recovery.clone());
        let saved = save_whatever_happens(checkpoints, state, &journal.log.mark(), &setup.faults, &setup.device, told);
        self.tell("checkpoint", recoveries, observer)?;
        let path = saved?;
        self.journal.saved = Some(self.progress().step);
        Ok(path.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }

    /// Copies the state to the host, where the device's memory can be lost and if it is time to.
    pub(crate) fn copy_to_host(&mut self) {
        if self.setup.ranks.is_first() {
            self.host_copy.refresh(&self.state, &self.journal.log);
        }
    }

    /// Takes the only copy of the state that there is.
    pub(crate) fn take_over(&mut self, snapshot: ModelSnapshot) {
        self.host_copy.take_over(snapshot, &self.state, &self.journal.log);
    }

    /// Whether steps are left to save, and can still be read where they were computed, after what ended the run.
    pub(crate) fn can_be_saved_after(&self, error: &TrainError) -> bool {
        self.setup.ranks.is_first()
            && !self.is_saved()
            && self.progress().step > 0
            && self.host_copy.is_device_readable(error)
    }

    /// Saves the copy on the host of what could not be saved otherwise. Returns what ended the run, which says what is saved.
    pub(crate) fn rescued(&mut self, error: TrainError, observer: &mut dyn Observer) -> TrainError {
        let step = self.progress().step;
        let (error, rescued) = self.host_copy.rescue(error, step, &mut self.journal.saved, &self.checkpoints);
        if let Some(checkpoint) = rescued {
            let _ = self.emit(checkpoint, observer);
        }
        error
    }
}
