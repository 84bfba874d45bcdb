//! Carrying out a case.

use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindling_tests::{
    Flags, budget_with_room_for, checkpoints, events, json_of, kindling, picture_folder, same_bits, sentence_of,
};
use serde_json::Value;
use tempfile::tempdir;

use crate::disturbed::{Ended, run};
use crate::plan::{Case, Disturbance, End};

/// Pictures of a class: 24 of all are trained on.
const EACH: usize = 12;
/// More than any run here takes.
const PLENTY: &str = "8GiB";
/// Undisturbed sittings in which a run has to end once it is left alone.
const LAST_SITTINGS: usize = 3;

/// What was done, and how it was compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    runs: usize,
    /// Recovered from, as the logs say.
    recoveries: usize,
    /// At a point inside a write.
    kills_inside: usize,
    /// From outside, at any moment.
    kills: usize,
    /// Ended with a sentence, and continued.
    refusals: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.runs += more.runs;
        self.recoveries += more.recoveries;
        self.kills_inside += more.kills_inside;
        self.kills += more.kills;
        self.refusals += more.refusals;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, recoveries, kills_inside, kills, refusals } = self;
        write!(
            formatter,
            "{runs} runs with {recoveries} recoveries, {kills_inside} kills inside a write, {kills} from outside, {refusals} \
             refusals, equal in bits"
        )
    }
}

struct Place<'a> {
    case: &'a Case,
    folder: PathBuf,
    wrong: Option<&'a str>,
}

/// Runs a case: the undisturbed run, and each disturbed one compared with it. `wrong` is added to every step of the
/// disturbed ones.
///
/// # Errors
/// What was not as promised.
pub(crate) fn attack(case: &Case, wrong: Option<&str>) -> Result<Counts, String> {
    let folder = tempdir().map_err(|error| error.to_string())?;
    picture_folder(&folder.path().join("data"), EACH);
    let place = Place { case, folder: folder.path().to_path_buf(), wrong };
    let straight = place.undisturbed("straight", &case.flags)?;
    let mut counts = Counts::default();
    for (index, disturbance) in case.disturbances.iter().enumerate() {
        let name = format!("disturbed-{index}");
        let told = |reason: String| format!("run {index}, {disturbance}: {reason}");
        place.disturbed(&name, disturbance, &straight, &mut counts).map_err(told)?;
        place.compare(&straight, &place.folder.join(&name), &mut counts).map_err(told)?;
        fs::remove_dir_all(place.folder.join(&name)).map_err(|error| error.to_string())?;
    }
    Ok(counts)
}

impl Place<'_> {
    fn command(&self) -> Command {
        let mut command = kindling();
        command.env_remove("RUST_BACKTRACE").env_remove("KINDLING_FAULT").env_remove("KINDLING_KILL");
        command.args(if self.case.gan { &["gan", "train"][..] } else { &["train"] }).arg("--quiet");
        command
    }

    fn start(&self, run: &Path, flags: &Flags) -> Command {
        let mut command = self.command();
        command.args(["--device", "cpu", "--data"]).arg(self.folder.join("data")).arg("--out").arg(run);
        command.args(flags.to_string().split_whitespace());
        command
    }

    fn undisturbed(&self, name: &str, flags: &Flags) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        match run(&mut self.start(&path, flags), &End::Itself, &self.folder)? {
            (Ended::Code(0), _) => Ok(path),
            (_, said) => Err(format!("undisturbed, it ends with {said}")),
        }
    }

    /// One sitting after the other until the run has ended.
    fn disturbed(
        &self,
        name: &str,
        disturbance: &Disturbance,
        straight: &Path,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let path = self.folder.join(name);
        let peak = json_of(&straight.join("metrics.json"))["peak_memory_bytes"].as_u64();
        let budget = disturbance.budget.zip(peak);
        let budget = budget.map(|(share, peak)| budget_with_room_for(peak * share / 100).to_string());
        let mut left_alone = 0;
        let mut sittings = disturbance.sittings.iter();
        counts.runs += 1;
        while left_alone < LAST_SITTINGS {
            let sitting = sittings.next();
            left_alone += usize::from(sitting.is_none());
            let alone = sitting.is_none();
            // A budget that was too small is not given again.
            let budget = budget.as_ref().map(|budget| if alone { PLENTY } else { budget.as_str() });
            let mut command = if path.join("config.toml").is_file() {
                let mut command = self.command();
                command.arg("--resume").arg(&path);
                command
            } else {
                let _ = fs::remove_dir_all(&path);
                self.start(&path, &self.case.flags)
            };
            if let Some(budget) = budget {
                command.args(["--memory-budget", budget]);
            }
            let faults = sitting.map(|sitting| sitting.faults.clone()).into_iter();
            let faults = faults.chain(self.wrong.map(|wrong| format!("wrong@step=every,{wrong}")));
            let faults = faults.filter(|fault| !fault.is_empty()).collect::<Vec<_>>().join(";");
            command.env("KINDLING_FAULT", &faults);
            let end = sitting.map_or(End::Itself, |sitting| sitting.end.clone());
            match run(&mut command, &end, &self.folder)? {
                (Ended::Code(0), _) => return Ok(()),
                (Ended::Killed, _) if matches!(end, End::Point(_)) => counts.kills_inside += 1,
                (Ended::Killed, _) => counts.kills += 1,
                (Ended::Code(1), said) => {
                    let sentence = sentence_of(&said).map_err(|fault| format!("{fault}\n{said}"))?;
                    counts.refusals += 1;
                    if faults.is_empty() && budget.is_none_or(|budget| budget == PLENTY) {
                        return Err(format!("left alone, it ends with: {sentence}"));
                    }
                    nothing_is_lost(&path).map_err(|lost| format!("{lost}, after: {sentence}"))?;
                }
                (Ended::Code(code), said) => return Err(format!("it ended with code {code}\n{said}")),
            }
        }
        Err(format!("left alone {LAST_SITTINGS} times, it does not end"))
    }

    fn compare(&self, straight: &Path, run: &Path, counts: &mut Counts) -> Result<(), String> {
        counts.recoveries += events(run).iter().filter(|event| event["event"] == "recovered").count();
        if let Ok(mut left) = fs::read_dir(run.join("checkpoints"))
            && left.any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with('.')))
        {
            return Err("something unfinished is left among the checkpoints".into());
        }
        same_bits(straight, run)
    }
}

/// Whether the newest checkpoint is that of the last step in the log, as it must be after an end with a sentence.
fn nothing_is_lost(run: &Path) -> Result<(), String> {
    if !run.join("events.jsonl").is_file() {
        return Ok(());
    }
    let of_steps = |event: &Value| matches!(event["event"].as_str(), Some("step" | "iteration" | "skipped"));
    let last = events(run).into_iter().filter(of_steps).filter_map(|event| event["step"].as_u64()).max();
    let Some(last) = last else { return Ok(()) };
    let newest = if run.join("checkpoints").is_dir() { checkpoints(run).pop() } else { None };
    let name = newest.and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    let expected = format!("step-{last:08}");
    if name.as_ref() == Some(&expected) {
        Ok(())
    } else {
        Err(format!("step {last} is done, but the newest checkpoint is {name:?}"))
    }
}
