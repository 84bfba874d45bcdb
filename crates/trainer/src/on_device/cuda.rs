//! Nodes in memory of an NVIDIA GPU.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use burn::tensor::{Device, Tensor};
use kindling_ops::DeviceVector;
use kindling_processes::Nccl;
use kindling_processes::nccl::Failed;
use kindling_processes::reduce::{DeviceMemory, sum_on_device};
use kindling_processes::tree::Node;

use crate::error::TrainError;
use crate::ranks::Ranks;

/// The vectors of this rank's nodes, and room to add in.
pub(crate) struct OnDevice {
    places: Vec<Node<()>>,
    nodes: Vec<DeviceVector>,
    addresses: Vec<u64>,
    room: Option<DeviceVector>,
}

impl OnDevice {
    /// Nodes without room yet. What has failed in computing them is told here.
    pub(crate) fn of(nodes: Vec<Node<Tensor<1>>>) -> Result<Self, String> {
        let places = nodes.iter().map(|node| Node { level: node.level, index: node.index, sum: () }).collect();
        let vectors: Vec<DeviceVector> =
            nodes.into_iter().map(|node| DeviceVector::of(node.sum)).collect::<Result<_, _>>()?;
        vectors.iter().try_for_each(DeviceVector::settle)?;
        let addresses = vectors.iter().map(DeviceVector::address).collect();
        Ok(Self { places, nodes: vectors, addresses, room: None })
    }

    /// Takes room for so many numbers, if the GPU has it. Where it has not, nothing is lost.
    pub(crate) fn make_room(&mut self, device: &Device, floats: usize) -> bool {
        let room = catch_unwind(AssertUnwindSafe(|| {
            DeviceVector::empty(device, floats).and_then(|room| room.settle().map(|()| room))
        }));
        self.room = room.ok().and_then(Result::ok);
        self.room.is_some()
    }

    /// The sum over all ranks, of so many groups: see [`sum_on_device`].
    pub(crate) fn sum(
        &self,
        (ranks, nccl): (&Ranks, &Nccl),
        groups: usize,
        total: &mut [f32],
    ) -> Result<Result<(), Failed>, TrainError> {
        let Some(room) = &self.room else { return Ok(Err(Failed::new("there is no room to add in"))) };
        let memory = Memory { addresses: &self.addresses, room };
        Ok(sum_on_device((ranks.group(), nccl), "gradients", groups, (&self.places, &memory), total)?)
    }

    /// Reads all nodes to the host.
    pub(crate) fn into_host(self) -> Result<Vec<Node<Vec<f32>>>, String> {
        let read = |(place, vector): (Node<()>, DeviceVector)| -> Result<Node<Vec<f32>>, String> {
            let mut numbers = vec![0.0; vector.floats()];
            vector.read(&mut numbers)?;
            Ok(place.map(|()| numbers))
        };
        self.places.into_iter().zip(self.nodes).map(read).collect()
    }
}

/// Nodes and room while they are borrowed.
struct Memory<'a> {
    addresses: &'a [u64],
    room: &'a DeviceVector,
}

// SAFETY: the addresses are those of vectors that `OnDevice` keeps, and of its room, which `make_room` was asked to make as large as
// `room_on_device` says. Nobody else has them, so nothing else writes there. `OnDevice::of` returned when the nodes were computed, and
// `make_room` when its room was there. `DeviceVector` computes in the order of one stream, which `settle` and `read` wait for.
unsafe impl DeviceMemory for Memory<'_> {
    fn nodes(&self) -> &[u64] {
        self.addresses
    }

    fn room(&self) -> u64 {
        self.room.address()
    }

    fn add(&self, left: usize, right: usize, length: usize) -> Result<(), String> {
        self.room.add(left, right, length);
        Ok(())
    }

    fn settle(&self) -> Result<(), String> {
        self.room.settle()
    }

    fn read(&self, floats: &mut [f32]) -> Result<(), String> {
        self.room.read(floats)
    }
}
