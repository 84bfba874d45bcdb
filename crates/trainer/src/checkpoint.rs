//! Checkpoints: folders that are there whole or not at all.
//!
//! A checkpoint is `checkpoints/step-00000120/` with `weights.safetensors` (parameters and running statistics),
//! `optimizer.safetensors`, `average.safetensors` where an average of the weights is kept, `events.jsonl` (the last lines of
//! the run's log, as long as the disk may not have them), `state.toml` (position, best score, the optimizer's counters, what
//! is known about memory) and `SHA256SUMS` of all of them. A kill, a full disk or a power cut while one is written leaves
//! the one before it intact. The last two are kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use burn::tensor::Device;
use kindling_runs::{LogMark, NewFolder, RunError, tidy_folders, write_folder_atomically};
use serde::{Deserialize, Serialize};

use crate::checkpointable::Checkpointable;
use crate::error::TrainError;
use crate::fault::{Faults, Phase};
use crate::loss_scale::LossScale;
use crate::manifest::{Sums, read_text};
use crate::model_snapshot::ModelSnapshot;
use crate::parts::{self, Counters, Parts, Unwritten};
use crate::policy::Policy;
use crate::recovery::{Attempts, Lack, Recovery, until_it_fits};
use crate::state::{Progress, TrainState};

/// The state of a run in host memory.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    model: ModelSnapshot,
    policy: Policy,
    loss_scale: LossScale,
    pub(crate) progress: Progress,
    /// Where the log stood.
    log: LogMark,
}

impl Snapshot {
    /// Reads a state to the host.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn of<L: Checkpointable>(state: &TrainState<L>, log: LogMark) -> Result<Self, TrainError> {
        let lost = |text: String| TrainError::of_device(Some(state.progress().step), 0, &text);
        Ok(Self::with(state.model_state().snapshot().map_err(lost)?, state, log))
    }

    /// A state whose networks are in host memory already.
    pub(crate) fn with<L>(model: ModelSnapshot, state: &TrainState<L>, log: LogMark) -> Self {
        let (policy, progress) = (state.policy().clone(), state.progress().clone());
        Self { model, policy, loss_scale: state.loss_scale(), progress, log }
    }
}

/// What a checkpoint holds besides tensors.
struct Around<'a> {
    counters: Counters,
    numbers: BTreeMap<String, f64>,
    policy: &'a Policy,
    loss_scale: LossScale,
    progress: &'a Progress,
    log: &'a LogMark,
}

const STATE: &str = "state.toml";
const LOG: &str = "events.jsonl";
/// How the files of a checkpoint are laid out: 1 had its sums, and none of itself, in `state.toml`.
const FORMAT: u32 = 2;
/// The most updates of one network in a step: of two networks, one may take more than one.
pub const MOST_UPDATES: usize = 1000;
const PREFIX: &str = "step-";
const KEPT: usize = 2;

/// The checkpoints of one run.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    folder: PathBuf,
    model: String,
}

#[derive(Serialize, Deserialize)]
struct StateFile {
    #[serde(default = "first_format")]
    format: u32,
    model: String,
    /// Lines of the run's log; see [`LogMark`].
    #[serde(default)]
    log_lines: Option<u64>,
    progress: Progress,
    #[serde(default)]
    policy: Option<Policy>,
    #[serde(default)]
    loss_scale: Option<LossScale>,
    /// Of the first format.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sha256: BTreeMap<String, String>,
    #[serde(default)]
    counters: Counters,
    #[serde(default)]
    numbers: BTreeMap<String, f64>,
}

fn first_format() -> u32 {
    1
}

impl StateFile {
    /// Checks every number that is not the configuration's.
    fn check(&self) -> Result<(), String> {
        let step = self.progress.step;
        self.progress.check()?;
        if let Some(policy) = &self.policy {
            policy.check()?;
        }
        if let Some(loss_scale) = &self.loss_scale {
            loss_scale.check(step)?;
        }
        let most = i64::try_from(step.saturating_mul(MOST_UPDATES as u64)).unwrap_or(i64::MAX);
        if let Some((name, value)) = self.counters.iter().find(|(_, value)| !(0..=most).contains(*value)) {
            return Err(format!("the optimizer's counter {name} is {value} after {step} steps"));
        }
        match self.numbers.iter().find(|(_, value)| !value.is_finite()) {
            Some((name, value)) => Err(format!("{name} is {value}, which is no finite number")),
            None => Ok(()),
        }
    }
}

/// A checkpoint that was read.
pub(crate) struct Loaded<L> {
    pub(crate) state: TrainState<L>,
    /// Where the log stood; none in a checkpoint of an older release.
    pub(crate) log: Option<LogMark>,
}

impl Checkpoints {
    /// The checkpoints in `folder`, which need not exist yet, of runs of the model called `model`.
    pub fn new(folder: PathBuf, model: &str) -> Self {
        Self { folder, model: model.to_string() }
    }

    /// The complete checkpoints, oldest first.
    pub fn list(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut found: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
            .map(|entry| entry.path())
            .collect();
        found.sort();
        found
    }

    /// The step of the newest complete checkpoint.
    pub fn newest_step(&self) -> Option<u64> {
        self.list().last()?.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok()
    }

    /// Writes the checkpoint of a state and removes those beyond the last two.
    ///
    /// # Errors
    /// [`TrainError::Save`]; the checkpoints that were there are still there.
    pub(crate) fn save<L: Checkpointable>(&self, state: &TrainState<L>, log: LogMark) -> Result<PathBuf, TrainError> {
        let parts = state.model_state().parts();
        let parts = parts.map_err(|text| TrainError::of_device(Some(state.progress().step), 0, &text))?;
        let around = Around {
            counters: Counters::new(),
            numbers: state.model_state().numbers(),
            policy: state.policy(),
            loss_scale: state.loss_scale(),
            progress: state.progress(),
            log: &log,
        };
        self.write_parts(parts, around)
    }

    /// Writes a checkpoint of what is in host memory, and removes those beyond the last two.
    ///
    /// # Errors
    /// [`TrainError::Save`]; the checkpoints that were there are still there.
    pub(crate) fn write(&self, snapshot: &Snapshot) -> Result<PathBuf, TrainError> {
        let Snapshot { model: ModelSnapshot { files, counters, numbers }, policy, loss_scale, progress, log } =
            snapshot;
        let mut parts = Parts::default();
        for (name, tensors) in files {
            parts.add(name, Cow::Borrowed(tensors));
        }
        let (counters, numbers) = (counters.clone(), numbers.clone());
        self.write_parts(parts, Around { counters, numbers, policy, loss_scale: *loss_scale, progress, log })
    }

    fn write_parts(&self, parts: Parts<'_>, around: Around<'_>) -> Result<PathBuf, TrainError> {
        let Around { mut counters, numbers, policy, loss_scale, progress, log } = around;
        let step = progress.step;
        let name = name_of(step);
        let target = self.folder.join(&name);
        let mut refused = None;

        let fill = |folder: &NewFolder| -> Result<(), RunError> {
            let inexpressible = |reason: String| RunError::Inexpressible { path: target.clone(), reason };
            let mut sums = Sums::default();
            for (file, part) in parts.0 {
                sums.file(folder, &file, |out| {
                    let written = parts::write(part.as_ref(), None, out);
                    counters.extend(written.map_err(|unwritten| match unwritten {
                        Unwritten::File(error) => error,
                        Unwritten::Device(text) => io::Error::other(refused.insert(text).clone()),
                    })?);
                    Ok(())
                })?;
            }
            let lines: String = log.recent.iter().map(|line| format!("{line}\n")).collect();
            sums.file(folder, LOG, |out| out.write_all(lines.as_bytes()))?;
            let contents = StateFile {
                format: FORMAT,
                model: self.model.clone(),
                log_lines: Some(log.lines),
                progress: progress.clone(),
                policy: Some(policy.clone()),
                loss_scale: Some(loss_scale),
                sha256: BTreeMap::new(),
                counters,
                numbers,
            };
            let text = toml::to_string(&contents).map_err(|error| inexpressible(error.to_string()))?;
            sums.file(folder, STATE, |out| out.write_all(text.as_bytes()))?;
            sums.write(folder)
        };
        let written = write_folder_atomically(&self.folder, &name, fill);
        if let Some(text) = refused {
            return Err(TrainError::of_device(Some(step), 0, &text));
        }
        written.map_err(|source| {
            let remains = match self.list().last() {
                Some(path) => format!("{} is intact", path.display()),
                None => "there was none before it".to_string(),
            };
            TrainError::Save { step, remains, cause: source }
        })?;
        self.prune();
        Ok(target)
    }

    /// Removes all but the last two. Failing to is no reason to stop a run.
    fn prune(&self) {
        let all = self.list();
        for old in all.iter().take(all.len().saturating_sub(KEPT)) {
            let _ = fs::remove_dir_all(old);
        }
    }

    /// Reads the newest checkpoint, if there is one, into a state made for the same run.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if it is damaged or another model's.
    pub(crate) fn load<L: Checkpointable>(
        &self,
        state: TrainState<L>,
        device: &Device,
    ) -> Result<Option<Loaded<L>>, TrainError> {
        tidy_folders(&self.folder);
        let all = self.list();
        let Some(newest) = all.last() else { return Ok(None) };
        self.read(newest, state, device).map(Some).map_err(|mut reason| {
            if let Some(older) = all.len().checked_sub(2).and_then(|index| all.get(index)) {
                let older = older.file_name().unwrap_or_default().to_string_lossy();
                reason.push_str(&format!("; remove that folder to resume from {older}"));
            }
            TrainError::Checkpoint { path: newest.clone(), reason }
        })
    }

    /// Reads the checkpoint of a step, which another process of the run has found, and changes no file.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if it is not there, is damaged or another model's.
    pub(crate) fn load_step<L: Checkpointable>(
        &self,
        step: u64,
        state: TrainState<L>,
        device: &Device,
    ) -> Result<TrainState<L>, TrainError> {
        let path = self.folder.join(name_of(step));
        let read = self.read(&path, state, device);
        read.map(|loaded| loaded.state).map_err(|reason| TrainError::Checkpoint { path, reason })
    }

    fn read<L: Checkpointable>(&self, path: &Path, state: TrainState<L>, device: &Device) -> Result<Loaded<L>, String> {
        let damaged = |reason: &str| format!("{STATE} is damaged: {reason}");
        let sums = Sums::read(path)?;
        let bytes = match &sums {
            Some(sums) => sums.contents(path, STATE)?,
            None => read_text(path, STATE)?,
        };
        let text = str::from_utf8(&bytes).map_err(|_| damaged("it is no text"))?;
        let contents: StateFile = toml::from_str(text).map_err(|error| damaged(error.message()))?;
        if contents.model != self.model {
            return Err(format!("it holds a {}, and this run trains a {}", contents.model, self.model));
        }
        let sums = match (sums, contents.format) {
            (Some(sums), FORMAT) => sums,
            (None, 1) => Sums::of(contents.sha256.clone()),
            (None, FORMAT) => return Err("SHA256SUMS is not there".to_string()),
            (_, other) => return Err(format!("its format is {other}, and this release knows up to {FORMAT}")),
        };
        contents.check().map_err(|reason| damaged(&reason))?;
        let mut files = BTreeMap::new();
        for file in sums.names().filter(|name| ![STATE, LOG].contains(name)) {
            files.insert(file.to_string(), sums.tensors(path, file)?);
        }
        let log = match contents.log_lines {
            Some(lines) if contents.format == FORMAT => {
                let text = String::from_utf8(sums.contents(path, LOG)?);
                let text = text.map_err(|_| format!("{LOG} is damaged: it is no text"))?;
                Some(LogMark { lines, recent: text.lines().map(str::to_string).collect() })
            }
            _ => None,
        };
        let snapshot = ModelSnapshot { files, counters: contents.counters, numbers: contents.numbers };
        let StateFile { policy, loss_scale, progress, .. } = contents;
        Ok(Loaded { state: state.restored(snapshot, policy, loss_scale, progress, device)?, log })
    }
}

/// The folder of a step.
fn name_of(step: u64) -> String {
    format!("{PREFIX}{step:08}")
}

/// Saves a checkpoint. Reading tensors from a device may need memory too; what is read stays as it is.
///
/// # Errors
/// As [`Checkpoints::save`], after a few tries.
pub(crate) fn save_whatever_happens<L: Checkpointable>(
    checkpoints: &Checkpoints,
    state: &TrainState<L>,
    log: &LogMark,
    faults: &Faults,
    device: &Device,
    recovered: impl FnMut(&Recovery),
) -> Result<PathBuf, TrainError> {
    until_it_fits(Saving { checkpoints, state, log, faults, device, tries: 0 }, recovered)
}

/// How often a checkpoint is tried for lack of memory.
const TRIES: usize = 3;

/// A checkpoint that is being saved.
struct Saving<'a, L> {
    checkpoints: &'a Checkpoints,
    state: &'a TrainState<L>,
    log: &'a LogMark,
    faults: &'a Faults,
    device: &'a Device,
    tries: usize,
}

impl<L: Checkpointable> Attempts for Saving<'_, L> {
    type Done = PathBuf;

    fn attempt(&mut self) -> Result<PathBuf, TrainError> {
        self.tries += 1;
        let step = self.state.progress().step;
        TrainError::caught(Some(step), 0, || {
            self.faults.at(step, Phase::Checkpoint, 0);
            self.checkpoints.save(self.state, self.log.clone())
        })
    }

    fn lever(&mut self, _lack: &Lack) -> Option<String> {
        (self.tries < TRIES).then(|| "freed what was cached".to_string())
    }

    fn make_room(&self) {
        // What fills the memory may be the step that this checkpoint is to outlive.
        self.state.model_state().make_room(self.device);
    }
}
