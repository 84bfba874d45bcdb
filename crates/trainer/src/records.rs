//! What every run writes down, however many networks it trains.

use std::io;
use std::path::Path;

use burn::module::Module;
use burn::tensor::Device;
use kindling_memory::Plan;
use kindling_runs::{Event, EventLog, stream_atomically};

use crate::checkpoint::{Checkpoints, Loaded, save_whatever_happens};
use crate::checkpointable::Checkpointable;
use crate::error::TrainError;
use crate::fault::Faults;
use crate::fit::Observer;
use crate::parts::{self, OfModule, Unwritten};
use crate::recovery::{Recovery, describe};
use crate::state::TrainState;

/// Writes an event to the run's log and shows it to the observer.
pub(crate) fn emit(log: &mut EventLog, event: Event, observer: &mut dyn Observer) -> Result<(), TrainError> {
    log.append(&event)?;
    observer.event(&event);
    Ok(())
}

/// Writes down that the next step is computed otherwise than the one that was done with the plan `used`, if it is.
pub(crate) fn replanned(
    log: &mut EventLog,
    step: u64,
    (used, next): (Option<Plan>, Plan),
    observer: &mut dyn Observer,
) -> Result<(), TrainError> {
    let Some(used) = used.filter(|used| *used != next) else { return Ok(()) };
    let smaller = next.micro_batch < used.micro_batch || next.checkpointing > used.checkpointing;
    let reason = if smaller { "the plan before worked only just" } else { "there is room for it" };
    emit(log, Event::Replanned { step, reason: reason.to_string(), lever: describe(&used, &next) }, observer)
}

/// Counts recoveries and writes them down.
pub(crate) fn tell<L>(
    state: &mut TrainState<L>,
    log: &mut EventLog,
    during: &str,
    recoveries: Vec<Recovery>,
    observer: &mut dyn Observer,
) -> Result<(), TrainError> {
    for Recovery { reason, lever, seconds } in recoveries {
        state.recovered(seconds);
        let (step, during) = (state.progress().step, during.to_string());
        emit(log, Event::Recovered { step, during, reason, lever, seconds }, observer)?;
    }
    Ok(())
}

/// Reads the newest checkpoint into a state, brings the log in line with it, and says whether the run had ended with it.
pub(crate) fn resume<L: Checkpointable + Clone>(
    checkpoints: &Checkpoints,
    state: &mut TrainState<L>,
    log: &mut EventLog,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<bool, TrainError> {
    let asked = state.policy().clone();
    let Loaded { state: loaded, log: mark } = checkpoints.load(state.clone(), device)?;
    *state = loaded;
    // What was found out is kept, unless something else is asked for now.
    if asked.limits() != state.policy().limits() {
        state.replan(asked);
    }
    let step = state.progress().step;
    let warning = match mark {
        Some(mark) => {
            let found = log.bring_in_line(step, &mark)?;
            if found.complete {
                return Ok(true);
            }
            (found.lost > 0).then(|| format!("{} lines are missing in the log before this step", found.lost))
        }
        None => {
            log.rewind_to(step)?;
            let text = "the checkpoint is an older release's: it has no checksum over its counters, which were checked by \
                        their ranges only";
            Some(text.to_string())
        }
    };
    emit(log, Event::Resumed { step }, observer)?;
    warning.map_or(Ok(()), |text| emit(log, Event::Warned { step, text }, observer))?;
    Ok(false)
}

/// Saves a checkpoint, tells of what it took, and returns the name of its folder.
pub(crate) fn save<L: Checkpointable>(
    checkpoints: &Checkpoints,
    state: &mut TrainState<L>,
    log: &mut EventLog,
    (faults, device): (&Faults, &Device),
    observer: &mut dyn Observer,
) -> Result<String, TrainError> {
    let mut recoveries = Vec::new();
    let saved = save_whatever_happens(checkpoints, state, &log.mark(), faults, device, |recovery| {
        recoveries.push(recovery.clone())
    });
    tell(state, log, "checkpoint", recoveries, observer)?;
    Ok(saved?.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Writes a network after step `step` as a weights file with a note.
pub(crate) fn write_weights<M: Module>(network: &M, note: &str, step: u64, path: &Path) -> Result<(), TrainError> {
    let mut refused = None;
    let written = stream_atomically(path, |file| {
        parts::write(&OfModule::of(network), Some(note), file).map(|_| ()).map_err(|unwritten| match unwritten {
            Unwritten::File(error) => error,
            Unwritten::Device(text) => io::Error::other(refused.insert(text).clone()),
        })
    });
    match refused {
        Some(text) => Err(TrainError::of_device(Some(step), 0, &text)),
        None => Ok(written?),
    }
}
