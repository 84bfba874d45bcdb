//! Checkpoints: folders that are there whole or not at all.
//!
//! A checkpoint is `checkpoints/step-00000120/` with `weights.safetensors` (parameters and running statistics),
//! `optimizer.safetensors`, `average.safetensors` where an average of the weights is kept, and `state.toml` (position, best
//! score, the optimizer's counters, what is known about memory, and the SHA-256 of the others). A kill, a full disk or a power cut while one is written leaves the one before it intact. The last two are
//! kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use kindling_layers::Classifier;
use kindling_layers::tensors::{self, Tensors};
use kindling_runs::{RunError, remove_unfinished_folders, write_folder_atomically};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::TrainError;
use crate::learner::Saved;
use crate::loss_scale::LossScale;
use crate::optimizer::Counters;
use crate::policy::Policy;
use crate::state::{Progress, TrainState};

const WEIGHTS: &str = "weights.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const AVERAGE: &str = "average.safetensors";
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
    pub(crate) fn save<M: Classifier>(&self, state: &TrainState<M>) -> Result<PathBuf, TrainError> {
        let step = state.progress.step;
        let name = format!("{PREFIX}{step:08}");
        let target = self.folder.join(&name);
        let saved = state.learner.save().map_err(|text| TrainError::of_device(Some(step), 0, &text))?;
        let Saved { weights, moments, average, counters } = saved;

        let write = || -> Result<PathBuf, RunError> {
            let mut files = vec![(WEIGHTS, document(&weights, &target)?), (OPTIMIZER, document(&moments, &target)?)];
            if let Some(average) = &average {
                files.push((AVERAGE, document(average, &target)?));
            }
            let sha256 = files.iter().map(|(file, bytes)| (file.to_string(), hex(bytes))).collect();
            let contents = StateFile {
                model: self.model.clone(),
                progress: state.progress.clone(),
                policy: Some(state.policy.clone()),
                loss_scale: Some(state.loss_scale),
                sha256,
                counters,
            };
            let text = toml::to_string(&contents)
                .map_err(|error| RunError::Inexpressible { path: target.join(STATE), reason: error.to_string() })?;
            files.push((STATE, text.into_bytes()));
            write_folder_atomically(&self.folder, &name, &files)
        };
        write().map_err(|source| {
            let remains = match self.list().last() {
                Some(path) => format!("{} is intact", path.display()),
                None => "there was none before it".to_string(),
            };
            TrainError::Save { step, remains, cause: source }
        })?;
        self.prune();
        Ok(target)
    }

    /// Removes all but the last two and what interrupted writes left. Failing to is no reason to stop a run.
    fn prune(&self) {
        let all = self.list();
        for old in all.iter().take(all.len().saturating_sub(KEPT)) {
            let _ = fs::remove_dir_all(old);
        }
        remove_unfinished_folders(&self.folder);
    }

    /// Reads the newest checkpoint into a state made for the same run.
    ///
    /// # Errors
    /// [`TrainError::Checkpoint`] if there is none, or if it is damaged or another model's.
    pub(crate) fn load<M: Classifier>(
        &self,
        state: TrainState<M>,
        device: &Device,
    ) -> Result<TrainState<M>, TrainError> {
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

    fn read<M: Classifier>(&self, path: &Path, state: TrainState<M>, device: &Device) -> Result<TrainState<M>, String> {
        let text = fs::read_to_string(path.join(STATE)).map_err(|error| format!("{STATE} is unreadable: {error}"))?;
        let contents: StateFile =
            toml::from_str(&text).map_err(|error| format!("{STATE} is damaged: {}", error.message()))?;
        if contents.model != self.model {
            return Err(format!("it holds a {}, and this run trains a {}", contents.model, self.model));
        }
        let read = |file: &str| -> Result<Tensors, String> {
            let bytes = fs::read(path.join(file)).map_err(|error| format!("{file} is unreadable: {error}"))?;
            if contents.sha256.get(file) != Some(&hex(&bytes)) {
                return Err(format!("{file} is damaged (its checksum does not match)"));
            }
            tensors::from_bytes(&bytes).map_err(|error| format!("{file} is damaged: {error}"))
        };
        let average = contents.sha256.contains_key(AVERAGE).then(|| read(AVERAGE)).transpose()?;
        let (weights, moments) = (read(WEIGHTS)?, read(OPTIMIZER)?);
        let saved = Saved { weights, moments, average, counters: contents.counters.clone() };
        let learner = state.learner.restore(saved, device)?;
        let policy = contents.policy.unwrap_or(state.policy);
        let loss_scale = contents.loss_scale.unwrap_or(state.loss_scale);
        Ok(TrainState { learner, policy, loss_scale, progress: contents.progress })
    }
}

fn document(tensors: &Tensors, path: &Path) -> Result<Vec<u8>, RunError> {
    tensors::to_bytes(tensors, None).map_err(|reason| RunError::Inexpressible { path: path.to_path_buf(), reason })
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
