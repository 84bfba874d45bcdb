//! The `kindling` command: parse, call, print. The work is done by the libraries under it.

#[cfg(unix)]
mod abort;
mod allocator;
mod cli;
mod commands;
mod config;
mod dataset;
mod device;
mod finish;
mod interrupt;
mod loaders;
mod memory;
mod noise;
mod pretrained;
mod progress;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Parser;
use kindling_memory::panic_message;

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
    allocator::keep_pages();
    #[cfg(unix)]
    abort::explain_failed_allocations();
    let cli = cli::Cli::parse();
    memory::limit_to_system();
    quiet_panics();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        kindling_runs::check_kill().map_err(anyhow::Error::msg)?;
        cli.run()
    }))
    .unwrap_or_else(|panic| {
        let reason = panic_message(panic.as_ref());
        Err(anyhow!("{reason} (this is a fault in kindling: run again with RUST_BACKTRACE=1 and report it)"))
    });
    match outcome {
        Ok(Done::Complete) => ExitCode::SUCCESS,
        Ok(Done::Interrupted) => ExitCode::from(INTERRUPTED),
        Ok(Done::SomeFailed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Device runtimes and decoders report some failures by panicking, on threads of their own too. They are caught where
/// they matter and become one sentence; the panic's own text is only for those who ask for it.
fn quiet_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value == "0") {
        std::panic::set_hook(Box::new(|_| {}));
    }
}
