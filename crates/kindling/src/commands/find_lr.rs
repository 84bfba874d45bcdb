//! `kindling find-lr`: the learning-rate range test.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use kindling_data::{Dataset, HostBatch, largest_decoding_bytes};
use kindling_report::{RatePage, RateStep};
use kindling_runs::write_atomically;
use kindling_trainer::{RangeTest, RangeTested, TrainError};
use serde_json::json;

use crate::Done;
use crate::commands::Format;
use crate::commands::train::Asked;
use crate::config::RunConfig;
use crate::device::DeviceChoice;
use crate::fitting::{starting_plan, take_planned};
use crate::interrupt;
use crate::kind::{Kind, OfImages, OfPixels, StepAt};
use crate::loaders;
use crate::output::{note, out};
use crate::ranges;
use crate::targets::refuse_files_of_runs;

/// Find a learning rate: take steps at rates that rise from one to the next, and see where the loss falls fastest
///
/// Takes the flags of `kindling train` that say what a run is, and writes no run. The range test of Smith (2017), with fastai's
/// running mean: it ends early where the loss explodes. Same seed, same steps: the batches are those a run begins with.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// The lowest rate, 1e-10 to 100
    #[arg(long, value_name = "RATE", default_value_t = 1e-7, value_parser = ranges::rate, help_heading = "Test")]
    from: f64,
    /// The highest rate, 1e-10 to 100
    #[arg(long, value_name = "RATE", default_value_t = 1.0, value_parser = ranges::rate, help_heading = "Test")]
    to: f64,
    /// How many steps there are from the one to the other, 10 to 1000000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = ranges::tested_rates(), help_heading = "Test")]
    steps: usize,
    /// Also draw the curve as a page
    #[arg(long, value_name = "FILE", help_heading = "Test")]
    html: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Table, help_heading = "Test")]
    format: Format,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        if self.asked.says_rate() {
            bail!("--lr is what is looked for; say where with --from and --to");
        }
        let test = RangeTest { from: self.from, to: self.to, steps: self.steps };
        if test.from >= test.to {
            bail!("rates rise from --from to --to: {} is not below {}", test.from, test.to);
        }
        self.html.as_deref().map_or(Ok(()), refuse_files_of_runs)?;
        let (config, dataset) = self.asked.resolve(self.format == Format::Json)?;
        config.train.check(config.data.classes.len())?;
        match config.is_segmentation() {
            true => self.test::<OfPixels>(&test, &config, &dataset),
            false => self.test::<OfImages>(&test, &config, &dataset),
        }
    }

    /// Tests a network of a kind.
    fn test<K: Kind>(&self, test: &RangeTest, config: &RunConfig, dataset: &Dataset) -> Result<Done> {
        let chosen = DeviceChoice::configured(&config.device)?.open()?;
        chosen.check_precision(config.train.precision)?;
        let imposed = config.memory_budget.map(|budget| budget.impose(&chosen.device, &chosen.facts)).transpose()?;
        let budget = imposed.as_ref().map(|imposed| imposed.bytes);
        take_planned(config, &chosen.device, budget)?;
        let (network, _) = K::initial(config, &chosen.device)?;
        let decoding = largest_decoding_bytes(dataset, &config.data.preprocess);
        let trace = K::trace(config, &network);
        let start = starting_plan(config, &trace, &chosen.device, budget, decoding, 1);
        let loader = loaders::training(config, dataset, self.format == Format::Json)?;
        let mut step_at = K::steps(network, config, &chosen.device, start)?;
        let stop = interrupt::flag()?;
        let mut tested = RangeTested::default();
        let batches = (0..).flat_map(|epoch| loader.epoch(epoch, 0));
        for (step, batch) in batches.take(test.steps).enumerate() {
            let rate = test.rate(step);
            let Some(loss) = loss_at(&mut step_at, &batch?, rate)? else { continue };
            if !tested.add(rate, loss) {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Done::Interrupted);
            }
            if step % 10 == 9 && self.format == Format::Table {
                note!("step {}/{}: rate {rate:.2e}, loss {loss:.4}", step + 1, test.steps);
            }
        }
        self.tell(&config.model.name, &config.data.source, &tested)
    }

    /// Prints the result, and draws it where that is asked for.
    fn tell(&self, model: &str, data: &str, tested: &RangeTested) -> Result<Done> {
        let (steepest, tenth) = (tested.steepest(), tested.tenth_of_lowest());
        if let Some(path) = &self.html {
            let steps: Vec<RateStep> = tested
                .steps
                .iter()
                .map(|step| RateStep { rate: step.rate, loss: step.loss, smoothed: step.smoothed })
                .collect();
            let page = RatePage { model, data, steps: &steps, steepest, tenth_of_lowest: tenth };
            write_atomically(path, page.html().as_bytes())?;
        }
        match (self.format, steepest) {
            (Format::Json, _) => {
                let steps: Vec<_> = tested.steps.iter().map(|it| json!([it.rate, it.loss, it.smoothed])).collect();
                out!(
                    "{}",
                    json!({ "suggestion": steepest, "steepest": steepest, "tenth_of_lowest": tenth, "steps": steps })
                );
            }
            (Format::Table, Some(rate)) => {
                out!("suggestion: --lr {rate:.1e}, where the loss falls fastest");
                tenth.iter().for_each(|rate| out!("a tenth of the rate with the lowest loss: {rate:.1e}"));
            }
            (Format::Table, None) => out!("the loss falls nowhere between {:.1e} and {:.1e}", self.from, self.to),
        }
        Ok(Done::Complete)
    }
}

/// The loss of a batch before a step at a rate: NaN if it or a gradient is none, and nothing if only the scale of a half format's loss
/// was too large, so that the step was left out.
fn loss_at(step_at: &mut StepAt, batch: &HostBatch, rate: f64) -> Result<Option<f64>> {
    match step_at(batch, rate) {
        Ok(stepped) => Ok(stepped.loss),
        Err(TrainError::NotFinite { .. } | TrainError::Overflow { .. }) => Ok(Some(f64::NAN)),
        Err(error) => Err(error.into()),
    }
}
