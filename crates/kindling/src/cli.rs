//! The command line.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::Done;
use crate::commands::{
    bench, card, compare, completions, data, devices, eval, export, find_lr, forward, gan, man, models, plan, predict,
    profile, runs, sweep, train,
};
use crate::ranks;
use crate::threads;

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
    FindLr(Box<find_lr::Args>),
    Sweep(sweep::Args),
    Runs(runs::Args),
    Compare(compare::Args),
    Card(card::Args),
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

impl Command {
    /// The name of a command that works in one process, and would do the same several times if a launcher started more.
    fn runs_alone(&self) -> Option<&'static str> {
        match self {
            Self::FindLr(_) => Some("find-lr"),
            Self::Sweep(_) => Some("sweep"),
            Self::Card(_) => Some("card"),
            Self::Plan(_) => Some("plan"),
            Self::Profile(_) => Some("profile"),
            Self::Bench(_) => Some("bench"),
            Self::Forward(_) => Some("forward"),
            Self::Export(_) => Some("export"),
            Self::Gan(_) => Some("gan"),
            Self::Data(_) => Some("data"),
            Self::Train(_)
            | Self::Eval(_)
            | Self::Predict(_)
            | Self::Runs(_)
            | Self::Compare(_)
            | Self::Models(_)
            | Self::Devices(_)
            | Self::Completions(_)
            | Self::Man(_) => None,
        }
    }
}

/// What help is wrapped to where there is no terminal: whoever reads it behind `| head` most likely has one of this width.
const USUAL_WIDTH: usize = 80;

impl Cli {
    /// The command line of this process.
    ///
    /// # Errors
    /// Help, the version, or what is wrong with it.
    pub(crate) fn parsed() -> Result<Self, clap::Error> {
        let mut command = Self::command();
        if terminal_size::terminal_size().is_none() && std::env::var_os("COLUMNS").is_none() {
            command = command.term_width(USUAL_WIDTH);
        }
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    pub(crate) fn run(self) -> anyhow::Result<Done> {
        if let Some(name) = self.command.runs_alone() {
            ranks::check_alone(name)?;
            threads::compute_here(threads::usual());
        }
        match self.command {
            Command::Train(args) => args.run(),
            Command::Eval(args) => args.run(),
            Command::FindLr(args) => args.run(),
            Command::Sweep(args) => args.run(),
            Command::Runs(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Card(args) => args.run(),
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
            Command::Completions(args) => args.run(Self::command()),
            Command::Man(args) => args.run(Self::command()),
        }
    }
}
