//! The `kindling` command: parse, call, print. The work is done by the libraries under it.

mod cli;
mod commands;
mod config;
mod dataset;
mod device;
mod finish;
mod interrupt;
mod progress;

use std::process::ExitCode;

use clap::Parser;
use kindling_memory::CountingAllocator;
use mimalloc::MiMalloc;

/// mimalloc keeps the pages of large tensors, which glibc returns to the kernel: half of a CPU step otherwise goes into
/// page faults. Around it, live bytes are counted for the peak every run reports.
#[global_allocator]
static ALLOCATOR: CountingAllocator<MiMalloc> = CountingAllocator(MiMalloc);

/// The exit code of a run that was interrupted: 128 + SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// How a command ended well.
pub(crate) enum Done {
    /// Everything asked for is done.
    Complete,
    /// Stopped on request; it can be continued.
    Interrupted,
    /// Done, but some inputs were bad and have been named.
    SomeFailed,
}

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    match cli.run() {
        Ok(Done::Complete) => ExitCode::SUCCESS,
        Ok(Done::Interrupted) => ExitCode::from(INTERRUPTED),
        Ok(Done::SomeFailed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
