//! Flags of every command that trains: where its run lies, what has become of the data, and what is told while it goes on. And one of
//! every command that runs in several processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use kindling_given::Span;
use kindling_runs::RunDir;
use kindling_tracking::Target;

use crate::progress::{Console, Verbosity};
use crate::ranges;

/// Where a run lies, and whether it may be there already.
#[derive(clap::Args)]
pub(crate) struct RunFolder {
    /// Where the run goes; must not hold a run yet, but for --resume-or-start [default: runs/<time>-<model>-<data>]
    #[arg(long, value_name = "DIR", help_heading = "Run", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,
    /// Continue the run in --out if there is one, start it otherwise, and do nothing if it is finished: one command line for the
    /// first time and for every time after. Settings that differ from the run's are refused, as with --resume
    #[arg(long, help_heading = "Run", requires = "out")]
    pub(crate) resume_or_start: bool,
}

/// What has become of the data of a run that goes on.
#[derive(clap::Args)]
pub(crate) struct ChangedData {
    /// With --resume, where the run's data is now, if it has moved; the run remembers it
    #[arg(long, value_name = "PATH", help_heading = "Run", requires = "resume")]
    pub(crate) data_at: Option<PathBuf>,
    /// Continue although files of the data set were added, removed or changed since; says which, and what becomes of them
    #[arg(long, help_heading = "Run")]
    pub(crate) accept_changed_data: bool,
}

/// Who is told of a run while it goes on, and how much.
#[derive(clap::Args)]
pub(crate) struct Telling {
    /// Tell another tracker of the run while it goes on: tensorboard, wandb (an offline run for `wandb sync`), mlflow=URL (a server)
    /// or csv; may be given several times. Files go to tracking/ of the run; `kindling runs export` does the same afterwards
    #[arg(long = "track", value_name = "WHERE", help_heading = "Run")]
    pub(crate) track: Vec<Target>,
    /// Show the run on the whole terminal: curves, numbers, messages. Ctrl-C works as without it
    #[arg(long, help_heading = "Run", conflicts_with_all = ["quiet", "verbose"])]
    pub(crate) dashboard: bool,
    /// Print nothing but the result
    #[arg(long, short, help_heading = "Run", conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// How several processes watch each other.
#[derive(clap::Args)]
pub(crate) struct Watched {
    /// Of several processes: how long a step may take, or where nothing is trained a batch or an image, before a process that waits
    /// for the others ends itself and names the silent one, 1s to 24h: 10m, 90s. Waiting for one that is seen at work is no silence
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = ranges::patience)]
    rank_timeout: Span,
}

impl Watched {
    /// How long nothing may come to an end.
    pub(crate) fn timeout(&self) -> Duration {
        self.rank_timeout.duration()
    }
}

impl RunFolder {
    /// The run that goes on: that of `--resume`, or the one that is there already, where it may be.
    pub(crate) fn to_continue<'a>(&'a self, resume: Option<&'a Path>) -> Option<&'a Path> {
        let is_there = |out: &&Path| self.resume_or_start && RunDir::open(out).is_ok();
        resume.or_else(|| self.out.as_deref().filter(is_there))
    }
}

impl ChangedData {
    /// Fails where a run is to begin, of which no data has changed.
    pub(crate) fn refuse_for_new(&self, folder: &RunFolder) -> Result<()> {
        if self.accept_changed_data && !folder.resume_or_start {
            bail!("--accept-changed-data is about a run that goes on; it belongs to --resume");
        }
        Ok(())
    }
}

impl Telling {
    /// How much is said, where `verbose` asks for all of it.
    pub(crate) fn verbosity(&self, verbose: bool) -> Verbosity {
        match (self.quiet, verbose) {
            (true, _) => Verbosity::Quiet,
            (false, true) => Verbosity::Steps,
            (false, false) => Verbosity::Normal,
        }
    }

    /// Begins to tell other trackers of a run, and to show it, as far as that is asked for.
    pub(crate) fn begin(&self, console: &mut Console, run: &RunDir) -> Result<()> {
        console.track(run, &self.track);
        if self.dashboard {
            console.open_dashboard(run)?;
        }
        Ok(())
    }
}
