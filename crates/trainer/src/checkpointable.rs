//! What a checkpoint saves of what learns in a run: to files, to host memory, and back.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::tensor::Device;

use crate::model_snapshot::ModelSnapshot;
use crate::model_state::ModelState;
use crate::parts::Parts;
use crate::recovery::abandon_graph;

/// What learns in a run, as far as a checkpoint saves it.
pub trait Checkpointable: Sized {
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
    fn snapshot(&self) -> Result<ModelSnapshot, String> {
        let mut snapshot = ModelSnapshot { numbers: self.numbers(), ..ModelSnapshot::default() };
        for (name, part) in self.parts()?.0 {
            let (tensors, counters) = crate::parts::to_host(part.as_ref())?;
            snapshot.files.insert(name, tensors);
            snapshot.counters.extend(counters);
        }
        Ok(snapshot)
    }

    /// This without its numbers, of which none is on a device until it is restored.
    fn emptied(&self) -> Self;

    /// This with the state of a snapshot.
    ///
    /// # Errors
    /// A sentence about what does not fit.
    fn restored(self, snapshot: ModelSnapshot, device: &Device) -> Result<Self, String>;

    /// Gives back what a step that failed has left on the device, the graphs of its forward passes included.
    fn make_room(&self, device: &Device);
}

impl<M: Module> Checkpointable for ModelState<M> {
    fn parts(&self) -> Result<Parts<'_>, String> {
        Ok(ModelState::parts(self, ""))
    }

    fn emptied(&self) -> Self {
        ModelState::emptied(self)
    }

    fn restored(self, mut snapshot: ModelSnapshot, device: &Device) -> Result<Self, String> {
        self.restore(&mut snapshot, "", device)
    }

    fn make_room(&self, device: &Device) {
        abandon_graph(&self.model, device);
    }
}
