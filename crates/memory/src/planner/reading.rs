//! Maps that own operations never keep: a convolution behind a normalisation reads what the normalisation was given
//! (`crates/layers/src/map.rs`).
//!
//! A map between two blocks is always made, because blocks are what can be computed again.

use kindling_layers::Activation;

use super::graph::{Kind, Node};

/// Takes the maps out that are only read inside the same block: by convolutions, by the mean and the gate in front of one, by
/// the sum with a shortcut, by a pooling.
pub(super) fn without_unread_maps(nodes: &mut [Node]) {
    for index in 0..nodes.len() {
        if matches!(nodes[index].kind, Kind::NormAct(_))
            && let Some(readers) = readers(nodes, index)
        {
            skip(nodes, index, &readers);
        }
    }
}

/// Who reads what a normalisation makes, if none of them needs it whole.
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

fn readers_of(nodes: &[Node], value: usize) -> Vec<usize> {
    (0..nodes.len()).filter(|index| nodes[*index].inputs.contains(&value)).collect()
}

fn convolves(node: &Node) -> bool {
    matches!(node.kind, Kind::Dense { .. } | Kind::Depthwise | Kind::Pointwise)
}

/// Gives the normalisation's input, gate and parameters to those who read its output.
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
    // Of several readers the last: the first whose gradient comes.
    if let Some(last) = readers.last() {
        nodes[*last].params.extend(params);
        activate(nodes, *last);
    }
}

/// Lets a sum apply the activation that is all that reads it.
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

/// Leaves an operation without anything to do. Returns its parameters.
fn leave_out(node: &mut Node) -> Vec<u64> {
    node.kind = Kind::Deferred;
    node.inputs.clear();
    std::mem::take(&mut node.params)
}
