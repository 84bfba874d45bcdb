//! `kindling bench`: how fast parts of Kindling are here.

mod data;

use anyhow::Result;
use clap::Subcommand;

use crate::Done;

/// Measure how fast parts of Kindling are on this machine
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Data(Box<data::Args>),
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        match self.command {
            Command::Data(args) => args.run(),
        }
    }
}
