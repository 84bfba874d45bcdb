//! Warm-up and windows.

use anyhow::{Result, bail};
use kindling_layers::Precision;
use kindling_memory::{Meter, resident_peak_bytes};
use kindling_metrics::Quartiles;
use kindling_runs::bench::{Configuration, Energy, Measured, MemoryUsed, Protocol, What, Window};
use kindling_zoo::ModelOptions;

use super::gpu::Gpu;
use super::planned;
use super::workload::{self, Step, Workload};
use crate::budget::MemoryBudget;
use crate::device::Chosen;
use crate::model::AnyModel;

/// Everything that adds up over the steps of a row.
struct Tally {
    meter: Meter,
    in_use: u64,
    reserved: u64,
    recoveries: u64,
    skipped: u64,
    last: Option<Step>,
}

impl Tally {
    /// One step; returns its seconds.
    fn step(&mut self, workload: &mut dyn Workload) -> Result<f64> {
        let Self { meter, in_use, reserved, .. } = self;
        let mut look = || {
            let usage = meter.read();
            (*in_use, *reserved) = ((*in_use).max(usage.peak), (*reserved).max(usage.reserved));
        };
        let step = workload.step(&mut look)?;
        look();
        self.recoveries += step.recoveries;
        self.skipped += u64::from(step.skipped);
        let seconds = step.seconds;
        self.last = Some(step);
        Ok(seconds)
    }
}

/// The figures of a row on an open device.
pub(super) fn figures(
    configuration: &Configuration,
    protocol: Protocol,
    chosen: &Chosen,
    gpu: Option<&Gpu>,
) -> Result<Measured> {
    let precision: Precision = configuration.precision.parse().map_err(anyhow::Error::msg)?;
    chosen.check_precision(precision)?;
    let model = AnyModel::find(&configuration.model)?;
    model.check_image_size(configuration.image_size)?;
    let options = ModelOptions {
        in_channels: configuration.channels,
        classes: configuration.classes,
        seed: configuration.seed,
        ..ModelOptions::imagenet()
    };
    let device = &chosen.device;
    let trace = model.trace(&options, configuration.image_size)?;
    planned::refuse_what_does_not_fit(configuration, precision, &trace, device)?;
    let budget = configuration.memory_budget.map(MemoryBudget::Bytes);
    let _imposed = budget.map(|budget| budget.impose(device, &chosen.facts)).transpose()?;
    planned::take_planned(configuration, precision, &trace, device)?;
    let meter = Meter::new(device);
    let mut workload = match model {
        AnyModel::Classifier(model) => {
            workload::of(configuration, precision, model.build(&options, device)?, &trace, device)?
        }
        AnyModel::Segmentation(model) => {
            workload::of(configuration, precision, model.build(&options, device)?, &trace, device)?
        }
    };

    let mut tally = Tally { meter, in_use: 0, reserved: 0, recoveries: 0, skipped: 0, last: None };
    // The first step compiles, tunes and fetches memory; it is never part of a window.
    let first_step_seconds = tally.step(workload.as_mut())?;
    for _ in 1..protocol.warmup {
        tally.step(workload.as_mut())?;
    }
    let energy_before = gpu.and_then(Gpu::joules);
    let (mut windows, mut steps) = (Vec::new(), Vec::new());
    for _ in 0..protocol.windows {
        let mut window = Window { images: 0, seconds: 0.0 };
        while window.seconds < protocol.window_seconds {
            let seconds = tally.step(workload.as_mut())?;
            steps.push(seconds);
            window.images += configuration.batch_size as u64;
            window.seconds += seconds;
        }
        windows.push(window);
    }
    let joules = energy_before.and_then(|before| Some(gpu?.joules()? - before));
    let images: u64 = windows.iter().map(|window| window.images).sum();
    // Between the windows of a backward row lie its forward passes.
    let energy = joules
        .filter(|_| configuration.what != What::Backward)
        .map(|joules| Energy { joules, joules_per_image: joules / images as f64 });

    let speeds = Quartiles::of(windows.iter().map(Window::speed));
    let (Some(images_per_second), Some(step_seconds), Some(last)) =
        (speeds, Quartiles::of(steps.iter().copied()), tally.last.take())
    else {
        bail!("no step took any time that could be measured");
    };
    let on_gpu = chosen.device.memory_pool_usage().is_some();
    Ok(Measured {
        images_per_second,
        step_seconds,
        first_step_seconds,
        windows,
        steps: steps.len() as u64,
        micro_batch: last.micro_batch,
        recoveries: tally.recoveries,
        skipped_updates: tally.skipped,
        loss: last.loss,
        memory: MemoryUsed {
            peak_in_use_bytes: Some(tally.in_use),
            peak_reserved_bytes: on_gpu.then_some(tally.reserved),
            peak_process_bytes: resident_peak_bytes(),
            how: if on_gpu {
                "Burn's pools, read at the end of each step and between forward and backward rows' passes; what rises \
                 and falls within a step shows in reserved only, as does what training takes in advance"
                    .to_string()
            } else {
                "every allocation of the process".to_string()
            },
        },
        energy,
    })
}
