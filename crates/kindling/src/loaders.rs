//! The loaders of a run.

use std::sync::Arc;

use anyhow::Result;
use indicatif::ProgressBar;
use kindling_data::{Augment, Dataset, Loader, LoaderConfig, Sampling, Source, Split};

use crate::config::RunConfig;
use crate::progress::progress_bar;

/// The training samples, shuffled and augmented. Where masks are looked into first, a bar says how far that is, unless it is to be `quiet`.
pub(crate) fn training(config: &RunConfig, dataset: &Dataset, quiet: bool) -> Result<Loader> {
    let loader = LoaderConfig {
        shuffle: true,
        augment: config.data.augment.clone(),
        sampling: config.data.sampling,
        ..common(config)
    };
    let samples = dataset.source(Split::Train).clone();
    let bar = match config.data.sampling {
        Sampling::Foreground if !quiet => progress_bar(samples.len(), "masks looked into"),
        _ => ProgressBar::hidden(),
    };
    let loader = Loader::with_progress(samples, loader, || bar.inc(1));
    bar.finish_and_clear();
    Ok(loader?)
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
