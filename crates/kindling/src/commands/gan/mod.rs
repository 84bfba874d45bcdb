//! `kindling gan`: two networks against each other.

mod compare;
mod defaults;
mod evaluate;
mod export;
mod features;
mod finish;
mod neighbours;
mod pictures;
mod preview;
mod resolve;
mod sample;
mod settings;
mod train;

use anyhow::Result;

use crate::Done;

/// Train a generator against a discriminator, and use it
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Train(Box<train::Args>),
    Sample(sample::Args),
    Evaluate(evaluate::Args),
    Export(export::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        match self.command {
            Command::Train(args) => args.run(),
            Command::Sample(args) => args.run(),
            Command::Evaluate(args) => args.run(),
            Command::Export(args) => args.run(),
        }
    }
}
