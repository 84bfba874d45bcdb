//! `kindling devices`: what this machine can train on.

use anyhow::Result;
use kindling_memory::MemorySize;
use kindling_processes::{mpi, nccl};
use kindling_runs::Table;
use serde_json::json;

use crate::Done;
use crate::budget::default_budget;
use crate::commands::Format;
use crate::device::{DeviceChoice, cuda};
use crate::output::{self, out};

/// Show the devices of this machine and the libraries of MPI and NCCL, and what is missing for those that cannot be used
#[derive(clap::Args)]
pub(crate) struct Args {
    /// json: one object a line
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// What `--format json` was called
    #[arg(long, hide = true, conflicts_with = "format")]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let mut table = Table::new(&["<device", "<", "<about"]);
        self.tell(&mut table, "cpu", Ok(describe_cpu()));
        for index in 0..cuda::count().max(1) {
            let choice = DeviceChoice::Cuda(index);
            let answer = match cuda::missing(index) {
                Some(missing) => Err(missing),
                None => choice.open().map(|chosen| describe_cuda(&chosen.facts.device)).map_err(|e| format!("{e:#}")),
            };
            self.tell(&mut table, &choice.to_string(), answer);
        }
        let wgpu = DeviceChoice::Wgpu.open();
        self.tell(&mut table, "wgpu", wgpu.map(|chosen| chosen.facts.device).map_err(|error| format!("{error:#}")));
        let mpi = mpi::find(None);
        self.tell(&mut table, "mpi", mpi.map(|found| found.to_string()).map_err(|error| error.to_string()));
        let nccl = nccl::find(None);
        self.tell(&mut table, "nccl", nccl.map(|found| found.to_string()).map_err(|error| error.to_string()));
        if !self.is_json() {
            output::text_of_product(&table.to_string());
        }
        Ok(Done::Complete)
    }

    fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }

    fn tell(&self, table: &mut Table, name: &str, answer: Result<String, String>) {
        match (self.is_json(), answer) {
            (true, Ok(about)) => out!("{}", json!({ "device": name, "usable": true, "about": about })),
            (true, Err(why)) => out!("{}", json!({ "device": name, "usable": false, "why": why })),
            (false, Ok(about)) => table.row([name, "usable", &about]),
            (false, Err(why)) => table.row([name, "unusable", &why]),
        }
    }
}

fn describe_cpu() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = default_budget().map(|(share, limit)| {
        let (share, limit, rule) = (MemorySize(share), MemorySize(limit.bytes), limit.rule);
        format!(", {limit} of memory by {rule}, of which a run uses {share} unless --memory-budget says less")
    });
    let of_bf16 = kindling_ops::bf16_instructions().map(|name| format!("; multiplies bf16 by {name}"));
    format!("{threads} threads{}{}", memory.unwrap_or_default(), of_bf16.unwrap_or_default())
}

fn describe_cuda(name: &str) -> String {
    let found = |path: Option<std::path::PathBuf>| path.map_or("?".to_string(), |path| path.display().to_string());
    let driver = cuda::driver().unwrap_or_else(|| "?".to_string());
    format!("{name}, driver {driver}, NVRTC {}, headers {}", found(cuda::nvrtc()), found(cuda::headers()))
}
