//! `kindling devices`: what this machine can train on.

use anyhow::Result;
use kindling_memory::MemorySize;
use serde_json::json;

use crate::Done;
use crate::device::{DeviceChoice, cuda};
use crate::memory::default_budget;
use crate::output::out;

/// Show the devices of this machine, and what is missing for those that cannot be used
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        self.print("cpu", Ok(describe_cpu()));
        for index in 0..cuda::count().max(1) {
            let choice = DeviceChoice::Cuda(index);
            let answer = match cuda::missing(index) {
                Some(missing) => Err(missing),
                None => choice.open().map(|chosen| describe_cuda(&chosen.facts.device)).map_err(|e| format!("{e:#}")),
            };
            self.print(&choice.to_string(), answer);
        }
        let wgpu = DeviceChoice::Wgpu.open();
        self.print("wgpu", wgpu.map(|chosen| chosen.facts.device).map_err(|error| format!("{error:#}")));
        Ok(Done::Complete)
    }

    fn print(&self, name: &str, answer: Result<String, String>) {
        match (self.json, answer) {
            (true, Ok(about)) => out!("{}", json!({ "device": name, "usable": true, "about": about })),
            (true, Err(why)) => out!("{}", json!({ "device": name, "usable": false, "why": why })),
            (false, Ok(about)) => out!("{name:8} usable    {about}"),
            (false, Err(why)) => out!("{name:8} unusable  {why}"),
        }
    }
}

fn describe_cpu() -> String {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = default_budget().map(|(share, limit)| {
        let (share, limit, rule) = (MemorySize(share), MemorySize(limit.bytes), limit.rule);
        format!(", {limit} of memory by {rule}, of which a run uses {share} unless --memory-budget says less")
    });
    format!("{threads} threads{}", memory.unwrap_or_default())
}

fn describe_cuda(name: &str) -> String {
    let found = |path: Option<std::path::PathBuf>| path.map_or("?".to_string(), |path| path.display().to_string());
    let driver = cuda::driver().unwrap_or_else(|| "?".to_string());
    format!("{name}, driver {driver}, NVRTC {}, headers {}", found(cuda::nvrtc()), found(cuda::headers()))
}
