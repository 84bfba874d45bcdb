//! What every run writes down, however many networks it trains.

use std::io;
use std::path::Path;

use burn::module::Module;
use burn::tensor::Device;
use kindling_runs::{Event, EventLog, stream_atomically};

use crate::checkpoint::{Checkpoints, Kept, save_whatever_happens};
use crate::error::TrainError;
use crate::fault::Faults;
use crate::fit::Observer;
use crate::parts::{self, OfModule, Unwritten};
use crate::recovery::Recovery;
use crate::state::TrainState;

/// Writes an event to the run's log and shows it to the observer.
pub(crate) fn emit(log: &mut EventLog, event: Event, observer: &mut dyn Observer) -> Result<(), TrainError> {
    log.append(&event)?;
    observer.event(&event);
    Ok(())
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
        let (step, during) = (state.progress.step, during.to_string());
        emit(log, Event::Recovered { step, during, reason, lever, seconds }, observer)?;
    }
    Ok(())
}

/// Saves a checkpoint, tells of what it took, and returns the name of its folder.
pub(crate) fn save<L: Kept>(
    checkpoints: &Checkpoints,
    state: &mut TrainState<L>,
    log: &mut EventLog,
    (faults, device): (&Faults, &Device),
    observer: &mut dyn Observer,
) -> Result<String, TrainError> {
    let mut recoveries = Vec::new();
    let saved = save_whatever_happens(checkpoints, state, faults, device, |recovery| recoveries.push(recovery));
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
