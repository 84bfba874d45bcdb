//! Deferred normalisation: normalised maps that are never stored, because the next operation normalises while it reads
//! (`crates/layers/src/map.rs`).
//!
//! A map between two blocks is always stored, because blocks are the units that can be recomputed.

use kindling_layers::Activation;

use super::node::{Kind, Node};

/// Removes the maps that are only read inside their block by operations that can normalise: convolutions, the average pool and the gate
/// before a convolution, the sum with a shortcut, max pooling.
pub(super) fn defer_maps(nodes: &mut [Node]) {
    for index in 0..nodes.len() {
        if matches!(nodes[index].kind, Kind::NormAct(_))
            && let Some(readers) = readers(nodes, index)
        {
            skip(nodes, index, &readers);
        }
    }
}

/// The operations that read the output of a normalisation, if none of them needs it as a whole.
fn readers(nodes: &[Node], index: usize) -> Option<Vec<usize>> {
    let (made, place) = (nodes[index].output, nodes[index].place);
    let direct = readers_of(nodes, made);
    if let [only] = direct[..]
        && nodes[only].place == place
        && matches!(nodes[only].kind, Kind::Add(_) | Kind::MaxPool)
    {
        let fits = nodes[only].kind == Kind::MaxPool || nodes[index].kind == Kind::NormAct(Activation::Identity);
        return (fits && nodes[only].inputs[0] == made).then_some(direct);
    }
    let mut found = Vec::new();
    for reader in direct {
        match nodes[reader].kind {
            Kind::Multiply if nodes[reader].inputs[0] == made => {
                let behind = readers_of(nodes, nodes[reader].output);
                found.extend(behind.iter().all(|at| convolves(&nodes[*at])).then_some(behind)?);
            }
            Kind::Mean => found.push(reader),
            _ if convolves(&nodes[reader]) => found.push(reader),
            _ => return None,
        }
    }
    let near = found.iter().all(|reader| nodes[*reader].place == place);
    (near && found.iter().any(|reader| convolves(&nodes[*reader]))).then_some(found)
}

pub(super) fn readers_of(nodes: &[Node], value: usize) -> Vec<usize> {
    (0..nodes.len()).filter(|index| nodes[*index].inputs.contains(&value)).collect()
}

fn convolves(node: &Node) -> bool {
    matches!(node.kind, Kind::Dense { .. } | Kind::Depthwise { .. } | Kind::Pointwise)
}

/// Moves the normalisation's input, gate and parameters to the readers of its output.
fn skip(nodes: &mut [Node], index: usize, readers: &[usize]) {
    let (raw, made) = (nodes[index].inputs[0], nodes[index].output);
    let mut gates: Vec<(usize, usize)> = Vec::new();
    for gate in readers_of(nodes, made) {
        if nodes[gate].kind == Kind::Multiply {
            gates.push((nodes[gate].output, nodes[gate].inputs[1]));
            leave_out(&mut nodes[gate]);
        }
    }
    for &reader in readers {
        let node = &mut nodes[reader];
        if let Some((_, gate)) = gates.iter().find(|(gated, _)| *gated == node.inputs[0]) {
            node.inputs.push(*gate);
        }
        node.inputs[0] = raw;
        node.reads = true;
    }
    let params = leave_out(&mut nodes[index]);
    // Of several readers, the last one: its gradient is computed first.
    if let Some(last) = readers.last() {
        nodes[*last].params.extend(params);
        activate(nodes, *last);
    }
}

/// Makes a sum apply the activation that is its only reader.
fn activate(nodes: &mut [Node], sum: usize) {
    let readers = readers_of(nodes, nodes[sum].output);
    if let (Kind::Add(_), [only]) = (nodes[sum].kind, &readers[..])
        && let Kind::Activation(activation @ Activation::Relu) = nodes[*only].kind
        && nodes[*only].place == nodes[sum].place
    {
        nodes[sum].kind = Kind::Add(activation);
        nodes[sum].output = nodes[*only].output;
        leave_out(&mut nodes[*only]);
    }
}

/// Turns an operation into one that does nothing, and returns its parameters.
pub(super) fn leave_out(node: &mut Node) -> Vec<u64> {
    node.kind = Kind::Deferred;
    node.inputs.clear();
    std::mem::take(&mut node.params)
}
