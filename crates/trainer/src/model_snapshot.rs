//! What learns in a run, in host memory: what a checkpoint holds of it.

use std::collections::BTreeMap;

use kindling_layers::tensors::Tensors;

use crate::model_state::{AVERAGE, OPTIMIZER, Saved, WEIGHTS};
use crate::optimizer::Counters;

/// What a checkpoint holds besides position and policy: documents of tensors by the name of their file, the optimizers'
/// counters and other numbers by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ModelSnapshot {
    pub(crate) files: BTreeMap<String, Tensors>,
    pub(crate) counters: Counters,
    pub(crate) numbers: BTreeMap<String, f64>,
}

impl ModelSnapshot {
    /// Takes out what [`crate::model_state::ModelState::parts`] put in.
    ///
    /// # Errors
    /// A sentence if there is none of it.
    pub(crate) fn take(&mut self, prefix: &str) -> Result<Saved, String> {
        let mut file = |name: &str| self.files.remove(&format!("{prefix}{name}"));
        let missing = |name: &str| format!("it has no {prefix}{name}");
        let weights = file(WEIGHTS).ok_or_else(|| missing(WEIGHTS))?;
        let moments = file(OPTIMIZER).ok_or_else(|| missing(OPTIMIZER))?;
        let average = file(AVERAGE);
        let counters = self.counters.iter();
        let counters = counters.filter_map(|(name, value)| Some((name.strip_prefix(prefix)?.to_string(), *value)));
        Ok(Saved { weights, moments, average, counters: counters.collect() })
    }
}
