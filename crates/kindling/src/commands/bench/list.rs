//! From lists of flags to rows.

use anyhow::Result;
use kindling_runs::bench::{Configuration, What};
use kindling_zoo::ModelOptions;

use super::Measure;
use crate::device::{DeviceChoice, cuda};
use crate::model::AnyModel;
use crate::threads;

/// Every combination. What cannot be a row at all is refused here; what a device refuses becomes a failed row.
pub(super) fn configurations(args: &Measure) -> Result<Vec<Configuration>> {
    let device = match args.device {
        DeviceChoice::Auto if cuda::missing(0).is_none() => DeviceChoice::Cuda(0),
        DeviceChoice::Auto => DeviceChoice::Cpu,
        chosen => chosen,
    };
    ModelOptions { in_channels: args.channels, classes: args.classes, ..ModelOptions::imagenet() }.check()?;
    let what = if args.what.is_empty() { vec![What::Train] } else { args.what.clone() };
    let memory_budget = args.memory_budget.map(|budget| budget.on(device)).transpose()?;
    let threads = args.threads.unwrap_or_else(threads::usual);
    let mut rows: Vec<Configuration> = Vec::new();
    for name in &args.models {
        let model = AnyModel::find(name)?.key();
        for &image_size in &args.image_size {
            for &batch_size in &args.batch_size {
                for &precision in &args.precision {
                    for checkpointing in &args.activation_checkpointing {
                        for &what in &what {
                            // Only training keeps anything that could be computed again.
                            let recompute =
                                if what == What::Train { checkpointing.clone() } else { "none".to_string() };
                            let row = Configuration {
                                what,
                                model: model.clone(),
                                image_size,
                                channels: args.channels,
                                classes: args.classes,
                                batch_size,
                                micro_batch: args.micro_batch.fixed(),
                                norm_group: args.ghost_batch_size,
                                precision: precision.to_string(),
                                recompute,
                                optimizer: args.optimizer.clone(),
                                memory_budget,
                                seed: args.seed,
                                device: device.to_string(),
                                threads,
                            };
                            if !rows.contains(&row) {
                                rows.push(row);
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(rows)
}
