//! `kindling eval` of a network that answers with a number.

use anyhow::{Result, bail};
use kindling_data::counted;
use kindling_runs::{RunDir, ValueTable};
use kindling_trainer::{Inference, Ranks, evaluate_values};
use serde_json::json;

use super::{Args, Samples, counts};
use crate::Done;
use crate::commands::Format;
use crate::config::RunConfig;
use crate::device::Chosen;
use crate::output::out;
use crate::{loaders, scores};

impl Args {
    /// Scores numbers; of several processes each scores a part, and the first says what all found.
    pub(super) fn score_values(
        &self,
        (run, config): (&RunDir, &RunConfig),
        samples: Samples,
        chosen: &Chosen,
        ranks: &Ranks,
    ) -> Result<Done> {
        let Samples { scored, data, samples, changes, seen, .. } = samples;
        let network = config.trained(run, self.last, &chosen.device)?;
        let micro_batch = self.micro_batch.unwrap_or(config.inference_batch(&chosen.device));
        let precision = self.precision.unwrap_or(config.train.precision);
        chosen.check_precision(precision)?;
        let inference = Inference::new(&chosen.device, micro_batch, precision).divided(ranks);
        let inference = inference.seeing(self.tta.into());
        let loader = loaders::scoring(config, samples.clone())?;
        let loss = config.train.regression.unwrap_or_default();
        let evaluation = evaluate_values(&network, &loader, loss, &inference, |_| {})?;
        if !ranks.is_first() {
            return Ok(Done::Complete);
        }
        ranks.take_time();
        let split = scored.to_string();
        let images = scores::predicted_values(&split, samples.as_ref(), &evaluation.predictions);
        let table = ValueTable { images, ..ValueTable::default() };
        self.predictions.as_ref().map_or(Ok(()), |path| table.write(path))?;
        let target = config.data.classes.first().map_or("", String::as_str);
        let found = scores::of_values(&table, &split, target, self.resampling(config.train.seed))?;
        let Some(found) = found else { bail!("none of the images could be scored") };
        match self.format {
            Format::Json => out!(
                "{}",
                json!({
                    "run": run.path(), "data": data, "split": split, "loss": evaluation.loss, "score": evaluation.score,
                    "scores": found, "target": target, "device": chosen.facts.device,
                    "data_changes": changes.as_ref().map(counts), "seen_in_training": seen,
                })
            ),
            Format::Table => {
                scores::print_values(&found);
                out!("\nscored: {scored} of {data}, {}", counted(evaluation.score.samples, "image"));
            }
        }
        Ok(Done::Complete)
    }
}
