//! How a run describes itself: in its weights, at its start and at its end.

use kindling_data::{Dataset, counted};
use kindling_layers::{Freeze, Precision};
use kindling_memory::{Plan, resident_peak_bytes};
use kindling_runs::{Environment, Event, Metrics, RunDir};
use serde_json::json;

use crate::config::RunConfig;

/// The note in every weights file: enough to know what it is without its run.
pub(super) fn note(config: &RunConfig) -> String {
    let note = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "model": config.model.name,
        "classes": config.data.classes,
        "in_channels": config.data.preprocess.channels,
        "image_size": config.data.preprocess.size,
    });
    note.to_string()
}

pub(super) fn started(
    config: &RunConfig,
    environment: &Environment,
    parameters: u64,
    steps_total: u64,
    plan: Plan,
) -> Event {
    Event::Started {
        time: environment.time.clone(),
        model: config.model.name.clone(),
        data: config.data.source.clone(),
        classes: config.data.classes.clone(),
        parameters,
        device: environment.device.device.clone(),
        image_size: config.data.preprocess.size,
        global_batch: config.train.batch_size,
        micro_batch: plan.micro_batch,
        steps_total,
    }
}

pub(super) fn opening(
    config: &RunConfig,
    dataset: &Dataset,
    run: &RunDir,
    environment: &Environment,
    parameters: u64,
    plan: Plan,
) -> String {
    let size = config.data.preprocess.size;
    let batch = config.train.batch_size;
    let micro = plan.micro_batch;
    let precision = in_half(config.train.precision);
    format!(
        "{} ({:.2} M parameters) on {} ({} train, {} val, {} test images, {size}x{size}), batch {batch} in \
         micro-batches of {micro}{precision}, device {}\nrun {}",
        config.model.name,
        parameters as f64 / 1e6,
        dataset.name,
        dataset.train.len(),
        dataset.val.len(),
        dataset.test.len(),
        environment.device.device,
        run.path().display()
    )
}

pub(super) fn closing(metrics: &Metrics, run: &RunDir) -> String {
    let percent = |share: f64| share * 100.0;
    let accuracy = metrics.test.as_ref().map_or(0.0, |score| score.accuracy);
    let recoveries = match metrics.recoveries {
        0 => String::new(),
        count => {
            let times = counted(count, "time");
            format!("memory ran out {times}, which cost {:.1} s and changed nothing\n", metrics.recovery_seconds)
        }
    };
    let skipped = match metrics.skipped_updates {
        0 => String::new(),
        1 => format!("1 update was left out because gradients were not finite in {}\n", metrics.precision),
        count => format!("{count} updates were left out because gradients were not finite in {}\n", metrics.precision),
    };
    let baseline = percent(metrics.majority_baseline);
    let labels = metrics.test.as_ref().and_then(|score| score.multi_label.as_ref());
    let regression = metrics.regression.as_ref().and_then(|found| Some((&found.target, found.test?)));
    let score = match (labels, &metrics.segmentation) {
        _ if let Some((target, score)) = regression => {
            format!("test mean absolute error of {target} {:.4}, R2 {:.3}", score.mae, score.r2)
        }
        (_, Some(found)) => {
            let position = found.position_dice.map_or_else(String::new, |dice| format!(" (position alone: {dice:.3})"));
            format!("test mean foreground Dice {:.3}{position}", found.test_dice.unwrap_or(f64::NAN))
        }
        (Some(labels), _) => format!(
            "test mean AUROC {}, macro F1 {:.3}, all labels right on {:.1} % (always the most frequent set: {baseline:.1} %)",
            labels.mean_auroc.map_or("-".to_string(), |auroc| format!("{auroc:.3}")),
            labels.macro_f1,
            percent(labels.subset_accuracy)
        ),
        _ => format!("test accuracy {:.1} % (always naming the largest class: {baseline:.1} %)", percent(accuracy)),
    };
    format!(
        "{recoveries}{skipped}{score} after {} in {:.0} s of training\n\
         report {}",
        counted(metrics.steps, "step"),
        metrics.seconds,
        run.report().display()
    )
}

pub(super) fn result_line(metrics: &Metrics) -> serde_json::Value {
    let mut line = json!({
        "run": metrics.run,
        "steps": metrics.steps,
        "test_accuracy": metrics.test.as_ref().map(|score| score.accuracy),
        "test_mean_auroc": metrics.test.as_ref().and_then(|score| score.multi_label.as_ref()?.mean_auroc),
        "chance": metrics.majority_baseline,
        "images_per_second": metrics.images_per_second,
        "peak_memory_bytes": metrics.peak_memory_bytes,
        "resident_peak_bytes": resident_peak_bytes(),
        "recoveries": metrics.recoveries,
    });
    if let Some(segmentation) = &metrics.segmentation {
        line["test_dice"] = json!(segmentation.test_dice);
        line["position_dice"] = json!(segmentation.position_dice);
    }
    if let Some(test) = metrics.regression.as_ref().and_then(|regression| regression.test) {
        line["test_mae"] = json!(test.mae);
        line["test_r2"] = json!(test.r2);
    }
    line
}

/// What has to be said where batch norm sees single images: every model of the zoo has it.
pub(super) fn batch_of_one(config: &RunConfig) -> Option<String> {
    // A frozen backbone keeps the statistics it came with.
    if config.model.freeze == Freeze::Backbone {
        return None;
    }
    let flag = match (config.train.batch_size, config.train.largest_group()) {
        (1, _) => "--batch-size",
        (_, 1) => "--ghost-batch-size",
        _ => return None,
    };
    Some(format!(
        "warning: with {flag} 1 batch norm takes its statistics from single images, so that a trained model knows each image by \
         itself and scores badly on others; {flag} 4 or more trains as models are meant to"
    ))
}

/// The precision in an opening line; nothing for float32.
pub(crate) fn in_half(precision: Precision) -> String {
    match precision {
        Precision::F32 => String::new(),
        half => format!(", feature maps in {half}"),
    }
}
