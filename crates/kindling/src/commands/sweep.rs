//! `kindling sweep`: the same run again and again, with other seeds or settings, and the spread of the scores.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use kindling_report::{SweepPage, SweptRun, SweptSettings};
use kindling_runs::{Listed, Record, RunDir, Spread, Table, write_atomically};
use serde_json::{Map, Value, json};

use crate::Done;
use crate::children;
use crate::commands::Format;
use crate::interrupt;
use crate::output::{self, note, out};
use crate::ranges;

/// The scores of a run that are compared, by the columns of `kindling runs`.
const SCORES: [(&str, &str); 4] =
    [("accuracy", "accuracy"), ("balanced_accuracy", "balanced"), ("macro_auroc", "AUROC"), ("loss", "loss")];
/// The same of runs that segment.
const SCORES_OF_MASKS: [(&str, &str); 2] = [("dice", "Dice"), ("loss", "loss")];
/// The same of runs that answer with a number.
const SCORES_OF_NUMBERS: [(&str, &str); 2] = [("mae", "MAE"), ("r2", "R2")];
/// Columns of which less is better.
const LESS_IS_BETTER: [&str; 2] = ["loss", "mae"];
/// Flags of `kindling train` that say which run it is, so that a sweep gives them itself.
const OWN_FLAGS: [&str; 7] = ["out", "resume", "resume-or-start", "extend-to", "data-at", "seed", "folds"];

/// Train the same model with several seeds or settings, and report the spread of the scores
///
/// Runs lie in one folder, a run a folder. Whatever stops it, the same command line goes on where it was: runs that are finished are
/// not repeated. A seed draws initial weights, order, augmentation and dropout, and where a data set brings no splits of its own the
/// splits, too. `kindling compare` sets two of the runs against each other.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the runs
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// How many seeds each combination of settings is trained with, 1 to 1000: 0, 1, 2 ...
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = ranges::seeds())]
    seeds: u64,
    /// A flag of `kindling train` and its values: lr=0.001,0.003; given several times, all combinations are trained
    #[arg(long = "over", value_name = "FLAG=VALUES", value_parser = varied)]
    over: Vec<Varied>,
    /// How the scores are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Flags of `kindling train` that all runs share
    #[arg(last = true, value_name = "FLAGS OF TRAIN")]
    flags: Vec<OsString>,
}

/// A flag and the values that it is given.
#[derive(Clone, Debug, PartialEq)]
struct Varied {
    flag: String,
    values: Vec<String>,
}

fn varied(text: &str) -> Result<Varied, String> {
    let (flag, values) = text.split_once('=').ok_or("it is not FLAG=VALUE,VALUE")?;
    let flag = flag.trim().trim_start_matches("--").to_owned();
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if flag.is_empty() || values.iter().any(String::is_empty) {
        return Err("a flag or a value is empty".into());
    }
    if OWN_FLAGS.contains(&flag.as_str()) {
        return Err(format!("a sweep gives --{flag} itself"));
    }
    if values.iter().collect::<BTreeSet<_>>().len() < values.len() {
        return Err("a value is given twice".into());
    }
    Ok(Varied { flag, values })
}

/// One run of a sweep.
struct Planned {
    /// The number of its combination of settings.
    combination: usize,
    /// Its settings: flags and values.
    settings: Vec<(String, String)>,
    seed: u64,
    folder: PathBuf,
}

impl Planned {
    /// The name of its folder.
    fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        self.check()?;
        let (combinations, planned) = self.planned()?;
        fs::create_dir_all(&self.out).with_context(|| format!("creating {}", self.out.display()))?;
        interrupt::say_nothing();
        let stop = interrupt::flag()?;
        let mut failed = Vec::new();
        for (number, run) in (1..).zip(&planned) {
            note!("[{number}/{}] {}", planned.len(), run.folder.display());
            let status = children::train(self.flags_of(run), &stop)?;
            if stop.load(Ordering::Relaxed) {
                note!("stopped in run {number} of {}; the same command line goes on", planned.len());
                return Ok(Done::Interrupted);
            }
            match status.code() {
                Some(0) => {}
                Some(2) => bail!("kindling train does not take these flags; nothing else was started"),
                _ => failed.push(run.folder.display().to_string()),
            }
        }
        let summary = summary(&combinations, &planned)?;
        write_atomically(&self.out.join("sweep.json"), format!("{summary:#}\n").as_bytes())?;
        write_atomically(&self.out.join("report.html"), self.page(&combinations, &planned, &summary)?.as_bytes())?;
        match self.format {
            Format::Json => out!("{summary}"),
            Format::Table => print(&summary),
        }
        if failed.is_empty() {
            return Ok(Done::Complete);
        }
        note!("error: {} of {} runs failed: {}", failed.len(), planned.len(), failed.join(", "));
        Ok(Done::SomeFailed)
    }

    /// What the runs share must not say what tells them apart.
    fn check(&self) -> Result<()> {
        let own = OWN_FLAGS.into_iter().chain(self.over.iter().map(|varied| varied.flag.as_str()));
        for name in own {
            let flag = format!("--{name}");
            let is_it = |given: &OsString| {
                given.to_str().is_some_and(|text| {
                    text.strip_prefix(&flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
                })
            };
            if self.flags.iter().any(is_it) {
                bail!("{flag} is given to each run by the sweep; leave it out behind --");
            }
        }
        let flags: BTreeSet<&str> = self.over.iter().map(|varied| varied.flag.as_str()).collect();
        if flags.len() < self.over.len() {
            bail!("a flag is given twice with --over; give all its values at once");
        }
        Ok(())
    }

    /// The combinations of settings in words, and all runs.
    fn planned(&self) -> Result<(Vec<String>, Vec<Planned>)> {
        let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for Varied { flag, values } in &self.over {
            let with = |settings: &Vec<(String, String)>, value: &String| {
                settings.iter().cloned().chain([(flag.clone(), value.clone())]).collect()
            };
            combinations = combinations.iter().flat_map(|of| values.iter().map(move |value| with(of, value))).collect();
        }
        let planned: Vec<Planned> = (0..)
            .zip(&combinations)
            .flat_map(|(combination, settings)| {
                (0..self.seeds).map(move |seed| Planned {
                    combination,
                    settings: settings.clone(),
                    seed,
                    folder: self.out.join(folder_name(settings, seed)),
                })
            })
            .collect();
        let folders: BTreeSet<&Path> = planned.iter().map(|run| run.folder.as_path()).collect();
        if folders.len() < planned.len() {
            bail!(
                "two runs would have the same folder: values of --over differ in nothing that a file's name can hold"
            );
        }
        Ok((combinations.iter().map(|settings| in_words(settings)).collect(), planned))
    }

    /// The page about all runs.
    fn page(&self, combinations: &[String], planned: &[Planned], summary: &Value) -> Result<String> {
        let record = |run: &Planned| RunDir::open(&run.folder).ok().map(|folder| Record::of(&folder)).transpose();
        let records = planned.iter().map(record).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<String> = planned.iter().map(Planned::name).collect();
        let rows = summary["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let compared = scores_in(summary);
        let of = |combination: usize, settings| {
            let runs = planned.iter().enumerate().filter(|(_, run)| run.combination == combination);
            let swept = |(at, run): (usize, &Planned)| SweptRun {
                seed: run.seed,
                folder: &names[at],
                record: records[at].as_ref(),
                values: compared.iter().map(|(column, _)| rows.get(at).and_then(|row| row[*column].as_f64())).collect(),
            };
            SweptSettings { settings, runs: runs.map(swept).collect() }
        };
        let combinations: Vec<SweptSettings<'_>> =
            combinations.iter().enumerate().map(|(at, settings)| of(at, settings)).collect();
        let scores: Vec<(&str, bool)> =
            compared.iter().map(|(column, heading)| (*heading, LESS_IS_BETTER.contains(column))).collect();
        let title = self.out.file_name().unwrap_or_default().to_string_lossy();
        Ok(SweepPage { title: &title, scores: &scores, combinations: &combinations }.html())
    }

    /// What a run is started and continued with.
    fn flags_of(&self, run: &Planned) -> Vec<OsString> {
        let settings = run.settings.iter().map(|(flag, value)| format!("--{flag}={value}").into());
        let own = ["--resume-or-start".into(), "--seed".into(), run.seed.to_string().into(), "--out".into()];
        own.into_iter().chain([run.folder.clone().into()]).chain(settings).chain(self.flags.iter().cloned()).collect()
    }
}

/// A name for a run, of characters that every file system takes.
fn folder_name(settings: &[(String, String)], seed: u64) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "._+".contains(it);
    let plain = |text: &str| -> String { text.chars().map(|it| if is_plain(it) { it } else { '-' }).collect() };
    let parts = settings.iter().map(|(flag, value)| format!("{flag}-{}", plain(value)));
    parts.chain([format!("seed-{seed}")]).collect::<Vec<_>>().join("-")
}

fn in_words(settings: &[(String, String)]) -> String {
    match settings {
        [] => "all".to_owned(),
        _ => settings.iter().map(|(flag, value)| format!("{flag} {value}")).collect::<Vec<_>>().join(", "),
    }
}

/// The scores of all runs that have ended, and their spread over the seeds.
fn summary(combinations: &[String], planned: &[Planned]) -> Result<Value> {
    let listed = |run: &Planned| RunDir::open(&run.folder).ok().map(|folder| Listed::of(&folder)).transpose();
    let listed = planned.iter().map(listed).collect::<Result<Vec<_>, _>>()?;
    let compared = scores_of(|column| listed.iter().flatten().any(|run| run.value(column).is_some()));
    let mut rows = Vec::new();
    for (run, listed) in planned.iter().zip(&listed) {
        let score = |column: &str| listed.as_ref().and_then(|listed| listed.value(column)).unwrap_or(Value::Null);
        let mut row = Map::from_iter([
            ("run".to_owned(), run.folder.display().to_string().into()),
            (
                "settings".to_owned(),
                run.settings.iter().cloned().map(|(flag, value)| (flag, value.into())).collect::<Map<_, _>>().into(),
            ),
            ("seed".to_owned(), run.seed.into()),
        ]);
        row.extend(compared.iter().map(|(column, _)| ((*column).to_owned(), score(column))));
        rows.push(row);
    }
    let spreads = combinations.iter().enumerate().map(|(combination, words)| {
        let of = |column: &str| {
            let runs = planned.iter().zip(&rows).filter(|(run, _)| run.combination == combination);
            Spread::of(runs.filter_map(|(_, row)| row[column].as_f64()))
        };
        let scores: Map<String, Value> =
            compared.iter().map(|(column, _)| ((*column).to_owned(), json!(of(column)))).collect();
        json!({ "settings": words, "scores": scores })
    });
    Ok(json!({ "spread": spreads.collect::<Vec<_>>(), "runs": rows }))
}

/// The scores that runs are compared by.
fn scores_in(summary: &Value) -> &'static [(&'static str, &'static str)] {
    scores_of(|column| summary["runs"].as_array().is_some_and(|rows| rows.iter().any(|row| row.get(column).is_some())))
}

/// The scores of runs of which some have these columns.
fn scores_of(is_there: impl Fn(&str) -> bool) -> &'static [(&'static str, &'static str)] {
    match (is_there(SCORES_OF_MASKS[0].0), is_there(SCORES_OF_NUMBERS[0].0)) {
        (true, _) => &SCORES_OF_MASKS,
        (false, true) => &SCORES_OF_NUMBERS,
        (false, false) => &SCORES,
    }
}

/// The spread of each combination of settings, for people.
fn print(summary: &Value) {
    let compared = scores_in(summary);
    let headings: Vec<&str> =
        ["<settings", "runs"].into_iter().chain(compared.iter().map(|(_, heading)| *heading)).collect();
    let mut table = Table::new(&headings);
    for of in summary["spread"].as_array().into_iter().flatten() {
        let runs = compared.iter().filter_map(|(column, _)| of["scores"][column]["runs"].as_u64()).max().unwrap_or(0);
        let cell = |(column, _): &(&str, &str)| {
            let score = &of["scores"][column];
            match (score["mean"].as_f64(), score["deviation"].as_f64()) {
                (Some(mean), Some(deviation)) => format!("{mean:.3} ± {deviation:.3}"),
                (Some(mean), None) => format!("{mean:.3}"),
                _ => "-".to_owned(),
            }
        };
        let words = of["settings"].as_str().unwrap_or_default().to_owned();
        table.row([words, runs.to_string()].into_iter().chain(compared.iter().map(cell)));
    }
    output::text_of_product(&table.to_string());
    output::paragraph(
        "Mean and standard deviation of one run over the seeds. sweep.json has the range and every run, report.html draws them.",
    );
}
