//! What learns in a run, and how it is kept: in files, in host memory, and back.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::Device;

use crate::learner::{Learner, Parts};
use crate::recovery::abandon_graph;
use crate::stored::Stored;

/// What learns in a run, as far as a checkpoint keeps it.
pub(crate) trait Kept: Sized {
    /// The files of a checkpoint, which are read from the device while they are written.
    ///
    /// # Errors
    /// What the device says.
    fn parts(&self) -> Result<Parts<'_>, String>;

    /// Other numbers by name.
    fn numbers(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// Everything in host memory at once.
    ///
    /// # Errors
    /// What the device says.
    fn store(&self) -> Result<Stored, String> {
        let mut stored = Stored { numbers: self.numbers(), ..Stored::default() };
        for (name, part) in self.parts()? {
            let (tensors, counters) = crate::parts::to_host(part.as_ref())?;
            stored.files.insert(name, tensors);
            stored.counters.extend(counters);
        }
        Ok(stored)
    }

    /// This without its numbers, of which none is on a device until it is restored.
    fn emptied(&self) -> Self;

    /// This with a stored state.
    ///
    /// # Errors
    /// A sentence about what does not fit.
    fn restored(self, stored: Stored, device: &Device) -> Result<Self, String>;

    /// Gives back what a step that failed has left on the device, the graphs of its forward passes included.
    fn make_room(&self, device: &Device);
}

impl<M: Module> Kept for Learner<M> {
    fn parts(&self) -> Result<Parts<'_>, String> {
        Ok(Learner::parts(self, ""))
    }

    fn emptied(&self) -> Self {
        Learner::emptied(self)
    }

    fn restored(self, mut stored: Stored, device: &Device) -> Result<Self, String> {
        self.restore(stored.take("")?, device)
    }

    fn make_room(&self, device: &Device) {
        abandon_graph(&self.model, device);
    }
}
