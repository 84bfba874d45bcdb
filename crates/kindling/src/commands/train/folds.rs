//! `kindling train --folds N`: a cross-validation, a run a fold, and what they reach together.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail};
use kindling_data::Fold;
use kindling_metrics::Resampling;
use kindling_report::CrossValidationReport;
use kindling_runs::{CrossValidation, Record, RunDir, Table, TaskScores, write_atomically};
use serde_json::json;

use super::Args;
use crate::Done;
use crate::children;
use crate::config::RunConfig;
use crate::interrupt;
use crate::output::{self, note};
use crate::scores;

/// Flags of the command line that each fold is given another of.
const OWN_FLAGS: [(&str, bool); 3] = [("--folds", true), ("--out", true), ("--resume-or-start", false)];

impl Args {
    /// Trains the folds that are not finished yet, and reports all of them.
    pub(super) fn cross_validate(&self, folds: usize) -> Result<Done> {
        let Some(out) = &self.folder.out else { bail!("--folds needs --out, the folder of the folds") };
        if RunDir::open(out).is_ok() {
            bail!("{} holds a run of its own; give a cross-validation another folder with --out", out.display());
        }
        fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
        interrupt::say_nothing();
        let stop = interrupt::flag()?;
        let shared = shared_flags(std::env::args_os().skip(1));
        let mut runs = Vec::with_capacity(folds);
        for fold in Fold::all(folds) {
            let folder = out.join(format!("fold-{}", fold.number()));
            if !self.telling.quiet {
                note!("[fold {fold}] {}", folder.display());
            }
            let own = ["--resume-or-start".into(), "--fold".into(), fold.to_string().into(), "--out".into()];
            let flags = shared.iter().cloned().chain(own).chain([folder.clone().into()]);
            let status = children::train(flags, &stop)?;
            if stop.load(Ordering::Relaxed) {
                note!("stopped in fold {fold}; the same command line goes on");
                return Ok(Done::Interrupted);
            }
            if !status.success() {
                bail!(
                    "fold {fold} has not ended well, and no other was started after it; the same command line goes on"
                );
            }
            runs.push(RunDir::open(&folder)?);
        }
        self.conclude_folds(out.clone(), &runs)
    }

    /// Writes what the folds reach together, and says it.
    fn conclude_folds(&self, out: PathBuf, runs: &[RunDir]) -> Result<Done> {
        let seed = runs.first().map_or(Ok(0), |run| RunConfig::of(run).map(|config| config.train.seed))?;
        let resampling = Resampling { seed, ..Resampling::default() };
        let (found, answers) = CrossValidation::of(runs, resampling)?;
        answers.write(&out)?;
        let text = serde_json::to_string_pretty(&found)?;
        write_atomically(&out.join("cross-validation.json"), format!("{text}\n").as_bytes())?;
        let records = runs.iter().map(Record::of).collect::<Result<Vec<_>, _>>()?;
        let name = out.file_name().unwrap_or_default().to_string_lossy();
        let report = CrossValidationReport { title: &name, found: &found, answers: &answers, folds: &records };
        write_atomically(&out.join("report.html"), report.html().as_bytes())?;
        if !self.telling.quiet {
            note!("\n{}", table(&found));
            note!("report: {}", out.join("report.html").display());
        }
        let mut result = json!({
            "run": out, "folds": runs.len(), "images": found.pooled.samples(), "patients": found.pooled.patients(),
        });
        for (key, name) in told(&found.pooled) {
            result[key] = json!(found.pooled.figure(name).map(|figure| figure.value));
        }
        output::result(result);
        Ok(Done::Complete)
    }
}

/// The scores that the result has, as those of a run are called there.
fn told(scores: &TaskScores) -> &'static [(&'static str, &'static str)] {
    match scores {
        TaskScores::Classes(_) => &[("test_accuracy", "accuracy"), ("test_macro_auroc", "macro_auroc")],
        TaskScores::Values(_) => &[("test_mae", "mae"), ("test_r2", "r2")],
        TaskScores::Masks(_) => &[("test_dice", "mean_dice"), ("test_iou", "mean_iou")],
    }
}

/// What the folds are told: the command line without what each is given of its own.
fn shared_flags(line: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut shared = Vec::new();
    // The first word is the command's name.
    let mut line = line.skip(1);
    while let Some(word) = line.next() {
        let is = |flag: &str| word == flag;
        let is_with_value = |flag: &str| {
            word.to_str().and_then(|word| word.strip_prefix(flag)).is_some_and(|rest| rest.starts_with('='))
        };
        match OWN_FLAGS.into_iter().find(|(flag, takes_value)| is(flag) || *takes_value && is_with_value(flag)) {
            Some((flag, true)) if is(flag) => {
                line.next();
            }
            Some(_) => {}
            None => shared.push(word),
        }
    }
    shared
}

/// Scores of all folds together, and how they differ between folds.
fn table(found: &CrossValidation) -> String {
    let mut table = Table::new(&["<score", "all", "95 % interval", "folds"]);
    for figure in found.pooled.figures() {
        let spread = found.spread.iter().find(|of| of.name == figure.name).map(|of| of.spread);
        let over_folds = spread.map_or("-".to_owned(), |spread| match spread.deviation {
            Some(deviation) => format!("{:.3} ± {deviation:.3}", spread.mean),
            None => format!("{:.3}", spread.mean),
        });
        let [name, value, interval] = scores::row(&figure.name, figure);
        table.row([name, value, interval, over_folds]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(line: &str) -> String {
        let words = shared_flags(line.split(' ').map(OsString::from));
        words.into_iter().map(|word| word.into_string().expect("it was text")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn folds_are_told_all_but_what_each_has_of_its_own() {
        let line = "train --data d --folds 5 --epochs=2 --out o --resume-or-start -q --outer=1";
        assert_eq!(shared(line), "--data d --epochs=2 -q --outer=1");
        assert_eq!(shared("train --folds=5 --out=o --lr 0.1"), "--lr 0.1");
        assert_eq!(shared("train --out o --folds"), "");
    }
}
