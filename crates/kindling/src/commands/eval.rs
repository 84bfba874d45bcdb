//! `kindling eval`: a run's weights on a split.

use std::path::PathBuf;

use anyhow::Result;
use kindling_data::{Split, counted};
use kindling_layers::Precision;
use kindling_metrics::{MultiLabel, Score};
use kindling_runs::{RunDir, Table};
use kindling_trainer::{Inference, evaluate};
use serde_json::json;

use crate::Done;
use crate::commands::Format;
use crate::config::RunConfig;
use crate::dataset::{self, HowToOpen};
use crate::device::DeviceChoice;
use crate::loaders;
use crate::output::{self, out};
use crate::ranges;

/// Score the weights of a run on a split of its data set, or of another with the same classes
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder
    run: PathBuf,
    /// Another data set, folder, manifest or shards [default: the run's]
    #[arg(long, value_name = "NAME|PATH")]
    data: Option<String>,
    /// train, val or test
    #[arg(long, default_value = "test")]
    split: Split,
    /// Use the last weights instead of the best
    #[arg(long)]
    last: bool,
    /// Samples computed at once, 1 to 1048576; on the CPU without influence on the score, on other devices it changes last
    /// digits [default: the run's]
    #[arg(long, value_name = "N", value_parser = ranges::samples())]
    micro_batch: Option<usize>,
    /// Format of feature maps: f32, bf16 or f16 [default: the run's]
    #[arg(long, value_name = "FORMAT")]
    precision: Option<Precision>,
    /// auto, cpu, cuda[:N] or wgpu
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// How the score is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let run = RunDir::open(&self.run)?;
        let config = RunConfig::of(&run)?;
        let source = self.data.as_ref().unwrap_or(&config.data.source);
        // Another data set is split by what it says itself.
        let split_by = config.data.opening.split_by.filter(|_| self.data.is_none());
        let opening = HowToOpen { split_by, ..config.data.opening };
        let dataset = dataset::open_to(source, config.train.seed, &opening, config.data.on_bad_sample)?.dataset;
        config.check_classes(&dataset)?;
        let chosen = self.device.open()?;
        let network = config.trained(&run, self.last, &chosen.device)?;
        let micro_batch = self.micro_batch.unwrap_or(config.inference_batch(&chosen.device));
        let loader = loaders::evaluation(&config, &dataset, self.split)?;
        let classes = config.data.classes.len();
        let precision = self.precision.unwrap_or(config.train.precision);
        chosen.check_precision(precision)?;
        let inference = Inference::new(&chosen.device, micro_batch, precision);
        let score = evaluate(&network, &loader, classes, &inference, |_| {})?.score;
        let baseline = dataset.majority_baseline(self.split);
        match self.format {
            Format::Json => out!(
                "{}",
                json!({
                    "run": run.path(), "data": dataset.name, "split": self.split.to_string(), "score": score,
                    "classes": config.data.classes, "chance": baseline, "device": chosen.facts.device,
                })
            ),
            Format::Table => print_score(&config.data.classes, &score, baseline),
        }
        Ok(Done::Complete)
    }
}

fn print_score(classes: &[String], score: &Score, baseline: f64) {
    if let Some(labels) = &score.multi_label {
        return print_labels(classes, score, labels);
    }
    out!(
        "accuracy {:.1} % of {} (always the largest class: {:.1} %),\nbalanced {:.1} %, loss {:.3}\n",
        score.accuracy * 100.0,
        counted(score.samples, "image"),
        baseline * 100.0,
        score.balanced_accuracy * 100.0,
        score.loss
    );
    let mut table = Table::new(&["<class", "images", "recall", "precision"]);
    let percent = |share: Option<f64>| share.map_or("-".to_string(), |share| format!("{:.1} %", share * 100.0));
    let rows = classes.iter().zip(score.per_class_recall()).zip(score.per_class_precision());
    for (index, ((class, recall), precision)) in rows.enumerate() {
        table.row([class.clone(), score.truths(index).to_string(), percent(recall), percent(precision)]);
    }
    output::text_of_product(&table.to_string());
}

/// Labels that are answered one by one.
fn print_labels(classes: &[String], score: &Score, labels: &MultiLabel) {
    let number = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
    out!(
        "mean AUROC {} and macro F1 {:.3} on {}, all labels right on {:.1} %, loss {:.3}\n",
        number(labels.mean_auroc),
        labels.macro_f1,
        counted(score.samples, "image"),
        labels.subset_accuracy * 100.0,
        score.loss
    );
    let mut table = Table::new(&["<label", "images", "AUROC", "F1"]);
    for (index, class) in classes.iter().enumerate() {
        let (auroc, f1) = (number(labels.auroc[index]), labels.f1[index]);
        table.row([class.clone(), labels.positives[index].to_string(), auroc, format!("{f1:.3}")]);
    }
    output::text_of_product(&table.to_string());
}
