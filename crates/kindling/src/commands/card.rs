//! `kindling card`: the model card of a run.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kindling_files as files;
use kindling_report::{Architecture, Card};
use kindling_runs::{Record, RunDir, write_atomically};
use kindling_zoo::{Model, find};

use crate::Done;
use crate::config::refuse_gan;
use crate::output::{note, text_of_product};
use crate::targets::refuse_files_of_runs;

/// Write a run's model card: Markdown, with the metadata that the Hugging Face Hub reads
///
/// What the files of the run know is filled in: model, data and how it was split, settings, scores with intervals, calibration,
/// environment, known limits. What only people know is marked: intended use, population, ethics. The sections are those of Mitchell
/// et al. 2019, "Model Cards for Model Reporting".
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the run
    run: PathBuf,
    /// Write to this file, such as README.md, instead of standard output; a card that is there already is not overwritten
    #[arg(long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let run = RunDir::open(&self.run)?;
        refuse_gan(&run)?;
        let record = Record::of(&run)?;
        let model = find(record.model()).ok();
        let reference = model.as_ref().map(Model::reference).unwrap_or_default();
        let architecture = model.as_ref().map(|model| Architecture {
            family: model.entry.family,
            paper: model.entry.paper,
            reference: &reference,
        });
        let title = name_of(&self.run);
        let card = Card { title: &title, record: &record, architecture: architecture.as_ref() }.markdown();
        match &self.out {
            None => text_of_product(&card),
            Some(path) => {
                refuse_files_of_runs(path)?;
                refuse_another_card(path, &card)?;
                write_atomically(path, card.as_bytes())?;
                note!("{}", path.display());
            }
        }
        Ok(Done::Complete)
    }
}

/// The name of a folder, which may be given as `.`.
fn name_of(folder: &Path) -> String {
    let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
    whole.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned()
}

/// Fails if there is a file with other contents: people may have filled in what only they know.
fn refuse_another_card(path: &Path, card: &str) -> Result<()> {
    if path.exists() && files::read(path, files::MAX_TEXT_BYTES).ok().as_deref() != Some(card.as_bytes()) {
        bail!(
            "{} is there already, and what people have written in it would be lost; write to another file, or move it away",
            path.display()
        );
    }
    Ok(())
}
