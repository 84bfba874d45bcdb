//! The loaders of a run.

use anyhow::Result;
use kindling_data::{Augment, Dataset, Loader, LoaderConfig, Sampling, Split};

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
    Ok(Loader::new(dataset.source(split).clone(), common(config))?)
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
        prefetch_bytes: config.prefetch_bytes,
        on_bad: config.data.on_bad_sample,
        max_bad: config.data.max_bad,
    }
}
