//! `kindling runs export`: a run as other trackers read it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kindling_runs::RunDir;
use kindling_tracking::{Follower, Target};
use serde_json::json;

use crate::Done;
use crate::output::out;

/// How long a server may take for all of a run, in which each call has its own limit.
const AT_MOST: Duration = Duration::from_secs(3600);

/// Tell another tracker of a run, finished or not
///
/// What it has been told of already is not repeated. The last line is one JSON object.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The run's folder
    run: PathBuf,
    /// tensorboard, wandb (an offline run for `wandb sync`), mlflow=URL (a server), or csv
    #[arg(long, value_name = "WHERE")]
    to: Target,
    /// Where files go; not with mlflow, which has none [default: tracking/ of the run]
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

impl Args {
    pub(super) fn run(&self) -> Result<Done> {
        let run = RunDir::open(&self.run)?;
        if matches!(self.to, Target::Mlflow(_)) && self.out.is_some() {
            bail!("--out is for files, and a run goes to MLflow's server; leave it out");
        }
        let place = self.out.clone().unwrap_or_else(|| self.to.place(&run));
        let mut follower = Follower::at(&run, &self.to, &place)?;
        let told = follower.finish(AT_MOST).with_context(|| format!("telling {} of the run", self.to.title()))?;
        let place = if matches!(self.to, Target::Mlflow(_)) { None } else { Some(place) };
        out!(
            "{}",
            json!({ "run": run.path(), "to": self.to.to_string(), "place": place, "delivered": told.delivered })
        );
        Ok(Done::Complete)
    }
}
