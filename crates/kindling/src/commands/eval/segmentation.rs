//! `kindling eval` of a network for segmentation.

use anyhow::{Result, bail};
use kindling_data::counted;
use kindling_metrics::{LengthUnit, SegmentationScores, Spread};
use kindling_runs::{CaseTable, RunDir, Table};
use kindling_trainer::{Inference, Ranks};
use serde_json::json;

use super::{Args, Samples, counts};
use crate::Done;
use crate::cases::{self, CaseScorer, ScoredCases};
use crate::commands::Format;
use crate::config::RunConfig;
use crate::device::Chosen;
use crate::loaders;
use crate::output::{self, out};
use crate::scores::row;

impl Args {
    /// Scores masks at the size of the images; of several processes each scores a part, and the first says what all found.
    pub(super) fn score_masks(
        &self,
        (run, config): (&RunDir, &RunConfig),
        samples: Samples,
        chosen: &Chosen,
        ranks: &Ranks,
    ) -> Result<Done> {
        let Samples { scored, data, samples, changes, seen, .. } = samples;
        let network = config.trained_segmenter(run, self.last, &chosen.device)?;
        let micro_batch = self.micro_batch.unwrap_or(config.inference_batch(&chosen.device));
        let precision = self.precision.unwrap_or(config.train.precision);
        chosen.check_precision(precision)?;
        let inference = Inference::new(&chosen.device, micro_batch, precision).divided(ranks);
        let inference = inference.seeing(self.tta.into());
        let loader = loaders::scoring(config, samples)?;
        let split = scored.to_string();
        let scorer = CaseScorer::new(&config.data.classes, &config.data.preprocess)?.in_windows(self.windows.overlap());
        let scorer = scorer.by_slice(self.by_slice);
        let (evaluation, scored_cases) = scorer.score(&network, &loader, &split, &inference, ranks, |_| {})?;
        if !ranks.is_first() {
            return Ok(Done::Complete);
        }
        ranks.take_time();
        let ScoredCases { cases, unit, .. } = scored_cases;
        if cases.is_empty() {
            bail!("none of the images could be scored");
        }
        let classes = cases::foreground(&config.data.classes);
        let (tolerance, resampling) = ((cases::TOLERANCE, unit), self.resampling(config.train.seed));
        let found = SegmentationScores::of(&split, &classes, tolerance, &cases, resampling)?;
        let table = CaseTable { classes, cases };
        self.predictions.as_ref().map_or(Ok(()), |path| table.write(path))?;
        match self.format {
            Format::Json => out!(
                "{}",
                json!({
                    "run": run.path(), "data": data, "split": split, "score": evaluation.score, "scores": found,
                    "classes": config.data.classes, "device": chosen.facts.device,
                    "data_changes": changes.as_ref().map(counts), "seen_in_training": seen,
                })
            ),
            Format::Table => {
                print(&found);
                out!("\nscored: {scored} of {data}, {}", counted(evaluation.score.samples, "image"));
            }
        }
        Ok(Done::Complete)
    }
}

/// Prints scores for a reader.
fn print(scores: &SegmentationScores) {
    let intervals = match scores.resamples {
        0 => "no intervals".to_owned(),
        count => format!("95 % intervals from {count} resamples of patients"),
    };
    let cases = match scores.unit {
        LengthUnit::Millimetres => "volumes",
        LengthUnit::Pixels => "images",
    };
    out!("{} {cases} of {} patients; {intervals}\n", scores.cases, scores.patients);
    let mut means = Table::new(&["<score", "value", "95 % interval"]);
    means.row(row("mean foreground Dice", &scores.dice));
    means.row(row("mean foreground IoU", &scores.iou));
    for class in &scores.classes {
        means.row(row(&format!("{}: mean Dice", class.name), &class.dice));
    }
    output::text_of_product(&means.to_string());
    out!("");
    let surface = format!("surface Dice at {} {}", scores.tolerance, scores.unit);
    let mut medians = Table::new(&["<score", "median", "quartiles", "cases"]);
    for class in &scores.classes {
        let of = &class.summary;
        medians.row([class.name.as_str(), "", "", ""]);
        medians.row(spread("Dice", &of.dice));
        medians.row(spread("IoU", &of.iou));
        medians.row(spread(&format!("HD95 in {}", scores.unit), &of.hausdorff_95));
        medians.row(spread(&surface, &of.surface_dice));
    }
    output::text_of_product(&medians.to_string());
}

/// A line of a table: name, median, quartiles, and in how many cases it is defined.
fn spread(name: &str, of: &Spread) -> [String; 4] {
    let cases = format!("{} of {}", of.defined, of.defined + of.undefined);
    let (median, quartiles) = match of.quartiles {
        Some(it) => (format!("{:.3}", it.median), format!("{:.3} to {:.3}", it.q1, it.q3)),
        None => ("-".to_owned(), "-".to_owned()),
    };
    [name.to_owned(), median, quartiles, cases]
}
