//! The loaders of a run.

use std::sync::Arc;

use anyhow::Result;
use kindling_data::{Augment, Dataset, Loader, LoaderConfig, Sampling, Source, Split};

use crate::config::RunConfig;

/// The training samples, shuffled and augmented.
pub(crate) fn training(config: &RunConfig, dataset: &Dataset) -> Result<Loader> {
    let loader = LoaderConfig {
        shuffle: true,
        augment: config.data.augment.clone(),
        sampling: config.data.sampling,
        ..common(config)
    };
    Ok(Loader::new(dataset.source(Split::Train).clone(), loader)?)
}

/// The samples of a split, in order and as they are.
pub(crate) fn evaluation(config: &RunConfig, dataset: &Dataset, split: Split) -> Result<Loader> {
    scoring(config, dataset.source(split).clone())
}

/// Any samples, in order and as they are.
pub(crate) fn scoring(config: &RunConfig, samples: Arc<dyn Source>) -> Result<Loader> {
    Ok(Loader::new(samples, common(config))?)
}

fn common(config: &RunConfig) -> LoaderConfig {
    LoaderConfig {
        batch_size: config.train.batch_size.max(1),
        workers: config.workers,
        seed: config.train.seed,
        preprocess: config.data.preprocess.clone(),
        augment: Augment::None,
        shuffle: false,
        sampling: Sampling::Even,
        classes: config.data.classes.len(),
        task: config.data.task,
        scale: config.scale(),
        prefetch_bytes: config.prefetch_bytes,
        on_bad: config.data.on_bad_sample,
        max_bad: config.data.max_bad,
    }
}
