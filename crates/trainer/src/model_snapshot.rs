//! What learns in a run, in host memory: what a checkpoint holds of it.

use std::collections::BTreeMap;

use kindling_layers::tensors::Tensors;

/// What a checkpoint holds besides position and policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSnapshot {
    /// Tensors by the name of their file.
    pub files: BTreeMap<String, Tensors>,
    /// The optimizers' counters by name.
    pub counters: BTreeMap<String, i64>,
    /// Other numbers by name.
    pub numbers: BTreeMap<String, f64>,
}
