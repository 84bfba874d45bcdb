//! `kindling eval`: a run's weights on a split.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, bail};
use kindling_data::{Changes, FileList, Opening, Purpose, Source, Split, UnknownName, counted, majority_baseline};
use kindling_layers::Precision;
use kindling_metrics::{MultiLabel, Score};
use kindling_runs::{RunDir, Table};
use kindling_trainer::{Inference, Ranks, evaluate};
use serde_json::json;

use crate::Done;
use crate::commands::Format;
use crate::config::RunConfig;
use crate::dataset::{self, HowToOpen};
use crate::device::DeviceChoice;
use crate::loaders;
use crate::output::{self, note, out};
use crate::ranges;
use crate::ranks;
use crate::recorded;

/// Score the weights of a run on a split of its data set, or on all of another with some of its classes
///
/// Classes of another data set are matched by name. What the run's own data set has lost, gained or changed since is said, and
/// what was there keeps its split.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder
    run: PathBuf,
    /// Another data set, folder, manifest or shards [default: the run's]
    #[arg(long, value_name = "NAME|PATH")]
    data: Option<String>,
    /// Where the run's own data is now, if it has moved
    #[arg(long, value_name = "PATH", conflicts_with = "data")]
    data_at: Option<PathBuf>,
    /// all, train, val or test [default: test of the run's own data set, all of another]
    #[arg(long, value_name = "SPLIT", value_parser = scored)]
    split: Option<Scored>,
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
    /// The MPI library that connects several processes, which `mpirun` or `srun` start; also KINDLING_MPI
    #[arg(long, value_name = "PATH")]
    mpi_library: Option<PathBuf>,
    /// How the score is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        ranks::together(self.mpi_library.as_deref(), |ranks| self.run_on(ranks))
    }

    /// Of several processes each scores a part, and the first says what all found.
    fn run_on(&self, ranks: &Rc<Ranks>) -> Result<Done> {
        let run = RunDir::open(&self.run)?;
        let config = RunConfig::of(&run)?;
        let Samples { scored, data, samples, absent, changes, seen } = self.samples(&run, &config)?;
        let chosen = self.device.of_rank(ranks.group().local_rank()).open()?;
        let network = config.trained(&run, self.last, &chosen.device)?;
        let micro_batch = self.micro_batch.unwrap_or(config.inference_batch(&chosen.device));
        let loader = loaders::scoring(&config, samples.clone())?;
        let classes = config.data.classes.len();
        let precision = self.precision.unwrap_or(config.train.precision);
        chosen.check_precision(precision)?;
        let inference = Inference::new(&chosen.device, micro_batch, precision).divided(ranks);
        let score = evaluate(&network, &loader, classes, &inference, |_| {})?.score;
        if !ranks.is_first() {
            return Ok(Done::Complete);
        }
        let baseline = majority_baseline(samples.as_ref());
        match self.format {
            Format::Json => out!(
                "{}",
                json!({
                    "run": run.path(), "data": data, "split": scored.to_string(), "score": score,
                    "classes": config.data.classes, "absent_classes": absent, "chance": baseline,
                    "device": chosen.facts.device, "data_changes": changes.as_ref().map(counts),
                    "seen_in_training": seen,
                })
            ),
            Format::Table => {
                print_score(&config.data.classes, &score, baseline);
                out!("\nscored: {scored} of {data}, {} images", score.samples);
                if !absent.is_empty() {
                    out!("classes without an image: {}", absent.join(", "));
                }
            }
        }
        Ok(Done::Complete)
    }

    /// What is scored, with what there is to say of it.
    fn samples(&self, run: &RunDir, config: &RunConfig) -> Result<Samples> {
        let source = match &self.data {
            Some(name) => name.clone(),
            None => config.data.place(run, self.data_at.as_deref())?,
        };
        let of_run = config.data.path.as_ref().map(|path| path.to_string_lossy());
        let of_run = of_run.as_deref().unwrap_or(&config.data.source);
        let own = self.data.is_none() || dataset::is_same(&source, of_run);
        let scored = self.split.unwrap_or(if own { Scored::One(Split::Test) } else { Scored::All });
        let list = recorded::read(run)?;
        // Another data set is split by what it says itself, and otherwise as a new run would split it.
        let HowToOpen { split_by, split_rule, .. } = if own { config.data.opening } else { HowToOpen::unsaid() };
        let how = HowToOpen { split_by, split_rule, ..config.data.opening };
        let opening = Opening {
            on_bad: config.data.on_bad_sample,
            recorded: recorded::sides(list.as_ref().filter(|_| own)),
            purpose: match (own, scored) {
                (true, _) => Purpose::ScoreAgain,
                (false, Scored::All) => Purpose::ScoreAll,
                (false, Scored::One(_)) => Purpose::ScoreSplit,
            },
            ..Opening::new(config.train.seed)
        };
        let dataset = dataset::open_any(&source, &how, opening)?.dataset;
        let (mut changes, mut seen) = (None, None);
        if let Some((list, now)) = list.and_then(|list| Some((list, FileList::of(&dataset)?))) {
            match own {
                true => changes = Some(list.changes(&now)),
                false => seen = Some(list.trained_on(&now)),
            }
        }
        if let Some(changes) = changes.as_ref().filter(|changes| !changes.is_none()) {
            note!(
                "note: the data is not what the run began with: {changes}; what was there is scored in the split it had, what is \
                 new in the one it gets by its name"
            );
        }
        if let Some(seen) = seen.filter(|seen| *seen > 0) {
            note!("warning: {seen} of these samples are files that the run was trained on; the score is too good");
        }
        let dataset = dataset.under_classes(&config.data.classes, config.data.task)?;
        let samples = match scored {
            Scored::All => dataset.joined(),
            Scored::One(split) => dataset.source(split).clone(),
        };
        if samples.is_empty() {
            let there: Vec<String> = Split::ALL
                .iter()
                .filter(|split| !dataset.source(**split).is_empty())
                .map(|split| format!("{split} ({})", dataset.source(*split).len()))
                .collect();
            bail!("{source} has no {scored} samples; it has {}, and --split all takes everything", there.join(", "));
        }
        let absent = absent_from(samples.as_ref(), &dataset.classes);
        Ok(Samples { scored, data: dataset.name, samples, absent, changes, seen })
    }
}

/// What is scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scored {
    /// Every sample, whatever split it is in.
    All,
    One(Split),
}

impl fmt::Display for Scored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.pad("all"),
            Self::One(split) => split.fmt(f),
        }
    }
}

fn scored(text: &str) -> Result<Scored, UnknownName> {
    match text {
        "all" => Ok(Scored::All),
        _ => text.parse().map(Scored::One).map_err(|_| {
            let known = ["all", "train", "val", "test"];
            UnknownName::new("split", text, &known)
        }),
    }
}

struct Samples {
    scored: Scored,
    /// What the data set is called.
    data: String,
    samples: Arc<dyn Source>,
    /// Classes of the run that no scored sample has.
    absent: Vec<String>,
    /// Of the run's own data since it began, where there is a list of it.
    changes: Option<Changes>,
    /// How many samples of another data set were trained on.
    seen: Option<usize>,
}

fn absent_from(samples: &dyn Source, classes: &[String]) -> Vec<String> {
    let mut there = vec![false; classes.len()];
    (0..samples.len()).for_each(|index| samples.labels(index).into_iter().for_each(|class| there[class] = true));
    classes.iter().zip(there).filter(|(_, there)| !there).map(|(class, _)| class.clone()).collect()
}

fn counts(changes: &Changes) -> serde_json::Value {
    json!({
        "unchanged": changes.unchanged, "added": changes.added.len(), "missing": changes.missing.len(),
        "changed": changes.changed.len(), "moved": changes.moved.len(),
    })
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
