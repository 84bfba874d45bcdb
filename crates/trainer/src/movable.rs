//! A model state that moves to other allocations where memory is short.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::Device;
use kindling_memory::{has_pages, with_own_allocations};

use crate::checkpointable::Checkpointable;
use crate::error::TrainError;
use crate::model_snapshot::ModelSnapshot;
use crate::recovery::make_room;

/// A model state while a step is tried on it. When memory is short on a device with pages it moves out of those that it shares
/// with what a step makes, once a step, so that they can be given back.
pub(crate) struct Movable<'a, L> {
    model_state: RefCell<&'a mut L>,
    device: &'a Device,
    step: u64,
    moved: Cell<bool>,
    /// The state, if the device does not take it back.
    stranded: RefCell<Option<ModelSnapshot>>,
}

impl<'a, L: Checkpointable + Clone> Movable<'a, L> {
    /// A model state before step `step`; `alone` says that its tensors share no pages.
    pub(crate) fn new(model_state: &'a mut L, device: &'a Device, step: u64, alone: bool) -> Self {
        let moved = Cell::new(alone || !has_pages(device));
        Self { model_state: RefCell::new(model_state), device, step, moved, stranded: RefCell::default() }
    }

    /// Tries a step.
    ///
    /// # Errors
    /// Its own, and [`TrainError::DeviceLost`] once the state is on the host alone.
    pub(crate) fn attempt<T>(&self, compute: impl FnOnce(&L) -> Result<T, TrainError>) -> Result<T, TrainError> {
        if self.stranded.borrow().is_some() { Err(self.lost()) } else { compute(&self.model_state.borrow()) }
    }

    /// Gives back what a try has left behind.
    pub(crate) fn make_room(&self) {
        if self.stranded.borrow().is_some() {
            return;
        }
        let mut model_state = self.model_state.borrow_mut();
        model_state.make_room(self.device);
        if !self.moved.replace(true) {
            *self.stranded.borrow_mut() = separate(&mut **model_state, self.device).err();
            make_room(self.device);
        }
    }

    /// The state before the step, if it is on the host alone, and the error that this is.
    pub(crate) fn into_stranded(self) -> Option<(ModelSnapshot, TrainError)> {
        let lost = self.lost();
        Some((self.stranded.into_inner()?, lost))
    }

    fn lost(&self) -> TrainError {
        let reason = "its memory does not take the state of the run back".to_string();
        TrainError::DeviceLost { step: Some(self.step), reason, saved: None }
    }
}

/// Moves a model state through the host into allocations of its own. It leaves the device before it comes back, since a
/// device that is full does not hold it twice. Where that fails it goes to pages again, as it came from.
///
/// # Errors
/// The state, if the device takes it in neither way.
fn separate<L: Checkpointable + Clone>(model_state: &mut L, device: &Device) -> Result<(), ModelSnapshot> {
    // What cannot be read stays where it is.
    let Some(snapshot) = caught(|| model_state.snapshot()) else { return Ok(()) };
    let empty = model_state.emptied();
    *model_state = empty.clone();
    make_room(device);
    let back = || {
        let moved = empty.clone().restored(snapshot.clone(), device)?;
        if moved.snapshot()? == snapshot { Ok(moved) } else { Err("it changed on the way".to_string()) }
    };
    let moved = with_own_allocations(device, || caught(back)).or_else(|| {
        make_room(device);
        caught(back)
    });
    match moved {
        Some(moved) => {
            *model_state = moved;
            Ok(())
        }
        None => Err(snapshot),
    }
}

/// The result of work on a device; `None` if the device refuses it or the runtime panics.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()?.ok()
}
