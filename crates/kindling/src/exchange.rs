//! How several processes exchange their gradients.

use std::path::Path;

use anyhow::{Result, bail};
use burn::tensor::Device;
use kindling_processes::Nccl;
use kindling_processes::nccl::Failed;
use kindling_trainer::{Ranks, TrainError};
use serde::{Deserialize, Serialize};

use crate::device::cuda;
use crate::output::note;

/// What moves gradients from process to process. The result is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Exchange {
    /// NCCL where each process has an NVIDIA GPU of its own and the library is there, otherwise MPI
    Auto,
    /// MPI, through host memory
    Mpi,
    /// NCCL, from GPU to GPU; refused where it cannot be
    Nccl,
}

/// Has NCCL connect the GPUs of all processes, if it is to and it can.
pub(crate) fn connect(
    ranks: &Ranks,
    exchange: Exchange,
    library: Option<&Path>,
    device: &Device,
    quiet: bool,
) -> Result<()> {
    let gpu = cuda::index_of(device);
    // Each process may have a command line of its own.
    let all = ranks.agree("ways of exchange", (exchange, gpu.is_some()))?;
    let is_asked = all.iter().any(|(exchange, _)| *exchange == Exchange::Nccl);
    if all.iter().any(|(exchange, _)| *exchange == Exchange::Mpi) || !is_asked && !all.iter().all(|(_, gpu)| *gpu) {
        return Ok(());
    }
    let gpu = gpu.ok_or_else(|| Failed::new("it does not compute on an NVIDIA GPU"));
    let says = ranks.is_first();
    match Nccl::connect(ranks.group(), library, gpu).map_err(TrainError::from)? {
        Ok(nccl) => {
            if says && !quiet {
                note!("gradients go from GPU to GPU by {}", nccl.library());
            }
            ranks.exchange_by(nccl, move |sentence| {
                if says {
                    note!("warning: {sentence}");
                }
            });
        }
        Err(why) if is_asked => bail!("--exchange nccl cannot be: {why}; --exchange mpi always can"),
        Err(why) if says && !quiet => note!("gradients go through host memory: {why}"),
        Err(_) => (),
    }
    Ok(())
}
