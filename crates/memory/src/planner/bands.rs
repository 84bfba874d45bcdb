//! Inverted residual blocks that do not train: on the CPU they are computed band by band, and maps between their convolutions are not
//! stored (`crates/ops/src/inverted_residual`).

use kindling_ops::InvertedResidualShape;

use super::Target;
use super::node::Kind;
use super::pass::Pass;

impl Pass<'_> {
    /// Whether an operation is computed as a part of a later one, in this situation.
    pub(super) fn is_inside(&self, index: usize) -> bool {
        let node = &self.graph.nodes[index];
        let on_cpu = matches!(self.situation.target, Target::Cpu { .. });
        node.inside && node.frozen && on_cpu && InvertedResidualShape::has_bands(self.format())
    }

    /// The operation whose output this one reads without its being stored.
    pub(super) fn reads_inside(&self, index: usize) -> Option<usize> {
        let nodes = &self.graph.nodes;
        let read = nodes[index].inputs.first()?;
        (0..index).rev().find(|maker| nodes[*maker].output == *read).filter(|maker| self.is_inside(*maker))
    }

    /// What the threads hold while they compute an operation with those inside it.
    pub(super) fn bands(&self, index: usize) -> u64 {
        let nodes = &self.graph.nodes;
        let (depthwise, output) = match nodes[index].kind {
            Kind::Depthwise { .. } => (index, 0),
            _ => (self.reads_inside(index).unwrap_or(index), self.graph.maps[nodes[index].output].channels),
        };
        let Kind::Depthwise { reach, stride } = nodes[depthwise].kind else { return 0 };
        let first = self.reads_inside(depthwise).unwrap_or(depthwise);
        let of = |value: usize| {
            let map = self.graph.maps[value];
            [map.channels, map.height, map.width]
        };
        let shape = InvertedResidualShape {
            input: of(nodes[first].inputs[0]),
            middle: of(nodes[depthwise].output),
            output,
            reach,
            stride,
        };
        (self.threads() * shape.scratch(self.format()) + shape.packed(self.format())) as u64
    }
}
