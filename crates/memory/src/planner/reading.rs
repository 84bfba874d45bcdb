//! Maps that the CPU's operations never make: a convolution behind a normalisation reads what the normalisation was given
//! (`crates/layers/src/map.rs`).
//!
//! A map between two blocks is always made, because blocks are what can be computed again.

use super::graph::{Kind, Node};

/// Takes the maps out that are only read by convolutions of the same block, or by the mean and the gate in front of one.
pub(super) fn without_unread_maps(nodes: &mut [Node]) {
    for index in 0..nodes.len() {
        if matches!(nodes[index].kind, Kind::NormAct(_))
            && let Some(readers) = readers(nodes, index)
        {
            skip(nodes, index, &readers);
        }
    }
}

/// Who reads what a normalisation makes, if none of them needs it whole: convolutions and means.
fn readers(nodes: &[Node], index: usize) -> Option<Vec<usize>> {
    let direct = readers_of(nodes, nodes[index].output);
    let mut found = Vec::new();
    for reader in direct {
        match nodes[reader].kind {
            Kind::Multiply if nodes[reader].inputs[0] == nodes[index].output => {
                let behind = readers_of(nodes, nodes[reader].output);
                found.extend(behind.iter().all(|at| convolves(&nodes[*at])).then_some(behind)?);
            }
            Kind::Mean => found.push(reader),
            _ if convolves(&nodes[reader]) => found.push(reader),
            _ => return None,
        }
    }
    let near = found.iter().all(|reader| nodes[*reader].place == nodes[index].place);
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
    if let Some(first) = readers.iter().find(|reader| convolves(&nodes[**reader])) {
        nodes[*first].params.extend(params);
    }
}

/// Leaves an operation without anything to do. Returns its parameters.
fn leave_out(node: &mut Node) -> Vec<u64> {
    node.kind = Kind::Unread;
    node.inputs.clear();
    std::mem::take(&mut node.params)
}
