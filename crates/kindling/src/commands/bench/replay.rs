//! Rows from what an earlier measurement or run has left.

use std::path::Path;

use anyhow::{Result, bail};
use kindling_files as files;
use kindling_runs::bench::{Configuration, Protocol, Rows, What};
use kindling_runs::{Environment, RunDir};
use kindling_trainer::OptimizerConfig;

use crate::budget::MemoryBudget;
use crate::config::RunConfig;
use crate::threads;

/// The rows of a file with their own protocols, or the training step of a run with this one.
pub(super) fn rows(path: &Path, protocol: Protocol) -> Result<Vec<(Configuration, Protocol)>> {
    if path.is_dir() {
        return Ok(vec![(of_run(path)?, protocol)]);
    }
    let rows = Rows::read(path)?.rows;
    if rows.is_empty() {
        bail!("{} holds no rows to replay", path.display());
    }
    for row in &rows {
        if row.configuration.hash() != row.configuration_hash {
            bail!(
                "the hash of `{}` in {} is not that of its configuration: the file was changed by hand",
                row.configuration.label(),
                path.display()
            );
        }
    }
    Ok(rows.into_iter().map(|row| (row.configuration, row.protocol)).collect())
}

/// A training row that computes what the steps of a run did. Its images are random, and its loader is not timed.
fn of_run(path: &Path) -> Result<Configuration> {
    let run = RunDir::open(path)?;
    let config = RunConfig::of(&run)?;
    let environment: Option<Environment> = files::read(&run.environment(), files::MAX_TEXT_BYTES)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let train = &config.train;
    let device = match config.device.as_str() {
        "auto" if environment.as_ref().is_none_or(|it| it.device.device == "cpu") => "cpu".to_string(),
        "auto" => "cuda:0".to_string(),
        chosen => chosen.to_string(),
    };
    Ok(Configuration {
        what: What::Train,
        model: config.zoo_model()?.key(),
        image_size: config.data.preprocess.size,
        channels: config.data.preprocess.channels,
        classes: config.data.classes.len(),
        batch_size: train.batch_size,
        micro_batch: train.micro_batch,
        norm_group: train.ghost_batch_size,
        precision: train.precision.to_string(),
        recompute: train.activation_checkpointing.map_or("auto".to_string(), |level| level.to_string()),
        optimizer: match train.optimizer {
            OptimizerConfig::AdamW { .. } => "adamw".to_string(),
            OptimizerConfig::Sgd { .. } => "sgd".to_string(),
        },
        memory_budget: match config.memory_budget {
            None => None,
            Some(MemoryBudget::Bytes(bytes)) => Some(bytes),
            Some(share @ MemoryBudget::Percent(_)) => {
                bail!("the run had {share} of its machine's memory, which is not known here")
            }
        },
        seed: train.seed,
        device,
        threads: environment.and_then(|environment| environment.threads).unwrap_or_else(threads::usual),
    })
}
