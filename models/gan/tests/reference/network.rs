//! A module filled under its reference's names.

use std::collections::BTreeMap;

use burn::module::Module;
use kindling_layers::names::Names;
use kindling_layers::parameters;
use kindling_layers::tensors::Tensors;
use serde_json::Value;

use super::fill::fill;

/// Fills a module with what the reference's tensors hold. They must be exactly the module's.
pub(super) fn filled<M: Module>(module: M, names: &Names, keys: &Value) -> M {
    let mut shapes = BTreeMap::new();
    for key in keys.as_array().expect("keys") {
        let shape = key[1].as_array().expect("a shape").iter().map(|n| n.as_u64().expect("a length") as usize);
        shapes.insert(key[0].as_str().expect("a key's name"), shape.collect::<Vec<usize>>());
    }
    let mut tensors = Tensors::new();
    for slot in parameters::slots(&module) {
        let reference = reference_name(&slot.name, names);
        let shape = shapes.remove(reference.as_str()).unwrap_or_else(|| panic!("no tensor {reference}"));
        tensors.insert(slot.name, fill(&reference, &shape));
    }
    assert!(shapes.is_empty(), "the reference has more: {:?}", shapes.keys());
    parameters::write(module, tensors).expect("the reference's tensors fit")
}

/// What the reference calls a tensor.
pub(super) fn reference_name(own: &str, names: &Names) -> String {
    let (layer, leaf) = own.rsplit_once('.').expect("a dotted name");
    let mut found = names.iter().filter(|name| name.own == layer);
    let name = found.next().unwrap_or_else(|| panic!("{layer} has no name"));
    assert!(found.next().is_none(), "{layer} has two names");
    format!("{}.{leaf}", name.reference)
}
