//! Convolutions that enlarge a map while they read it (`crates/layers/src/enlarged.rs`): the enlarged map is never stored, nor what is made of
//! it and of the channels beside it.

use kindling_layers::trace::FeatureMap;
use kindling_ops::enlarges;

use super::node::{Kind, Node};
use super::reading::{leave_out, readers_of};
use super::{Situation, Target};

/// Makes the convolutions that do so read the maps before, and removes the others. On the CPU alone, and for formats that
/// [`kindling_ops::enlarges`] names.
pub(super) fn read_before(nodes: &mut [Node], maps: &[FeatureMap], situation: &Situation) {
    if situation.target == Target::Cuda {
        return;
    }
    for index in (0..nodes.len()).filter(|index| nodes[*index].enlarges).collect::<Vec<_>>() {
        let read = nodes[index].inputs[0];
        let (enlarged, concatenation) = match maker_of(nodes, read, Kind::Concat) {
            Some(concatenation) => (nodes[concatenation].inputs[0], Some(concatenation)),
            None => (read, None),
        };
        let Some(resize) = maker_of(nodes, enlarged, Kind::Resize) else { continue };
        let (x, size) = (nodes[resize].inputs[0], |value: usize| [maps[value].height, maps[value].width]);
        let alone = [read, enlarged].into_iter().all(|value| readers_of(nodes, value).len() == 1);
        if !alone || !enlarges(situation.precision.dtype().into(), size(x), size(enlarged)) {
            continue;
        }
        let beside = concatenation.into_iter().flat_map(|concatenation| nodes[concatenation].inputs[1..].to_vec());
        nodes[index].inputs = std::iter::once(x).chain(beside).collect();
        nodes[index].kind = Kind::Enlarging;
        [Some(resize), concatenation].into_iter().flatten().for_each(|left| {
            leave_out(&mut nodes[left]);
        });
    }
}

/// The operation of this kind that makes a value.
fn maker_of(nodes: &[Node], value: usize, kind: Kind) -> Option<usize> {
    nodes.iter().position(|node| node.output == value && node.kind == kind)
}
