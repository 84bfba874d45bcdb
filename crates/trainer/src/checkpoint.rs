//! Checkpoints: folders that are there whole or not at all.
//!
//! A checkpoint is `checkpoints/step-00000120/` with `weights.safetensors` (parameters and running statistics),
//! `optimizer.safetensors`, `average.safetensors` where an average of the weights is kept, and `state.toml` (position, best
//! score, the optimizer's counters, what is known about memory, and the SHA-256 of the others). A kill, a full disk or a power cut while one is written leaves the one before it intact. The last two are
//! kept.

use kindling_files as files;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;
use kindling_layers::tensors::{self, Tensors};
use kindling_memory::panic_message;
use kindling_runs::{NewFolder, RunError, tidy_folders, write_folder_atomically};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::TrainError;
use crate::fault::{Faults, Phase};
use crate::learner::{AVERAGE, Learner, OPTIMIZER, Parts, Saved, WEIGHTS};
use crate::loss_scale::LossScale;
use crate::optimizer::Counters;
use crate::parts::{self, OfHost, Unwritten};
use crate::policy::Policy;
use crate::recovery::{Recovery, abandon_graph};
use crate::state::{Progress, TrainState};

/// What learns in a run, as far as a checkpoint keeps it.
pub(crate) trait Kept: Sized {
    /// The files of a checkpoint, which are read from the device while they are written.
    ///
    /// # Errors
    /// What the device says.
    fn parts(&self) -> Result<Parts<'_>, String>;

    /// Other numbers by name.
    fn numbers(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// Everything in host memory at once.
    ///
    /// # Errors
    /// What the device says.
    fn store(&self) -> Result<Stored, String> {
        let mut stored = Stored { numbers: self.numbers(), ..Stored::default() };
        for (name, part) in self.parts()? {
            let (tensors, counters) = crate::parts::to_host(part.as_ref())?;
            stored.files.insert(name, tensors);
            stored.counters.extend(counters);
        }
        Ok(stored)
    }

    /// This with a stored state.
    ///
    /// # Errors
    /// A sentence about what does not fit.
    fn restored(self, stored: Stored, device: &Device) -> Result<Self, String>;

    /// Gives back what a step that failed has left on the device, the graphs of its forward passes included.
    fn make_room(&self, device: &Device);
}

/// What a checkpoint holds besides position and policy: documents of tensors by the name of their file, the optimizers'
/// counters and other numbers by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stored {
    pub(crate) files: BTreeMap<String, Tensors>,
    pub(crate) counters: Counters,
    pub(crate) numbers: BTreeMap<String, f64>,
}

impl Stored {
    /// Takes out what [`Learner::parts`] put in.
    ///
    /// # Errors
    /// A sentence if there is none of it.
    pub(crate) fn take(&mut self, prefix: &str) -> Result<Saved, String> {
        let mut file = |name: &str| self.files.remove(&format!("{prefix}{name}"));
        let missing = |name: &str| format!("it has no {prefix}{name}");
        let weights = file(WEIGHTS).ok_or_else(|| missing(WEIGHTS))?;
        let moments = file(OPTIMIZER).ok_or_else(|| missing(OPTIMIZER))?;
        let average = file(AVERAGE);
        let counters = self.counters.iter();
        let counters = counters.filter_map(|(name, value)| Some((name.strip_prefix(prefix)?.to_string(), *value)));
        Ok(Saved { weights, moments, average, counters: counters.collect() })
    }
}

impl<M: Module> Kept for Learner<M> {
    fn parts(&self) -> Result<Parts<'_>, String> {
        Ok(Learner::parts(self, ""))
    }

    fn restored(self, mut stored: Stored, device: &Device) -> Result<Self, String> {
        self.restore(stored.take("")?, device)
    }

    fn make_room(&self, device: &Device) {
        abandon_graph(&self.model, device);
    }
}

/// The state of a run in host memory.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    stored: Stored,
    policy: Policy,
    loss_scale: LossScale,
    pub(crate) progress: Progress,
}

impl Snapshot {
    /// Reads a state to the host.
    ///
    /// # Errors
    /// What the device says.
    pub(crate) fn of<L: Kept>(state: &TrainState<L>) -> Result<Self, TrainError> {
        let progress = state.progress.clone();
        let stored = state.learner.store().map_err(|text| TrainError::of_device(Some(progress.step), 0, &text))?;
        Ok(Self { stored, policy: state.policy.clone(), loss_scale: state.loss_scale, progress })
    }
}

/// What a checkpoint holds besides tensors.
struct Around<'a> {
    counters: Counters,
    numbers: BTreeMap<String, f64>,
    policy: &'a Policy,
    loss_scale: LossScale,
    progress: &'a Progress,
}

const STATE: &str = "state.toml";
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
    model: String,
    progress: Progress,
    #[serde(default)]
    policy: Option<Policy>,
    #[serde(default)]
    loss_scale: Option<LossScale>,
    sha256: BTreeMap<String, String>,
    #[serde(default)]
    counters: Counters,
    #[serde(default)]
    numbers: BTreeMap<String, f64>,
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

    /// Writes the checkpoint of a state and removes those beyond the last two.
    ///
    /// # Errors
    /// [`TrainError::Save`]; the checkpoints that were there are still there.
    pub(crate) fn save<L: Kept>(&self, state: &TrainState<L>) -> Result<PathBuf, TrainError> {
        let parts = state.learner.parts();
        let parts = parts.map_err(|text| TrainError::of_device(Some(state.progress.step), 0, &text))?;
        let around = Around {
            counters: Counters::new(),
            numbers: state.learner.numbers(),
            policy: &state.policy,
            loss_scale: state.loss_scale,
            progress: &state.progress,
        };
        self.write_parts(parts, around)
    }

    /// Writes a checkpoint of what is in host memory, and removes those beyond the last two.
    ///
    /// # Errors
    /// [`TrainError::Save`]; the checkpoints that were there are still there.
    pub(crate) fn write(&self, snapshot: &Snapshot) -> Result<PathBuf, TrainError> {
        let Snapshot { stored: Stored { files, counters, numbers }, policy, loss_scale, progress } = snapshot;
        let mut parts = Parts::new();
        for (name, tensors) in files {
            parts.insert(name.clone(), Box::new(OfHost(Cow::Borrowed(tensors))));
        }
        let (counters, numbers) = (counters.clone(), numbers.clone());
        self.write_parts(parts, Around { counters, numbers, policy, loss_scale: *loss_scale, progress })
    }

    fn write_parts(&self, parts: Parts<'_>, around: Around<'_>) -> Result<PathBuf, TrainError> {
        let Around { mut counters, numbers, policy, loss_scale, progress } = around;
        let step = progress.step;
        let name = format!("{PREFIX}{step:08}");
        let target = self.folder.join(&name);
        let mut refused = None;

        let fill = |folder: &NewFolder| -> Result<(), RunError> {
            let inexpressible = |reason: String| RunError::Inexpressible { path: target.clone(), reason };
            let mut sha256 = BTreeMap::new();
            for (file, part) in parts {
                let mut sum = Sha256::new();
                folder.file(&file, |out| {
                    let written = parts::write(part.as_ref(), None, &mut Summed { out, sum: &mut sum });
                    counters.extend(written.map_err(|unwritten| match unwritten {
                        Unwritten::File(error) => error,
                        Unwritten::Device(text) => io::Error::other(refused.insert(text).clone()),
                    })?);
                    Ok(())
                })?;
                sha256.insert(file, hex(sum));
            }
            let contents = StateFile {
                model: self.model.clone(),
                progress: progress.clone(),
                policy: Some(policy.clone()),
                loss_scale: Some(loss_scale),
                sha256,
                counters,
                numbers,
            };
            let text = toml::to_string(&contents).map_err(|error| inexpressible(error.to_string()))?;
            folder.file(STATE, |out| out.write_all(text.as_bytes()))
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

    /// Reads the newest checkpoint into a state made for the same run.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if there is none, or if it is damaged or another model's.
    pub(crate) fn load<L: Kept>(&self, state: TrainState<L>, device: &Device) -> Result<TrainState<L>, TrainError> {
        tidy_folders(&self.folder);
        let all = self.list();
        let Some(newest) = all.last() else {
            let reason =
                "the run was stopped before its first checkpoint; start it again, in another folder or after removing this one"
                    .to_string();
            return Err(TrainError::Checkpoint { path: self.folder.clone(), reason });
        };
        self.read(newest, state, device).map_err(|mut reason| {
            if let Some(older) = all.len().checked_sub(2).and_then(|index| all.get(index)) {
                let older = older.file_name().unwrap_or_default().to_string_lossy();
                reason.push_str(&format!("; remove that folder to resume from {older}"));
            }
            TrainError::Checkpoint { path: newest.clone(), reason }
        })
    }

    fn read<L: Kept>(&self, path: &Path, state: TrainState<L>, device: &Device) -> Result<TrainState<L>, String> {
        let text = files::read_to_string(&path.join(STATE), files::MAX_TEXT_BYTES)
            .map_err(|error| format!("{STATE} is unreadable: {error}"))?;
        let contents: StateFile =
            toml::from_str(&text).map_err(|error| format!("{STATE} is damaged: {}", error.message()))?;
        if contents.model != self.model {
            return Err(format!("it holds a {}, and this run trains a {}", contents.model, self.model));
        }
        let read = |file: &str| -> Result<Tensors, String> {
            let bytes = files::read(&path.join(file), files::MAX_WEIGHTS_BYTES)
                .map_err(|error| format!("{file} is unreadable: {error}"))?;
            if contents.sha256.get(file) != Some(&hex(Sha256::new_with_prefix(&bytes))) {
                return Err(format!("{file} is damaged (its checksum does not match)"));
            }
            tensors::from_bytes(&bytes).map_err(|error| format!("{file} is damaged: {error}"))
        };
        let mut files = BTreeMap::new();
        for file in contents.sha256.keys() {
            files.insert(file.clone(), read(file)?);
        }
        let stored = Stored { files, counters: contents.counters.clone(), numbers: contents.numbers.clone() };
        let learner = state.learner.restored(stored, device)?;
        let policy = contents.policy.unwrap_or(state.policy);
        let loss_scale = contents.loss_scale.unwrap_or(state.loss_scale);
        Ok(TrainState { learner, policy, loss_scale, progress: contents.progress })
    }
}

/// Saves a checkpoint. Reading tensors from a device may need memory too; what is read stays as it is.
///
/// # Errors
/// As [`Checkpoints::save`], after a few tries.
pub(crate) fn save_whatever_happens<L: Kept>(
    checkpoints: &Checkpoints,
    state: &TrainState<L>,
    faults: &Faults,
    device: &Device,
    mut recovered: impl FnMut(Recovery),
) -> Result<PathBuf, TrainError> {
    const TRIES: usize = 3;
    let step = state.progress.step;
    let mut tries = 0;
    loop {
        tries += 1;
        let began = Instant::now();
        let attempt = || {
            faults.at(step, Phase::Checkpoint, 0);
            checkpoints.save(state)
        };
        let outcome = catch_unwind(AssertUnwindSafe(attempt))
            .unwrap_or_else(|panic| Err(TrainError::of_device(Some(step), 0, &panic_message(panic.as_ref()))));
        let reason = match outcome {
            Err(TrainError::OutOfMemory { reason, .. }) if tries < TRIES => reason,
            done => return done,
        };
        // What fills the memory may be the step that this checkpoint is to outlive.
        state.learner.make_room(device);
        let (lever, seconds) = ("freed what was cached".to_string(), began.elapsed().as_secs_f64());
        recovered(Recovery { reason, lever, seconds });
    }
}

/// A file and the checksum of what is written to it.
struct Summed<'a> {
    out: &'a mut File,
    sum: &'a mut Sha256,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn hex(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
