//! The end of a run: metrics and report.

use anyhow::{Context, Result};
use kindling_files as files;
use kindling_report::{GanReport, Grid};
use kindling_runs::{Environment, Event, EventLog, GanMetrics, RunDir};
use kindling_trainer::Trained;

use crate::gan_config::GanRunConfig;

/// Writes metrics and report of a finished run.
pub(super) fn conclude(
    config: &GanRunConfig,
    run: &RunDir,
    environment: &Environment,
    Trained { progress, skipped_updates, mut journal }: Trained,
    [generator_parameters, discriminator_parameters]: [u64; 2],
    features: Option<String>,
) -> Result<GanMetrics> {
    let events = EventLog::read(&run.events())?;
    let compared: Vec<(f64, f64, usize)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Compared { frechet, kernel, samples, .. } => Some((*frechet, *kernel, *samples)),
            _ => None,
        })
        .collect();
    let metrics = GanMetrics {
        run: run.path().display().to_string(),
        model: config.gan.name.clone(),
        data: config.data.source.clone(),
        iterations: progress.step,
        epochs: progress.epoch,
        generator_parameters,
        discriminator_parameters,
        first_frechet: compared.first().map(|it| it.0),
        frechet: compared.last().map(|it| it.0),
        kernel: compared.last().map(|it| it.1),
        compared: compared.last().map_or(0, |it| it.2),
        precision: config.train.precision.to_string(),
        skipped_iterations: skipped_updates,
        images_per_second: progress.images as f64 / progress.seconds.max(1e-9),
        peak_memory_bytes: journal.peak_memory(),
        seconds: progress.seconds,
        recoveries: progress.recoveries,
        recovery_seconds: progress.recovery_seconds,
    };
    run.write_gan_metrics(&metrics)?;
    let config_toml =
        files::read_to_string(&run.config(), files::MAX_TEXT_BYTES).context("reading the run's configuration")?;
    let grids = events.iter().filter_map(|event| match event {
        // A picture that somebody removed is no reason to have no report.
        Event::Sampled { step, path } => {
            Some(Grid { step: *step, png: files::read(&run.path().join(path), files::MAX_TEXT_BYTES).ok()? })
        }
        _ => None,
    });
    let grids: Vec<Grid> = grids.collect();
    let title = run.path().file_name().unwrap_or_default().to_string_lossy();
    let report = GanReport {
        title: &title,
        config_toml: &config_toml,
        events: &events,
        metrics: &metrics,
        environment,
        history: &run.read_history()?,
        grids: &grids,
        features: features.as_deref().unwrap_or("no network: none were measured"),
    };
    run.write_report(&report.html())?;
    Ok(metrics)
}
