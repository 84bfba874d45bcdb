//! The `kindling` command: parse, call, print. The work is done by the libraries under it.
//!
//! | module | holds |
//! |---|---|
//! | `cli`, `commands` | the command line; a file a subcommand |
//! | `settings`, `commands::train::settings` | what a run can be told, each setting once; what a resume may change |
//! | `config`, `gan_config` | the resolved configurations of runs, of one network and of two |
//! | `commands::train::resolve` | flags, a file and the data set become the resolved configuration |
//! | `commands::gan` | the same for two networks, and what samples, compares and exports them |
//! | `commands::bench` | what measures the rows of `kindling bench` |
//! | `dataset`, `loaders`, `pretrained` | data sets by name, loaders of a run, weights in the cache |
//! | `recorded` | the samples a run was trained on, compared with those that are there now |
//! | `device`, `budget`, `fitting` | which device is used and what it lacks; what a user says about memory; what fits into it |
//! | `ranks` | several processes of one run, and what they must have in common |
//! | `children` | runs that a command trains one after another, each in a process of its own |
//! | `finish`, `progress`, `output` | scores and report at the end, the bar, and the only place that writes to the terminal |
//! | `interrupt`, `abort`, `allocator`, `threads` | signals, the allocator, the threads that compute |
//! | `targets`, `ranges` | exports kept away from runs' own files, ranges of flags |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
// Comments on flags are help texts: `cuda[:N]`, `runs/<time>`.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

#[cfg(unix)]
mod abort;
mod allocator;
mod budget;
mod cases;
mod children;
mod choice;
mod cli;
mod commands;
mod config;
mod dataset;
mod device;
mod exchange;
mod filled;
mod finish;
mod fitting;
mod gan_config;
mod interrupt;
mod kind;
mod loaders;
mod mask_runs;
mod model;
mod noise;
mod output;
mod pretrained;
mod progress;
mod ranges;
mod ranks;
mod recorded;
mod scores;
mod segmenter;
mod settings;
mod targets;
mod threads;
mod volumes;

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::anyhow;
use kindling_memory::{Failure, classify, panic_message};
use kindling_trainer::TrainError;
use output::{Delivery, note};

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
    let cli = match cli::Cli::parsed() {
        Ok(cli) => cli,
        // Of several processes the first says it for all.
        Err(help) if ranks::is_another() => {
            ranks::let_the_first_say();
            return ExitCode::from(u8::try_from(help.exit_code()).unwrap_or(1));
        }
        Err(help) => return say(&help),
    };
    budget::limit_to_system();
    quiet_panics();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        kindling_runs::check_kill().map_err(anyhow::Error::msg)?;
        cli.run()
    }))
    .unwrap_or_else(|panic| {
        let reason = panic_message(panic.as_ref());
        Err(anyhow!("{reason} (this is a fault in kindling: run again with RUST_BACKTRACE=1 and report it)"))
    });
    match (outcome, output::finish()) {
        // Whoever read the output had enough of it.
        (Err(error), Delivery::Unwanted) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        (Err(error), _) if error.is::<ranks::Said>() => ExitCode::FAILURE,
        (Err(error), _) if !error.is::<std::io::Error>() => failed(&error),
        (_, Delivery::Failed(reason)) => not_written(&reason),
        (Err(error), _) => failed(&error),
        (Ok(Done::Complete), _) => ExitCode::SUCCESS,
        (Ok(Done::Interrupted), _) => ExitCode::from(interrupt::exit_code()),
        (Ok(Done::SomeFailed), _) => ExitCode::FAILURE,
    }
}

/// Says why the command fails. A device that fails after a kernel did not compile seldom names that as the cause.
fn failed(error: &anyhow::Error) -> ExitCode {
    let of_device = matches!(error.downcast_ref(), Some(TrainError::Device { .. } | TrainError::DeviceLost { .. }));
    let text = format!("{error:#}");
    match device::failed_kernels::last().filter(|reason| of_device && !reason.said_in(&text)) {
        Some(reason) => note!("error: {text}; a GPU kernel did not compile before: {reason}"),
        None => note!("error: {text}"),
    }
    ExitCode::FAILURE
}

/// Says what was found out about the command line: help, the version, or what is wrong with it.
fn say(found: &clap::Error) -> ExitCode {
    let code = u8::try_from(found.exit_code()).unwrap_or(1);
    match found.print().and_then(|()| output::flush()) {
        Err(error) if !found.use_stderr() && error.kind() != ErrorKind::BrokenPipe => not_written(&error.to_string()),
        _ => ExitCode::from(code),
    }
}

fn not_written(reason: &str) -> ExitCode {
    note!("error: standard output cannot be written: {reason}");
    ExitCode::FAILURE
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Device runtimes and decoders report some failures by panicking, on threads of their own too. They are caught where
/// they matter and become one sentence; the panic's own text is only for those who ask for it. A lack of memory is told
/// without its trace even then: the symbols would be read into the memory that is short, and stay there.
fn quiet_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_none_or(|value| value == "0") {
        std::panic::set_hook(Box::new(|_| {}));
        return;
    }
    let with_trace = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let reason = panic_message(panic.payload());
        match classify(&reason) {
            Failure::OutOfMemory | Failure::TensorTooLarge => {
                note!("caught: {reason}");
            }
            Failure::DeviceLost | Failure::Other => {
                // A trace on a dashboard's screen would be gone with it.
                kindling_dashboard::give_back();
                with_trace(panic);
            }
        }
    }));
}
