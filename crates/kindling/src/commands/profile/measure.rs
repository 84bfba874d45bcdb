//! The measurements behind a profile.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use kindling_data::{DataError, Image, Loader, LoaderConfig, Normalisation, Preprocess, Source};
use kindling_layers::pass::{TrainingPass, normalisation_groups, training};
use kindling_layers::{Checkpointing, Classifier};
use kindling_memory::Plan;
use kindling_runs::{Event, RunDir};
use kindling_trainer::{Observer, Setup, TrainConfig, Trainer};
use kindling_zoo::Model;

use super::Args;
use crate::noise::noise;

/// What real steps took.
pub(super) struct Measured {
    /// Seconds of a step, waiting for its images included: the median.
    pub(super) step_seconds: f64,
    /// The most memory up to the end of the last step.
    pub(super) steps_peak: u64,
    /// The most memory of the whole run, its checkpoint included.
    pub(super) run_peak: u64,
}

/// Time of a part of the network.
pub(super) struct SegmentTime {
    pub(super) name: String,
    /// Seconds forward, with a gradient graph.
    pub(super) forward: f64,
    /// Seconds backward.
    pub(super) backward: f64,
}

impl SegmentTime {
    pub(super) fn total(&self) -> f64 {
        self.forward + self.backward
    }
}

/// Random images, made when they are asked for.
struct Noise {
    samples: usize,
    size: usize,
    channels: usize,
    classes: usize,
}

impl Source for Noise {
    fn len(&self) -> usize {
        self.samples
    }

    fn label(&self, index: usize) -> usize {
        index % self.classes
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let (width, height, channels) = (self.size, self.size, self.channels);
        let pixels = noise(width * height * channels, 0, index as u64);
        Ok(Image { width, height, channels, pixels })
    }

    fn name_of(&self, index: usize) -> String {
        format!("noise {index}")
    }
}

/// Collects what steps report.
#[derive(Default)]
struct Steps {
    ends: Vec<f64>,
    peak: u64,
}

impl Observer for Steps {
    fn event(&mut self, event: &Event) {
        if let Event::Step { seconds, peak_memory_bytes, .. } = event {
            self.ends.push(*seconds);
            self.peak = *peak_memory_bytes;
        }
    }
}

/// Trains a few steps as `kindling train` does, in a folder that is removed again.
pub(super) fn run(args: &Args, model: &Model, device: &Device) -> Result<Measured> {
    // The first step allocates the moments; the peak is that of a later one.
    let steps = args.steps.max(2);
    let folder = std::env::temp_dir().join(format!("kindling-profile-{}", std::process::id()));
    let outcome = run_in(&folder, args, model, device, steps);
    // What is left of it is in the way of nobody.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn run_in(folder: &std::path::Path, args: &Args, model: &Model, device: &Device, steps: usize) -> Result<Measured> {
    let run = RunDir::create(Some(folder), model.name.name, "noise").context("a folder for the measured run")?;
    let network = model.build(&args.options(), device)?;
    let loader = |samples: usize, batch_size: usize| {
        let Args { image_size: size, channels, classes, .. } = *args;
        let source = Noise { samples, size, channels, classes };
        let preprocess = Preprocess::padded(size, channels, Normalisation::identity(channels));
        Loader::new(Arc::new(source), LoaderConfig::in_order(batch_size, preprocess))
    };
    let start = Plan { micro_batch: args.micro_batch(), checkpointing: args.activation_checkpointing };
    // More than the steps use, so that the loader holds what it holds in a run.
    let train = loader(args.batch_size * (steps + 3), args.batch_size)?;
    let setup = Setup::new(model.name.name, device.clone(), train, &run, start.micro_batch);
    let setup = Setup { note: "a profile".to_string(), start, ..setup };
    let mut trainer = Trainer::new(network, config(args, start, steps), args.classes, loader(1, 1)?, setup)?;
    let mut seen = Steps::default();
    trainer.fit(&mut seen)?;
    let starts = std::iter::once(0.0).chain(seen.ends.iter().copied());
    let step_seconds = median(starts.zip(&seen.ends).map(|(start, end)| end - start).collect());
    Ok(Measured { step_seconds, steps_peak: seen.peak, run_peak: trainer.peak_memory() })
}

fn config(args: &Args, start: Plan, steps: usize) -> TrainConfig {
    TrainConfig {
        micro_batch: Some(start.micro_batch),
        activation_checkpointing: Some(start.checkpointing),
        precision: args.precision,
        ghost_batch_size: args.ghost_batch_size,
        max_steps: Some(steps as u64),
        lr: 1e-4,
        warmup: 0.0,
        ..TrainConfig::new(args.batch_size, 1)
    }
}

/// Seconds forward and backward of the stem, each block and the head, on one micro-batch: the median of several runs.
pub(super) fn times(args: &Args, model: &Model, device: &Device) -> Result<Vec<(f64, f64)>> {
    let network = model.build(&args.options(), device)?.train();
    let batch = args.micro_batch();
    let pass =
        TrainingPass { groups: normalisation_groups(batch, args.ghost_batch_size), ..TrainingPass::whole_batch(batch) };
    let shape = [batch, args.channels, args.image_size, args.image_size];
    let images = Tensor::<4>::from_data(TensorData::new(noise(shape.iter().product(), 0, 0), shape), device);
    let mut x = args.precision.cast(images);
    let mut found = Vec::new();
    for index in 0..network.segments(Checkpointing::Blocks) {
        let run = |x| network.run_segment(Checkpointing::Blocks, index, x);
        let (y, seconds) = time_of(args.steps, &pass, &x, index > 0, run)?;
        found.push(seconds);
        x = y;
    }
    let (_, seconds) = time_of(args.steps, &pass, &x, true, |x| network.finish(x))?;
    found.push(seconds);
    Ok(found)
}

/// What a part makes of `x`, and its seconds forward and backward.
fn time_of<const D: usize>(
    times: usize,
    pass: &TrainingPass,
    x: &Tensor<4>,
    wants_gradient: bool,
    run: impl Fn(Tensor<4>) -> Tensor<D>,
) -> Result<(Tensor<D>, (f64, f64))> {
    let device = x.device();
    // Operations of a GPU are queued: what they take is known when it has nothing left to do.
    let idle = || device.sync().map_err(|error| anyhow!("the device failed: {error}"));
    let once = || -> Result<_> {
        let input = Tensor::from_inner(x.clone());
        let input = if wants_gradient { input.require_grad() } else { input };
        idle()?;
        let began = Instant::now();
        let (y, _) = training(pass.clone(), || run(input.clone()));
        idle()?;
        let forward = began.elapsed().as_secs_f64();
        let output = y.clone().inner();
        let loss = kindling_ops::sum(y);
        idle()?;
        let began = Instant::now();
        let gradients = loss.backward();
        idle()?;
        let backward = began.elapsed().as_secs_f64();
        drop(gradients);
        Ok((output, forward, backward))
    };
    let (output, ..) = once()?; // the first run pays for fresh memory, on a GPU for kernels
    let runs = (0..times).map(|_| once()).collect::<Result<Vec<_>>>()?;
    let forward = median(runs.iter().map(|run| run.1).collect());
    let backward = median(runs.iter().map(|run| run.2).collect());
    Ok((output, (forward, backward)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
