//! `kindling compare`: is one run better than another, and what was set otherwise?

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use kindling_metrics::{Paired, Resampling, compare, compare_cases};
use kindling_report::{ComparedRun, Comparison};
use kindling_runs::{
    CaseTable, PredictionTable, Record, RunDir, RunError, Table, common, common_cases, differences, write_atomically,
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
/// counts. Runs that segment are compared by their Dice and IoU.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Two or more folders of runs
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

/// A run, as far as it is compared.
struct Compared {
    run: RunDir,
    name: String,
    config: toml::Table,
    answers: Answers,
}

/// What a run said of the images that it was evaluated on.
enum Answers {
    Classes(PredictionTable),
    Masks(CaseTable),
}

impl Answers {
    /// These less the others, on the images of a split that both have. An error is a sentence without an end.
    fn less(&self, others: &Self, split: &str, resampling: Resampling) -> Result<Paired> {
        Ok(match (self, others) {
            (Self::Classes(ours), Self::Classes(others)) => {
                let (ours, others) = common(ours, others, split).map_err(|reason| anyhow!(reason))?;
                compare(&ours, &others, resampling)?
            }
            (Self::Masks(ours), Self::Masks(others)) => {
                let (classes, ours, others) = common_cases(ours, others, split).map_err(|reason| anyhow!(reason))?;
                compare_cases(&classes, &ours, &others, resampling)?
            }
            _ => bail!("one of them segments and the other classifies"),
        })
    }

    /// What they are of.
    fn called(&self) -> &'static str {
        match self {
            Self::Classes(_) => "images",
            Self::Masks(_) => "cases",
        }
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        self.html.as_deref().map_or(Ok(()), refuse_files_of_runs)?;
        let runs: Vec<Compared> = self.runs.iter().map(|run| Compared::read(run)).collect::<Result<_>>()?;
        let [first, others @ ..] = runs.as_slice() else { bail!("give two or more folders of runs") };
        let resampling = Resampling { resamples: self.resamples, seed: self.seed };
        let (mut objects, mut pairs) = (Vec::new(), Vec::new());
        for other in others {
            let called = || format!("{} and {}", other.name, first.name);
            let paired = other.answers.less(&first.answers, &self.split, resampling);
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
        let records: Vec<Record> = runs.iter().map(|run| Record::of(&run.run)).collect::<Result<_, RunError>>()?;
        let paired = std::iter::once(None).chain(pairs.iter().map(Some));
        let shown: Vec<ComparedRun<'_>> = runs
            .iter()
            .zip(&records)
            .zip(paired)
            .map(|((run, record), paired)| ComparedRun { name: &run.name, record, paired })
            .collect();
        Ok(Comparison { split: &self.split, resamples: self.resamples, runs: &shown }.html())
    }
}

impl Compared {
    fn read(path: &Path) -> Result<Self> {
        let run = RunDir::open(path)?;
        let answers = match run.read_cases()? {
            Some(cases) => Answers::Masks(cases),
            None if run.predictions().is_file() => Answers::Classes(PredictionTable::read(&run.predictions())?),
            None => bail!(
                "{} has no predictions.csv and no cases.csv: it has not ended, or is of an earlier version; `kindling eval` scores it",
                path.display()
            ),
        };
        Ok(Self { name: path.display().to_string(), config: run.read_config()?, answers, run })
    }
}

fn object(first: &Compared, other: &Compared, paired: &Paired) -> Value {
    let settings = differences(&first.config, &other.config).into_iter();
    let settings: Vec<Value> =
        settings.map(|(key, first, second)| json!({ "key": key, "first": first, "this": second })).collect();
    json!({ "run": other.name, "settings": settings, "scores": paired })
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
    let (count, called, patients) = (paired.images, other.answers.called(), paired.patients);
    out!("\n{count} common {split} {called} of {patients} patients; this less the first\n");
    let mut table = Table::new(&["<score", "difference", "95 % interval"]);
    paired.differences.iter().for_each(|figure| table.row(scores::row(&figure.name, figure)));
    output::text_of_product(&table.to_string());
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
