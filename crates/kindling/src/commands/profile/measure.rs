//! The measurements behind a profile.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use burn::tensor::{Device, Tensor, TensorData};
use kindling_data::{DataError, Image, Loader, LoaderConfig, Mask, Normalisation, Preprocess, Source};
use kindling_layers::Checkpointing;
use kindling_layers::pass::{TrainingPass, normalisation_groups, training};
use kindling_memory::Plan;
use kindling_runs::{Event, RunDir};
use kindling_trainer::engine::{Checkpointable, Trainable, Training};
use kindling_trainer::{Observer, Setup, TrainConfig, Trainer};

use super::Args;
use crate::model::AnyModel;
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

/// Random images, made when they are asked for, whose masks are a stripe of each class.
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

    fn read_mask(&self, _index: usize) -> Result<Mask, DataError> {
        let &Self { size, classes, .. } = self;
        // There are no more classes than a mask can have: the command has seen to that.
        let classes = (0..size * size).map(|pixel| (pixel % size * classes / size) as u8).collect();
        Ok(Mask { width: size, height: size, classes })
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
pub(super) fn run(args: &Args, model: &AnyModel, device: &Device) -> Result<Measured> {
    // The first step allocates the moments; the peak is that of a later one.
    let steps = args.steps.max(2);
    let folder = std::env::temp_dir().join(format!("kindling-profile-{}", std::process::id()));
    let outcome = run_in(&folder, args, model, device, steps);
    // What is left of it is in the way of nobody.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn run_in(folder: &std::path::Path, args: &Args, model: &AnyModel, device: &Device, steps: usize) -> Result<Measured> {
    let name = model.key();
    let run = RunDir::create(Some(folder), &name, "noise").context("a folder for the measured run")?;
    let loader = |samples: usize, batch_size: usize| {
        let Args { image_size: size, channels, classes, .. } = *args;
        let source = Noise { samples, size, channels, classes };
        let preprocess = Preprocess::padded(size, channels, Normalisation::identity(channels));
        let config = LoaderConfig { task: model.task(), classes, ..LoaderConfig::in_order(batch_size, preprocess) };
        Loader::new(Arc::new(source), config)
    };
    let start = Plan { micro_batch: args.micro_batch(), checkpointing: args.activation_checkpointing };
    // More than the steps use, so that the loader holds what it holds in a run.
    let train = loader(args.batch_size * (steps + 3), args.batch_size)?;
    let setup = Setup::new(&name, device.clone(), train, &run, start.micro_batch);
    let setup = Setup { note: "a profile".to_string(), start, ..setup };
    let (config, validation) = (config(args, start, steps), loader(1, 1)?);
    match model {
        AnyModel::Classifier(model) => {
            let network = model.build(&args.options(), device)?;
            trained(Trainer::new(network, config, args.classes, validation, setup)?)
        }
        AnyModel::Segmentation(model) => {
            let network = model.build(&args.options(), device)?;
            trained(Trainer::segmenting(network, config, args.classes, validation, setup)?)
        }
    }
}

/// Trains a run to its end.
fn trained<S: Checkpointable + Clone, T: Training<S>>(mut trainer: Trainer<'_, S, T>) -> Result<Measured> {
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

/// Seconds forward and backward of each part of a network, in the order in which they run, on one micro-batch: the median of several
/// runs. The last is what follows the last segment, which may be nothing.
pub(super) fn times(args: &Args, model: &AnyModel, device: &Device) -> Result<Vec<(f64, f64)>> {
    match model {
        AnyModel::Classifier(model) => times_of::<_, 2>(args, model.build(&args.options(), device)?, device),
        AnyModel::Segmentation(model) => times_of::<_, 4>(args, model.build(&args.options(), device)?, device),
    }
}

fn times_of<M: Trainable<D>, const D: usize>(args: &Args, network: M, device: &Device) -> Result<Vec<(f64, f64)>> {
    let network = network.train();
    let batch = args.micro_batch();
    let pass =
        TrainingPass { groups: normalisation_groups(batch, args.ghost_batch_size), ..TrainingPass::whole_batch(batch) };
    let shape = [batch, args.channels, args.image_size, args.image_size];
    let images = Tensor::<4>::from_data(TensorData::new(noise(shape.iter().product(), 0, 0), shape), device);
    let mut maps = vec![args.precision.cast(images)];
    let mut found = Vec::new();
    for index in 0..network.segments(Checkpointing::Blocks) {
        let run = |maps| network.run_segment(Checkpointing::Blocks, index, maps);
        let (made, seconds) = time_of(args.steps, &pass, &maps, index > 0, run)?;
        found.push(seconds);
        maps = made;
    }
    let finish =
        |mut maps: Vec<Tensor<4>>| -> Vec<Tensor<D>> { maps.pop().map(|x| network.finish(x)).into_iter().collect() };
    let (_, seconds) = time_of(args.steps, &pass, &maps, true, finish)?;
    found.push(seconds);
    Ok(found)
}

/// What a part makes of `maps`, and its seconds forward and backward. Of what it makes the last is its own; the others it hands on.
fn time_of<const D: usize>(
    times: usize,
    pass: &TrainingPass,
    maps: &[Tensor<4>],
    wants_gradient: bool,
    run: impl Fn(Vec<Tensor<4>>) -> Vec<Tensor<D>>,
) -> Result<(Vec<Tensor<D>>, (f64, f64))> {
    let device = maps.first().context("a part reads a map")?.device();
    // Operations of a GPU are queued: what they take is known when it has nothing left to do.
    let idle = || device.sync().map_err(|error| anyhow!("the device failed: {error}"));
    let once = || -> Result<_> {
        let input = maps.iter().map(|map| Tensor::from_inner(map.clone()));
        let input: Vec<_> = input.map(|map| if wants_gradient { map.require_grad() } else { map }).collect();
        idle()?;
        let began = Instant::now();
        let (mut made, _) = training(pass.clone(), || run(input.clone()));
        idle()?;
        let forward = began.elapsed().as_secs_f64();
        let output: Vec<Tensor<D>> = made.iter().map(|map| map.clone().inner()).collect();
        let loss = kindling_ops::sum(made.pop().context("a part makes a map")?);
        drop(made);
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
