//! Recognises the library whose keys a file has, and maps them to our names.

use std::collections::BTreeMap;

use kindling_classification::Network;
use kindling_layers::names::{KeyStyle, LayerKind, LayerName, Names};
use kindling_layers::parameters::{Mismatch, Slot};
use kindling_layers::tensors::Tensors;

use crate::registry::Model;

/// The batch counter of PyTorch's normalisation layers, which no output depends on.
pub(super) const COUNTER: &str = "num_batches_tracked";

/// Prefixes under which training scripts save a model together with other things.
const WRAPPERS: [&str; 6] = ["state_dict", "model_state_dict", "model", "module", "state_dict_ema", "model_ema"];

/// The keys of a network's tensors in a library.
pub(super) struct KeyTable {
    /// The library; `None` for our own keys.
    pub(super) style: Option<KeyStyle>,
    /// The tensor of the network for each key.
    pub(super) places: BTreeMap<String, Place>,
}

/// A tensor of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Name of the tensor here.
    pub(super) own: String,
    /// Shape of the tensor here.
    pub(super) shape: Vec<usize>,
    /// Shape of the tensor in the library.
    pub(super) reference_shape: Vec<usize>,
}

impl KeyTable {
    /// The table of our own keys.
    fn own(slots: &[Slot]) -> Self {
        let places = slots.iter().map(|slot| {
            let Slot { name, shape } = slot.clone();
            (name.clone(), Place { own: name, shape: shape.clone(), reference_shape: shape })
        });
        Self { style: None, places: places.collect() }
    }

    /// The table of a library's keys.
    pub(super) fn of_library(style: KeyStyle, names: &Names, slots: &[Slot]) -> Self {
        Self { style: Some(style), ..Self::named(names, slots) }
    }

    /// The table of the keys that follow from names of layers.
    pub(super) fn named(names: &Names, slots: &[Slot]) -> Self {
        let layers: BTreeMap<&str, &LayerName> = names.iter().map(|name| (name.own.as_str(), name)).collect();
        let places = slots.iter().filter_map(|slot| {
            let (layer, leaf) = slot.name.rsplit_once('.')?;
            let LayerName { reference, kind, .. } = layers.get(layer)?;
            let mut reference_shape = slot.shape.clone();
            if *kind == LayerKind::Pointwise && leaf == "weight" {
                reference_shape.extend([1, 1]);
            }
            let place = Place { own: slot.name.clone(), shape: slot.shape.clone(), reference_shape };
            Some((format!("{reference}.{leaf}"), place))
        });
        Self { style: None, places: places.collect() }
    }

    /// How many of the tensors have a key of this table.
    fn known(&self, tensors: &Tensors) -> usize {
        tensors.keys().filter(|key| self.places.contains_key(*key)).count()
    }
}

/// The table that contains most of the keys: our own, or one of the libraries', each with the names of the network's layers there. If
/// several contain equally many, it is the first; our own comes before the others.
///
/// # Errors
/// [`Mismatch::Foreign`] if no table contains any of the keys.
pub(super) fn recognise(
    libraries: &[(KeyStyle, Names)],
    slots: &[Slot],
    tensors: &Tensors,
) -> Result<KeyTable, Mismatch> {
    let libraries = libraries.iter().map(|(style, names)| KeyTable::of_library(*style, names, slots));
    let tables: Vec<KeyTable> = std::iter::once(KeyTable::own(slots)).chain(libraries).collect();
    let examples = tables.iter().filter_map(|table| table.places.keys().next().cloned()).collect();
    let best = tables.into_iter().rev().max_by_key(|table| table.known(tensors));
    best.filter(|table| table.known(tensors) > 0)
        .ok_or_else(|| Mismatch::Foreign { found: tensors.keys().next().cloned().unwrap_or_default(), known: examples })
}

/// The libraries that have the network of a model, with its names there.
pub(super) fn libraries_of(network: &Network, model: &Model) -> Vec<(KeyStyle, Names)> {
    let of = |style| Some((style, model.layer_names(network, style)?));
    KeyStyle::ALL.into_iter().filter_map(of).collect()
}

/// Extracts the model from the other things that a training script saved. Returns the tensors of the model, without prefixes, and the
/// keys of the other tensors.
pub(super) fn unwrap(mut tensors: Tensors) -> (Tensors, Vec<String>) {
    let mut left_out = Vec::new();
    // Prefixes can be nested, as in `model.module.`.
    while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| {
        let prefix = format!("{wrapper}.");
        tensors.keys().any(|key| key.starts_with(&prefix))
    }) {
        let prefix = format!("{wrapper}.");
        let mut inside = Tensors::new();
        for (key, data) in tensors {
            match key.strip_prefix(&prefix) {
                Some(bare) => {
                    inside.insert(bare.to_string(), data);
                }
                None => left_out.push(key),
            }
        }
        tensors = inside;
    }
    (tensors, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    #[test]
    fn a_checkpoint_is_unwrapped_and_what_is_not_the_model_is_named() {
        let keys = ["model.module.fc.weight", "model.module.fc.bias", "optimizer.state.0.exp_avg"];
        let tensors = keys.iter().map(|key| (key.to_string(), TensorData::new(vec![0.0f32], [1]))).collect();
        let (tensors, left_out) = unwrap(tensors);
        assert_eq!(tensors.into_keys().collect::<Vec<_>>(), ["fc.bias", "fc.weight"]);
        assert_eq!(left_out, ["optimizer.state.0.exp_avg"]);
    }
}
