//! The nodes of a rank on their way to the others.

use burn::tensor::{Device, Tensor};
use kindling_processes::tree::Node;

use crate::on_device::OnDevice;
use crate::shared::on_host;
use crate::sums::Sums;

/// What a rank has computed of the tree, a vector for each node.
pub(crate) enum Nodes {
    /// In host memory, from where MPI takes them.
    OnHost(Vec<Node<Vec<f32>>>),
    /// Where they were computed, with room for a sum beside them.
    OnDevice(Box<OnDevice>),
}

impl Nodes {
    /// Makes a vector of each node with `join`. They stay on `device` if `room` says how many numbers a sum takes beside them and the
    /// device has room for these. All that computed them is done then, and what has failed in it is told.
    pub(crate) fn of(
        nodes: Vec<Node<Sums>>,
        join: impl Fn(Sums) -> Result<Tensor<1>, String>,
        room: Option<usize>,
        device: &Device,
    ) -> Result<Self, String> {
        // One after the other: the parts of a node are given back when it is joined.
        let joined =
            nodes.into_iter().map(|Node { level, index, sum }| join(sum).map(|sum| Node { level, index, sum }));
        let Some(room) = room else {
            let read = |node: Result<Node<Tensor<1>>, String>| -> Result<Node<Vec<f32>>, String> {
                let Node { level, index, sum } = node?;
                Ok(Node { level, index, sum: on_host(sum)? })
            };
            return Ok(Self::OnHost(joined.map(read).collect::<Result<_, String>>()?));
        };
        let mut nodes = OnDevice::of(joined.collect::<Result<_, String>>()?)?;
        if nodes.make_room(device, room) {
            return Ok(Self::OnDevice(Box::new(nodes)));
        }
        nodes.into_host().map(Self::OnHost)
    }

    pub(crate) fn are_on_device(&self) -> bool {
        matches!(self, Self::OnDevice(_))
    }

    /// The same in host memory.
    pub(crate) fn into_host(self) -> Result<Self, String> {
        match self {
            Self::OnDevice(nodes) => nodes.into_host().map(Self::OnHost),
            on_host => Ok(on_host),
        }
    }
}
