//! One row: everything about it, whatever happens.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Result, bail};
use kindling_memory::{Failure as Class, classify, panic_message};
use kindling_runs::DeviceFacts;
use kindling_runs::bench::{Conditions, Configuration, Failure, FailureKind, Measured, Outcome, Protocol, Row};
use kindling_trainer::TrainError;
use serde::{Deserialize, Serialize};

use super::gpu::Gpu;
use super::measure;
use crate::Done;
use crate::commands::train::environment;
use crate::device::DeviceChoice;
use crate::output::out;

/// Measure one row and print it as one JSON object; what `kindling bench --isolate` runs
#[derive(clap::Args)]
pub(super) struct Args {
    /// The row as JSON
    row: String,
}

/// What a row's process is told.
#[derive(Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) configuration: Configuration,
    pub(super) protocol: Protocol,
}

impl Args {
    pub(super) fn run(self) -> Result<Done> {
        let asked: Asked = match serde_json::from_str(&self.row) {
            Ok(asked) => asked,
            Err(error) => bail!("the row cannot be understood: {error}"),
        };
        out!("{}", serde_json::to_string(&measure(&asked.configuration, asked.protocol))?);
        Ok(Done::Complete)
    }
}

/// Measures a row in this process. What goes wrong becomes a row with its reason.
pub(super) fn measure(configuration: &Configuration, protocol: Protocol) -> Row {
    let mut facts = DeviceFacts { device: configuration.device.clone(), ..DeviceFacts::default() };
    let outcome = catch_unwind(AssertUnwindSafe(|| figures(configuration, protocol, &mut facts)));
    let outcome = match outcome {
        Ok(Ok(measured)) => Outcome::Measured(measured),
        Ok(Err(error)) => Outcome::Failed(Failure { kind: kind_of(&error), reason: one_line(&format!("{error:#}")) }),
        Err(panic) => {
            let text = panic_message(panic.as_ref());
            let kind = match classify(&text) {
                Class::OutOfMemory | Class::TensorTooLarge => FailureKind::OutOfMemory,
                Class::DeviceLost | Class::Other => FailureKind::Panic,
            };
            Outcome::Failed(Failure { kind, reason: one_line(&text) })
        }
    };
    assemble(configuration, protocol, outcome, facts)
}

fn figures(configuration: &Configuration, protocol: Protocol, facts: &mut DeviceFacts) -> Result<Measured> {
    let choice: DeviceChoice = match configuration.device.parse() {
        Ok(choice) => choice,
        Err(known) => bail!("the row asks for the device `{}`; {known}", configuration.device),
    };
    let chosen = choice.open()?;
    *facts = chosen.facts.clone();
    measure::figures(configuration, protocol, &chosen, Gpu::of(choice).as_ref())
}

/// A row with its surroundings as they are now.
pub(super) fn assemble(
    configuration: &Configuration,
    protocol: Protocol,
    outcome: Outcome,
    mut facts: DeviceFacts,
) -> Row {
    let gpu = configuration.device.parse().ok().and_then(Gpu::of);
    if let Some(gpu) = &gpu {
        facts.cuda = facts.cuda.or(gpu.cuda());
        facts.driver = facts.driver.or(gpu.driver());
    }
    let environment = environment(facts);
    let mut software =
        vec![("kindling".to_string(), environment.kindling.clone()), ("burn".to_string(), environment.burn.clone())];
    software.extend(environment.commit.clone().map(|commit| ("commit".to_string(), commit)));
    Row {
        engine: "kindling".to_string(),
        variant: None,
        configuration: configuration.clone(),
        configuration_hash: configuration.hash(),
        protocol,
        outcome,
        software: software.into_iter().collect(),
        environment,
        conditions: conditions(configuration, gpu.as_ref()),
        notes: Vec::new(),
    }
}

fn conditions(configuration: &Configuration, gpu: Option<&Gpu>) -> Conditions {
    let autotune = if configuration.device == "cpu" {
        "none: operations of the CPU are not tuned"
    } else {
        "none: kernels follow from shapes, formats and device"
    };
    let host = Conditions { autotune: autotune.to_string(), cpu_mhz: cpu_mhz(), load: load(), ..Conditions::default() };
    match gpu {
        Some(gpu) => gpu.conditions(host),
        None => host,
    }
}

/// The mean clock of all cores, as Linux tells it.
fn cpu_mhz() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let clocks: Vec<f64> =
        text.lines().filter_map(|line| line.strip_prefix("cpu MHz")?.split(':').nth(1)?.trim().parse().ok()).collect();
    (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
}

fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn kind_of(error: &anyhow::Error) -> FailureKind {
    match error.downcast_ref::<TrainError>() {
        Some(
            TrainError::OutOfMemory { .. } | TrainError::InferenceOutOfMemory { .. } | TrainError::DoesNotFit { .. },
        ) => FailureKind::OutOfMemory,
        _ => FailureKind::Error,
    }
}

fn one_line(text: &str) -> String {
    let line: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    line.join(" ").chars().take(400).collect()
}
