//! Exports the tensors of a network under the keys of a library.

use burn::module::Module;
use burn::tensor::TensorData;
use kindling_classification::Network;
use kindling_layers::names::{KeyStyle, LayerKind, Names};
use kindling_layers::parameters;
use kindling_layers::tensors::Tensors;

use super::keys::{COUNTER, KeyTable};
use crate::error::ZooError;
use crate::registry::Model;

/// The tensors of a model's network with the keys and shapes of a library, so that the library loads them with `strict=True`. The
/// batch counters that PyTorch expects are included, with the value zero.
///
/// # Errors
/// [`ZooError::NoNames`] if the library does not have this network, [`ZooError::Device`] if a tensor cannot be read.
pub fn export(network: &Network, model: &Model, style: KeyStyle) -> Result<Tensors, ZooError> {
    let names = model.layer_names(network, style).ok_or_else(|| {
        let known = KeyStyle::ALL.into_iter().filter(|style| model.layer_names(network, *style).is_some());
        ZooError::NoNames { library: style, model: model.key(), known: known.map(|style| style.to_string()).collect() }
    })?;
    export_named(network, &names)
}

/// The tensors of any network, under keys that follow from the names of its layers in a library, as [`export`] has them.
///
/// # Errors
/// [`ZooError::Device`] if a tensor cannot be read.
pub fn export_named<M: Module>(network: &M, names: &Names) -> Result<Tensors, ZooError> {
    let mut own = parameters::read(network).map_err(ZooError::Device)?;
    let table = KeyTable::named(names, &parameters::slots(network));
    let mut tensors = Tensors::new();
    for (key, place) in table.places {
        if let Some(data) = own.remove(&place.own) {
            let (bytes, _, dtype) = data.into_parts();
            tensors.insert(key, TensorData::from_bytes(bytes, place.reference_shape, dtype));
        }
    }
    for name in names.iter().filter(|name| name.kind == LayerKind::Norm) {
        tensors.insert(format!("{}.{COUNTER}", name.reference), TensorData::new(vec![0i64], Vec::<usize>::new()));
    }
    Ok(tensors)
}
