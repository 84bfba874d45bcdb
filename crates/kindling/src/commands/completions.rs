//! `kindling completions`: what a shell needs to complete command lines.

use std::io::Write;

use anyhow::Result;
use clap_complete::{Shell, generate};

use crate::Done;
use crate::output::product;

/// Print a script with which a shell completes commands, flags and their values
///
/// For bash: `kindling completions bash > ~/.local/share/bash-completion/completions/kindling`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell that the script is for
    shell: Shell,
}

impl Args {
    /// Prints the script for `command`, the whole command line.
    pub(crate) fn run(self, mut command: clap::Command) -> Result<Done> {
        let mut script = Vec::new();
        generate(self.shell, &mut command, "kindling", &mut script);
        product().write_all(&script)?;
        Ok(Done::Complete)
    }
}
