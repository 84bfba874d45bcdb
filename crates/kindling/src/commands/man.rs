//! `kindling man`: manual pages.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::Done;
use crate::output::note;

/// Write a manual page for each command
///
/// `kindling man ~/.local/share/man/man1` makes `man kindling-train` work.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder the pages are written to; it is made if it is not there
    folder: PathBuf,
}

impl Args {
    /// Writes the pages of `command`, the whole command line.
    pub(crate) fn run(self, command: clap::Command) -> Result<Done> {
        let folder = &self.folder;
        write_pages(command, folder)
            .with_context(|| format!("manual pages cannot be written to {}", folder.display()))?;
        note!("manual pages are in {}", folder.display());
        Ok(Done::Complete)
    }
}

fn write_pages(command: clap::Command, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command, folder)?;
    Ok(())
}
