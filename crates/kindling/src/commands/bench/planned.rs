//! What the planner says of a row, before anything of it is computed.

use anyhow::Result;
use burn::tensor::Device;
use kindling_layers::Precision;
use kindling_layers::trace::Trace;
use kindling_memory::MemorySize;
use kindling_memory::planner::least_of_inference;
use kindling_runs::bench::{Configuration, What};
use kindling_trainer::TrainError;

use super::workload::train_config;
use crate::fitting::{least_of_step, room_within, take_planned_for_steps};

/// Fails if a row cannot do with its budget, whatever is tried: on a GPU a minute may pass before everything is tried.
pub(super) fn refuse_what_does_not_fit(
    configuration: &Configuration,
    precision: Precision,
    trace: &Trace,
    device: &Device,
) -> Result<()> {
    let Some(budget) = configuration.memory_budget else { return Ok(()) };
    let (images, least) = match configuration.what {
        What::Train => {
            let config = train_config(configuration, precision)?;
            (config.largest_group(), least_of_step(&config, trace, device))
        }
        What::Infer | What::Forward | What::Backward => (1, least_of_inference(trace, precision.bytes())),
    };
    let room = room_within(budget, device);
    if least <= room {
        return Ok(());
    }
    let [least, budget, room] = [least, budget, room].map(MemorySize);
    let reason = format!(
        "by the planner their tensors take at least {least}, and the memory budget of {budget} has room for {room} of tensors"
    );
    Err(TrainError::DoesNotFit { micro_batch: images, reason, tried: Vec::new() }.into())
}

/// Has a GPU take what training is planned to need before the network exists, as `kindling train` does. Nothing is planned for other rows.
pub(super) fn take_planned(
    configuration: &Configuration,
    precision: Precision,
    trace: &Trace,
    device: &Device,
) -> Result<()> {
    if configuration.what == What::Train {
        let config = train_config(configuration, precision)?;
        take_planned_for_steps(&config, trace, device);
    }
    Ok(())
}
