//! Several processes that work on one run: the first decides what is done, and tells the others.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use kindling_runs::{How, RunDir};
use kindling_trainer::Ranks;
use serde::{Deserialize, Serialize};

use super::{Args, Beginning, Initial, Launch, Prepared, Resumed, Resumption, with_memory};
use crate::Done;
use crate::budget::limit_before_reading;
use crate::config::RunConfig;
use crate::device::DeviceChoice;
use crate::interrupt;
use crate::progress::check_dashboard;
use crate::recorded;

/// What the first of several processes tells the others of a run that is about to begin, or to go on.
#[derive(Serialize, Deserialize)]
struct Order {
    /// Its folder.
    run: PathBuf,
    /// Its configuration, as TOML.
    config: String,
    /// Whether it goes on.
    how: Option<How>,
}

impl Order {
    fn of(launch: &Launch) -> Result<Self> {
        let Launch { config, run, beginning, .. } = launch;
        let how = match beginning {
            Beginning::New(_) => None,
            Beginning::Resumed(resumed) => Some(resumed.resumption.how),
        };
        let path = run.path().canonicalize().with_context(|| format!("reading {}", run.path().display()))?;
        Ok(Self { run: path, config: toml::to_string(config)?, how })
    }
}

impl Args {
    /// The first process, or the only one: it decides what is done.
    pub(super) fn lead(&self, ranks: &Rc<Ranks>) -> Result<Done> {
        check_dashboard(self.telling.dashboard)?;
        if !ranks.is_alone() && self.restart_on_device_loss > 0 {
            bail!("--restart-on-device-loss is for one process; of several, the launcher starts all again");
        }
        let prepared = match self.folder.to_continue(self.resume.as_deref()) {
            Some(run) => self.resume(run, ranks)?,
            None => self.start(ranks)?,
        };
        let launch = match prepared {
            Prepared::Launch(launch) => *launch,
            Prepared::Nothing(done) => {
                ranks.agree::<Option<Order>>("run", None)?;
                return Ok(done);
            }
        };
        if !ranks.is_alone() {
            ranks.agree("run", Some(Order::of(&launch)?))?;
        }
        self.fit(launch, ranks)
    }

    /// Another process: it does what the first says, with a device, threads and memory of its own.
    pub(super) fn follow(mut self, ranks: &Rc<Ranks>) -> Result<Done> {
        interrupt::say_nothing();
        let Some(order) = ranks.agree::<Option<Order>>("run", None)?.into_iter().flatten().next() else {
            return Ok(Done::Complete);
        };
        // Its command line is that of a run which goes on: what it says must be what the run is.
        (self.folder.resume_or_start, self.telling.quiet) = (true, true);
        let run = RunDir::open(&order.run)
            .with_context(|| format!("{} must be visible to all processes", order.run.display()))?;
        let stored: RunConfig = toml::from_str(&order.config)?;
        let (config, _) = self.asked.resumed(&run, &stored, self.continuing())?;
        limit_before_reading(config.memory_budget, DeviceChoice::configured(&config.device)?)?;
        let place = config.data.place(&run, self.changed.data_at.as_deref())?;
        let dataset = recorded::open_as_listed(&run, &config, &place)?;
        config.check_classes(&dataset)?;
        let chosen = DeviceChoice::configured(&config.device)?.of_rank(ranks.group().local_rank()).open()?;
        let imposed = with_memory(&config, &chosen, ranks)?;
        let beginning = match order.how {
            None => Beginning::New(Initial::of(&config, &chosen.device)?),
            Some(how) => {
                let resumption = Resumption { how, changed: Vec::new(), rewritten: None };
                Beginning::Resumed(Resumed { resumption, told: None, list: None })
            }
        };
        self.fit(Launch { config, dataset, run, chosen, imposed, beginning }, ranks)
    }
}
