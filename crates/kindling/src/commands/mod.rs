//! One file per subcommand, and what several of them take.

use clap::ValueEnum;

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod devices;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod forward;
pub(crate) mod gan;
pub(crate) mod man;
pub(crate) mod models;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod train;

/// How a result is printed: for people or for programs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}
