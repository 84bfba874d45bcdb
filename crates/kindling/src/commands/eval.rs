//! `kindling eval`: a run's weights on a split, or a table of predictions.

mod from;
mod regression;
mod segmentation;

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Result, bail};
use kindling_data::{Changes, FileList, Opening, Purpose, Source, Split, UnknownName, counted, majority_baseline};
use kindling_layers::Precision;
use kindling_metrics::{MultiLabel, Resampling, Score, Scores};
use kindling_runs::{PredictionTable, RunDir, Table, ValueTable};
use kindling_trainer::{Inference, Prediction, Ranks, evaluate};
use serde_json::json;

use crate::Done;
use crate::commands::run_flags::Watched;
use crate::commands::{Format, SlidingWindow, TestTimeAugmentation};
use crate::config::RunConfig;
use crate::dataset::{self, HowToOpen};
use crate::device::DeviceChoice;
use crate::loaders;
use crate::output::{self, note, out};
use crate::ranges;
use crate::ranks::{self, Fingerprint};
use crate::recorded;
use crate::scores;
use crate::targets::refuse_files_of_runs;

/// Score the weights of a run on a split of its data set, or on all of another with some of its classes; or score a table of
/// predictions
///
/// Classes of another data set are matched by name. What the run's own data set has lost, gained or changed since is said, and
/// what was there keeps its split. Intervals are those of the bootstrap by patient. Cut-offs and a temperature are chosen on
/// predictions of the validation split, which a run keeps in predictions.csv.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder
    #[arg(required_unless_present = "from")]
    run: Option<PathBuf>,
    /// Score this table of predictions without a model, a run's predictions.csv or another program's: CSV with the columns
    /// sample, truth, for each class p:CLASS (or, where the truth is a number, prediction), and where they are known split and group
    /// (the patient)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "data", "data_at", "last", "micro_batch", "tta", "sliding_window", "by_slice", "precision", "predictions"])]
    from: Option<PathBuf>,
    /// The classes of the table are grades, in the order of its columns from the least to the greatest
    #[arg(long, requires = "from")]
    ordinal: bool,
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
    /// Test-time augmentation: the views of each image whose probabilities are averaged. A cut-off and a temperature stay those
    /// that were chosen without it
    #[arg(long, value_enum, value_name = "VIEWS", default_value_t)]
    tta: TestTimeAugmentation,
    #[command(flatten)]
    windows: SlidingWindow,
    /// Of a network for segmentation: score each slice of a volume, or of a series of DICOM images, as a case of its own, with distances in
    /// pixels
    #[arg(long)]
    by_slice: bool,
    /// Format of feature maps: f32, bf16 or f16 [default: the run's]
    #[arg(long, value_name = "FORMAT")]
    precision: Option<Precision>,
    /// auto, cpu, cuda[:N] or wgpu
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// The MPI library that connects several processes, which `mpirun` or `srun` start; also KINDLING_MPI
    #[arg(long, value_name = "PATH")]
    mpi_library: Option<PathBuf>,
    #[command(flatten)]
    watched: Watched,
    /// Also write the model's answer for each image to this file, as a run's predictions.csv
    #[arg(long, value_name = "FILE")]
    predictions: Option<PathBuf>,
    /// Also score the images of each value of this column of the table, or of the manifest
    #[arg(long, value_name = "COLUMN", requires = "from")]
    subgroups: Option<String>,
    /// The manifest (CSV) whose column the subgroups are of; its paths are the samples
    #[arg(long, value_name = "FILE", requires = "subgroups")]
    manifest: Option<PathBuf>,
    /// Resamples for the intervals, 0 to 100000; 0 gives none
    #[arg(long, value_name = "N", default_value_t = Resampling::default().resamples, value_parser = ranges::resamples())]
    resamples: usize,
    /// What the resamples are drawn with, 0 to 9223372036854775807 [default: the run's, or 0]
    #[arg(long, value_name = "N", value_parser = ranges::seed())]
    seed: Option<u64>,
    /// How the score is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        if let Some(table) = &self.from {
            ranks::check_alone("eval --from")?;
            return self.score_table(table);
        }
        ranks::together(self.mpi_library.as_deref(), |ranks| self.run_on(ranks))
    }

    /// Of several processes each scores a part, and the first says what all found.
    fn run_on(&self, ranks: &Rc<Ranks>) -> Result<Done> {
        let Some(run) = &self.run else { bail!("give a run's folder, or a table of predictions with --from") };
        self.predictions.as_deref().map_or(Ok(()), refuse_files_of_runs)?;
        let run = RunDir::open(run)?;
        let config = RunConfig::of(&run)?;
        let Samples { scored, data, own, samples, absent, changes, seen } = self.samples(&run, &config, ranks)?;
        let chosen = self.device.of_rank(ranks.group().local_rank()).open()?;
        if !ranks.is_alone() {
            Fingerprint::of_samples(&chosen.facts.device, samples.as_ref()).compare(ranks)?;
            ranks::watch_reading(ranks, self.watched.timeout(), Some(run.path()))?;
        }
        if config.is_segmentation() {
            let samples = Samples { scored, data, own, samples, absent, changes, seen };
            return self.score_masks((&run, &config), samples, &chosen, ranks);
        }
        self.windows.refuse()?;
        if self.by_slice {
            bail!("--by-slice is about masks, and this network answers for images, not for pixels");
        }
        if config.is_regression() {
            let samples = Samples { scored, data, own, samples, absent, changes, seen };
            return self.score_values((&run, &config), samples, &chosen, ranks);
        }
        let network = config.trained(&run, self.last, &chosen.device)?;
        let micro_batch = self.micro_batch.unwrap_or(config.inference_batch(&chosen.device));
        let loader = loaders::scoring(&config, samples.clone())?;
        let classes = config.data.classes.len();
        let precision = self.precision.unwrap_or(config.train.precision);
        chosen.check_precision(precision)?;
        let inference = Inference::new(&chosen.device, micro_batch, precision).divided(ranks);
        let inference = inference.seeing(self.tta.into());
        let evaluation = evaluate(&network, &loader, classes, &inference, |_| {})?;
        if !ranks.is_first() {
            return Ok(Done::Complete);
        }
        ranks.take_time();
        let score = evaluation.score;
        let baseline = majority_baseline(samples.as_ref());
        let split = scored.to_string();
        let mut table = scores::empty_table(&config.data.classes, config.data.task);
        scores::add_to(&mut table, &split, samples.as_ref(), &evaluation.predictions);
        self.predictions.as_ref().map_or(Ok(()), |path| table.write(path))?;
        // What was chosen on images of this very split says nothing about it.
        let independent = !own || scored == Scored::One(Split::Test);
        let resampling = self.resampling(config.train.seed);
        let found = with_intervals(&run, table, &evaluation.predictions, (&split, independent), resampling)?;
        match self.format {
            Format::Json => out!(
                "{}",
                json!({
                    "run": run.path(), "data": data, "split": split, "score": score, "scores": found,
                    "classes": config.data.classes, "absent_classes": absent, "chance": baseline,
                    "device": chosen.facts.device, "data_changes": changes.as_ref().map(counts),
                    "seen_in_training": seen,
                })
            ),
            Format::Table => {
                print_score(&config.data.classes, &score, baseline);
                if let Some(found) = &found {
                    out!("");
                    scores::print(found);
                }
                out!("\nscored: {scored} of {data}, {} images", score.samples);
                if !absent.is_empty() {
                    out!("classes without an image: {}", absent.join(", "));
                }
            }
        }
        Ok(Done::Complete)
    }

    /// How intervals are found, for a run of this seed.
    fn resampling(&self, seed: u64) -> Resampling {
        Resampling { resamples: self.resamples, seed: self.seed.unwrap_or(seed) }
    }

    /// Scores a table of predictions.
    fn score_table(&self, table: &Path) -> Result<Done> {
        let from = from::From {
            table,
            split: self.split,
            subgroups: self.subgroups.as_deref(),
            manifest: self.manifest.as_ref(),
            ordinal: self.ordinal,
            resampling: self.resampling(0),
        };
        if ValueTable::is_at(table) {
            let found = from.value_scores()?;
            match self.format {
                Format::Json => out!("{}", json!({ "predictions": table, "split": found.split, "scores": found })),
                Format::Table => scores::print_values(&found),
            }
            return Ok(Done::Complete);
        }
        let found = from.scores()?;
        match self.format {
            Format::Json => out!("{}", json!({ "predictions": table, "split": found.split, "scores": found })),
            Format::Table => scores::print(&found),
        }
        Ok(Done::Complete)
    }

    /// What is scored, with what there is to say of it.
    fn samples(&self, run: &RunDir, config: &RunConfig, ranks: &Ranks) -> Result<Samples> {
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
        let of_run = config.data.opening.clone();
        let HowToOpen { split_by, split_rule, fold, .. } = if own { of_run.clone() } else { HowToOpen::unsaid() };
        let how = HowToOpen { split_by, split_rule, fold, ..of_run };
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
        if let Some(list) = list {
            let now = FileList::of(&dataset);
            match own {
                true => changes = Some(list.changes(&now)),
                false => seen = list.trained_on(&now),
            }
        }
        if let Some(changes) = changes.as_ref().filter(|changes| ranks.is_first() && !changes.is_none()) {
            let scored = match dataset::is_named(&source) {
                true => format!("{source} is scored as this version of Kindling has it"),
                false => "what was there is scored in the split it had, what is new in the one it gets by its name"
                    .to_owned(),
            };
            note!("note: the data is not what the run began with: {changes}; {scored}");
        }
        if let Some(seen) = seen.filter(|seen| ranks.is_first() && *seen > 0) {
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
        Ok(Samples { scored, data: dataset.name, own, samples, absent, changes, seen })
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
    /// Whether it is the run's own.
    own: bool,
    samples: Arc<dyn Source>,
    /// Classes of the run that no scored sample has.
    absent: Vec<String>,
    /// Of the run's own data since it began, where the run has a list of it; those of earlier versions lack one.
    changes: Option<Changes>,
    /// How many samples of another data set were trained on, where they are files.
    seen: Option<usize>,
}

/// Scores with intervals of what a model has just said. Cut-offs and a temperature are chosen on the run's own predictions for its
/// validation split, where they are there and the images scored are others. Where nothing could be scored there are none.
fn with_intervals(
    run: &RunDir,
    mut table: PredictionTable,
    predictions: &[Prediction],
    (split, independent): (&str, bool),
    resampling: Resampling,
) -> Result<Option<Scores>> {
    if !scores::can_be_scored(predictions) {
        return Ok(None);
    }
    let validation = Split::Val.name();
    if independent && run.predictions().is_file() {
        let kept = PredictionTable::of_run(run)?;
        if kept.classes == table.classes && kept.several == table.several {
            table.images.extend(kept.images.into_iter().filter(|image| image.split == validation));
        }
    }
    let mut found = scores::of_table(&table, split, Some(validation), resampling)?;
    found.flow.retain(|row| row.split == split);
    Ok(Some(found))
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
