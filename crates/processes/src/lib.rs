//! Several processes that train one model, with the same bits as one.
//!
//! - [`tree`]: the fixed binary tree in which parts of a batch are added, whoever computed them. It knows nothing of processes.
//! - [`reduce`]: that sum over vectors of several ranks.
//! - [`Group`]: the ranks of a run, and small messages between them.
//! - [`watchdog`]: ends a process whose peers are silent.
//! - [`transport`]: what moves bytes: one process, threads (for tests), MPI.
//! - [`mpi`]: a library of MPI, opened at run time. [`launcher`]: whether one is needed.
//! - [`nccl`]: a library of NCCL, opened at run time, for sums in memory of GPUs.
//!
//! The crate knows nothing of ours, and no Burn: it moves bytes and adds floats in host memory. What is added in memory of a GPU is
//! added by whoever has a kernel for it.

mod error;
mod group;
pub mod launcher;
mod leave;
pub mod mpi;
mod named;
pub mod nccl;
mod progress;
pub mod reduce;
pub mod transport;
pub mod tree;
pub mod watchdog;

pub use error::Error;
pub use group::Group;
pub use nccl::Nccl;
pub use transport::Transport;
pub use watchdog::Watchdog;
