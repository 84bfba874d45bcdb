//! What a rank does with a GPU: the sums of MPI once more, in memory that NCCL moves. On the stand-in, memory of a GPU is the process's.

use std::cell::UnsafeCell;

use kindling_processes::reduce::{DeviceMemory, room_on_device, sum, sum_on_device};
use kindling_processes::tree::Node;
use kindling_processes::{Error, Group, Nccl};

use super::{nodes_of, say};

/// Lengths with leaves. The last takes several rounds.
const SUMS: [(usize, usize); 5] = [(1, 5), (100_003, 7), (100_003, 12), (4099, 33), (1_500_007, 3)];

/// Vectors in host memory.
struct Memory {
    addresses: Vec<u64>,
    room: UnsafeCell<Vec<f32>>,
    /// Keeps the nodes.
    _nodes: Vec<Node<Vec<f32>>>,
}

impl Memory {
    fn of(group: &Group, nodes: Vec<Node<Vec<f32>>>, leaves: usize, length: usize) -> Self {
        let addresses = nodes.iter().map(|node| node.sum.as_ptr() as u64).collect();
        Self {
            addresses,
            room: UnsafeCell::new(vec![f32::NAN; room_on_device(group.size(), leaves, length)]),
            _nodes: nodes,
        }
    }

    #[allow(unsafe_code)]
    fn with_room<T>(&self, work: impl FnOnce(&mut [f32]) -> T) -> T {
        // SAFETY: one thread has it, NCCL writes to it in none of these calls, and none is made within another.
        work(unsafe { &mut *self.room.get() })
    }
}

#[allow(unsafe_code)]
// SAFETY: the vectors are kept, are as long as it is said, and nothing else writes to them.
unsafe impl DeviceMemory for Memory {
    fn nodes(&self) -> &[u64] {
        &self.addresses
    }

    fn room(&self) -> u64 {
        self.with_room(|room| room.as_mut_ptr() as u64)
    }

    fn add(&self, left: usize, right: usize, length: usize) -> Result<(), String> {
        self.with_room(|room| (0..length).for_each(|at| room[left + at] += room[right + at]));
        Ok(())
    }

    fn settle(&self) -> Result<(), String> {
        Ok(())
    }

    fn read(&self, floats: &mut [f32]) -> Result<(), String> {
        self.with_room(|room| floats.copy_from_slice(&room[..floats.len()]));
        Ok(())
    }
}

/// Says what became of each sum: the same bits as by MPI, or why NCCL failed.
pub(super) fn sums(group: &Group) -> Result<(), Error> {
    let gpu = match std::env::var_os("KINDLING_TEST_ONE_GPU") {
        Some(_) => 0,
        None => group.rank(),
    };
    let mut nccl = match Nccl::connect(group, None, Ok(gpu))? {
        Ok(nccl) => Some(nccl),
        Err(why) => {
            say(std::io::stdout(), &format!("unconnected {why}"));
            return Ok(());
        }
    };
    for (length, leaves) in SUMS {
        let nodes = nodes_of(group, leaves, length);
        let mut expected = vec![0.0; length];
        sum(group, "sum", leaves, &nodes, &mut expected)?;
        let before = group.bytes_sent();
        let places: Vec<Node<()>> =
            nodes.iter().map(|node| Node { level: node.level, index: node.index, sum: () }).collect();
        let memory = Memory::of(group, nodes, leaves, length);
        let Some(connected) = nccl.take() else { break };
        let mut total = vec![f32::NAN; length];
        match sum_on_device((group, &connected), "sum", leaves, (&places, &memory), &mut total)? {
            Ok(()) => {
                let bits = |numbers: &[f32]| numbers.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert!(bits(&total) == bits(&expected), "{leaves} leaves of {length}");
                assert!(group.size() == 1 || group.bytes_sent() > before, "what NCCL moves is counted");
                say(std::io::stdout(), "same");
                nccl = Some(connected);
            }
            Err(why) => {
                drop(connected);
                say(std::io::stdout(), &format!("failed {why}"));
            }
        }
        group.meet("end of the sum")?;
    }
    Ok(())
}
