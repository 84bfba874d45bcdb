//! The command line.

use clap::{Parser, Subcommand};

use crate::Done;
use crate::commands::{
    bench, completions, data, devices, eval, export, forward, gan, man, models, plan, predict, profile, train,
};

/// Light image models that train on the GPU you have.
///
/// `kindling train` alone trains the default model on the embedded data set.
#[derive(Parser)]
#[command(name = "kindling", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Train(Box<train::Args>),
    Eval(eval::Args),
    Predict(predict::Args),
    Plan(Box<plan::Args>),
    Profile(profile::Args),
    Bench(Box<bench::Args>),
    Models(models::Args),
    Forward(forward::Args),
    Export(export::Args),
    Gan(gan::Args),
    Data(data::Args),
    Devices(devices::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<Done> {
        match self.command {
            Command::Train(args) => args.run(),
            Command::Eval(args) => args.run(),
            Command::Predict(args) => args.run(),
            Command::Plan(args) => args.run(),
            Command::Profile(args) => args.run(),
            Command::Bench(args) => args.run(),
            Command::Models(args) => args.run(),
            Command::Forward(args) => args.run(),
            Command::Export(args) => args.run(),
            Command::Gan(args) => args.run(),
            Command::Data(args) => args.run(),
            Command::Devices(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
        }
    }
}
