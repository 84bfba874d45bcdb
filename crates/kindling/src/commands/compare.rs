//! `kindling compare`: is one run better than another, and what was set otherwise?

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use kindling_metrics::{Paired, Resampling, compare, compare_cases, compare_values};
use kindling_report::{ComparedRun, Comparison};
use kindling_runs::{
    Answers, CrossValidation, Folds, Record, RunDir, Spread, Table, common, common_cases, common_values, differences,
    write_atomically,
};
use serde_json::{Value, json};

use crate::Done;
use crate::commands::Format;
use crate::output::{self, out};
use crate::ranges;
use crate::scores;
use crate::targets::refuse_files_of_runs;

/// Compare runs with the first: settings that differ, and scores on the images both have answered
///
/// Differences of scores have 95 % intervals of the paired bootstrap by patient: an interval without 0 is a difference that chance
/// does not explain. McNemar's test of right answers takes images for independent, so where patients have several the interval
/// counts. Runs that segment are compared by their Dice and IoU, those that answer with a number by their errors, and whole
/// cross-validations (the folders of train --folds) by what the folds have said of their test images.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Two or more folders of runs, or of cross-validations
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The split that is compared: val or test
    #[arg(long, default_value = "test", value_parser = ["val", "test"])]
    split: String,
    /// Resamples for the intervals, 0 to 100000; 0 gives none
    #[arg(long, value_name = "N", default_value_t = Resampling::default().resamples, value_parser = ranges::resamples())]
    resamples: usize,
    /// What the resamples are drawn with, 0 to 9223372036854775807
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = ranges::seed())]
    seed: u64,
    /// Also write a page with all of it, and with the runs' scores, cost and curves beside each other
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// json: one object
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// A run or a cross-validation, as far as it is compared.
struct Compared {
    name: String,
    /// Of a cross-validation that of the first fold, without the fold.
    config: toml::Table,
    answers: Answers,
    source: Source,
}

/// Where it comes from.
#[allow(clippy::large_enum_variant)] // a few a process
enum Source {
    Run(RunDir),
    Folds(Folds),
}

/// What one said less what another said, on the samples of a split that both have. An error is a sentence without an end.
fn less(ours: &Answers, others: &Answers, split: &str, resampling: Resampling) -> Result<Paired> {
    Ok(match (ours, others) {
        (Answers::Classes(ours), Answers::Classes(others)) => {
            let (ours, others) = common(ours, others, split).map_err(|reason| anyhow!(reason))?;
            compare(&ours, &others, resampling)?
        }
        (Answers::Masks(ours), Answers::Masks(others)) => {
            let (classes, ours, others) = common_cases(ours, others, split).map_err(|reason| anyhow!(reason))?;
            compare_cases(&classes, &ours, &others, resampling)?
        }
        (Answers::Values(ours), Answers::Values(others)) => {
            let (ours, others) = common_values(ours, others, split).map_err(|reason| anyhow!(reason))?;
            compare_values(&ours, &others, resampling)?
        }
        _ => bail!("one of them {} and the other {}", does(ours), does(others)),
    })
}

/// What a model does that answers so.
fn does(answers: &Answers) -> &'static str {
    match answers {
        Answers::Classes(_) => "classifies",
        Answers::Masks(_) => "segments",
        Answers::Values(_) => "answers with a number",
    }
}

/// What the answers are of.
fn called(answers: &Answers) -> &'static str {
    match answers {
        Answers::Classes(_) | Answers::Values(_) => "images",
        Answers::Masks(_) => "cases",
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        self.html.as_deref().map_or(Ok(()), refuse_files_of_runs)?;
        let runs: Vec<Compared> = self.runs.iter().map(|run| Compared::read(run)).collect::<Result<_>>()?;
        let [first, others @ ..] = runs.as_slice() else { bail!("give two or more folders of runs") };
        if let Some(other) = others.iter().find(|other| other.folds().is_some() != first.folds().is_some()) {
            let (whole, one) = if first.folds().is_some() { (first, other) } else { (other, first) };
            bail!(
                "{} is a whole cross-validation and {} is a single run: compare runs with runs, or cross-validations with each other",
                whole.name,
                one.name
            );
        }
        others.iter().try_for_each(|other| other.check_tested(first))?;
        if first.folds().is_some() && self.split != "test" {
            bail!("the folds of a cross-validation are compared by their test images; leave --split out");
        }
        let resampling = Resampling { resamples: self.resamples, seed: self.seed };
        let (mut objects, mut pairs) = (Vec::new(), Vec::new());
        for other in others {
            let called = || format!("{} and {}", other.name, first.name);
            let paired = less(&other.answers, &first.answers, &self.split, resampling);
            let paired = paired.map_err(|reason| anyhow!("{} cannot be compared: {reason}", called()))?;
            match self.format {
                Format::Json => objects.push(object(first, other, &paired)),
                Format::Table => print(first, other, &paired, &self.split),
            }
            pairs.push(paired);
        }
        if self.format == Format::Json {
            out!("{}", json!({ "run": first.name, "split": self.split, "against": objects }));
        }
        if let Some(path) = &self.html {
            write_atomically(path, self.page(&runs, &pairs)?.as_bytes())?;
        }
        Ok(Done::Complete)
    }

    /// The page; `pairs` are the runs but the first, set against it.
    fn page(&self, runs: &[Compared], pairs: &[Paired]) -> Result<String> {
        let records: Vec<Record> = runs.iter().map(Compared::record).collect::<Result<_>>()?;
        let paired = std::iter::once(None).chain(pairs.iter().map(Some));
        let shown: Vec<ComparedRun<'_>> = runs
            .iter()
            .zip(&records)
            .zip(paired)
            .map(|((run, record), paired)| ComparedRun { name: &run.name, record, paired, folds: run.folds() })
            .collect();
        Ok(Comparison { split: &self.split, resamples: self.resamples, runs: &shown }.html())
    }
}

impl Compared {
    fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        if Folds::are_in(path) {
            let folds = Folds::open(path)?;
            let Some(first) = folds.runs.first() else { bail!("{name} has no folds") };
            let mut config: toml::Table = first.read_config()?;
            let data = config.get_mut("data").and_then(toml::Value::as_table_mut);
            if let Some(opening) = data.and_then(|data| data.get_mut("opening")).and_then(toml::Value::as_table_mut) {
                opening.remove("fold");
            }
            return Ok(Self { name, config, answers: folds.answers.clone(), source: Source::Folds(folds) });
        }
        let run = RunDir::open(path)?;
        let answers = Answers::of_run(&run)?;
        Ok(Self { name, config: run.read_config()?, answers, source: Source::Run(run) })
    }

    /// Fails where both are whole cross-validations and have not tested the same samples: all of the data, that is.
    fn check_tested(&self, first: &Self) -> Result<()> {
        let (Source::Folds(ours), Source::Folds(theirs)) = (&self.source, &first.source) else { return Ok(()) };
        let tested = |folds: &Folds| -> BTreeSet<String> {
            folds.answers.samples().into_iter().map(|(sample, _)| sample.to_owned()).collect()
        };
        let (ours, theirs) = (tested(ours), tested(theirs));
        if let Some(sample) = ours.symmetric_difference(&theirs).next() {
            let (has, lacks) = if ours.contains(sample) { (self, first) } else { (first, self) };
            bail!("{} has tested the sample {sample:?} and {} has not: they are of other data", has.name, lacks.name);
        }
        Ok(())
    }

    fn folds(&self) -> Option<&CrossValidation> {
        match &self.source {
            Source::Run(_) => None,
            Source::Folds(folds) => Some(&folds.found),
        }
    }

    fn record(&self) -> Result<Record> {
        Ok(match &self.source {
            Source::Run(run) => Record::of(run)?,
            Source::Folds(folds) => folds.record()?,
        })
    }
}

fn object(first: &Compared, other: &Compared, paired: &Paired) -> Value {
    let settings = differences(&first.config, &other.config).into_iter();
    let settings: Vec<Value> =
        settings.map(|(key, first, second)| json!({ "key": key, "first": first, "this": second })).collect();
    let mut object = json!({ "run": other.name, "settings": settings, "scores": paired });
    if let (Some(ours), Some(theirs)) = (other.folds(), first.folds()) {
        object["folds"] = json!({ "this": ours.spread, "first": theirs.spread });
    }
    object
}

/// Means over the folds, which share training images, so that their range is no interval.
fn print_folds(ours: &CrossValidation, theirs: &CrossValidation) {
    let (count, other) = (ours.folds.len(), theirs.folds.len());
    out!("\nmean and range over the folds ({count} this, {other} the first)\n");
    let mut table = Table::new(&["<score", "<this", "<first"]);
    for of in &ours.spread {
        let Some(their) = theirs.spread.iter().find(|their| their.name == of.name) else { continue };
        let words = |spread: &Spread| format!("{:.3} ({:.3} to {:.3})", spread.mean, spread.least, spread.most);
        table.row([of.name.clone(), words(&of.spread), words(&their.spread)]);
    }
    output::text_of_product(&table.to_string());
}

fn print(first: &Compared, other: &Compared, paired: &Paired, split: &str) {
    out!("{} against {}\n", other.name, first.name);
    let settings = differences(&first.config, &other.config);
    if settings.is_empty() {
        out!("no setting differs");
    } else {
        let mut table = Table::new(&["<setting", "<this", "<first"]);
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        settings.into_iter().for_each(|(key, a, b)| table.row([key, or_none(b), or_none(a)]));
        output::text_of_product(&table.to_string());
    }
    let (count, called, patients) = (paired.images, called(&other.answers), paired.patients);
    out!("\n{count} common {split} {called} of {patients} patients; this less the first\n");
    let mut table = Table::new(&["<score", "difference", "95 % interval"]);
    paired.differences.iter().for_each(|figure| table.row(scores::row(&figure.name, figure)));
    output::text_of_product(&table.to_string());
    if let (Some(ours), Some(theirs)) = (other.folds(), first.folds()) {
        print_folds(ours, theirs);
    }
    match paired.mcnemar {
        Some(test) => out!(
            "\nright alone: {} this, {} the first; McNemar's exact test p = {:.3}\n",
            test.first_alone,
            test.second_alone,
            test.p
        ),
        None => out!(),
    }
}
