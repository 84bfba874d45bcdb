//! The same computation on the CPU and on CUDA (made of the CPU, `tests/cuda-on-cpu`), and how far apart they are.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use image::{ImageBuffer, Luma};
use serde_json::Value;

use crate::reference::is_classifier;
use crate::{
    Outcome, Stored, Tensors, checkpoints, iterations, kindling, losses, on_cuda, picture, read_tensors, write_tensors,
};

/// A network in a size and a format.
#[derive(Clone, Copy, Debug)]
pub struct Beside<'a> {
    /// Its name in the zoo.
    pub model: &'a str,
    /// Side of the images.
    pub size: usize,
    /// `f32`, `f16` or `bf16`.
    pub precision: &'a str,
    /// `none`, `stages` or `blocks`.
    pub recompute: &'a str,
    /// Compute capability that the device claims.
    pub capability: &'a str,
    /// Whether it makes images.
    pub gan: bool,
}

/// Tensors by name with their distance: the norm of the difference over the norm of the CPU's.
pub type Distances = Vec<(String, f64)>;

/// What one training step gave on two devices.
#[derive(Debug)]
pub struct StepDistances {
    /// Of the losses, relative.
    pub loss: f64,
    /// Of all gradients together, as the optimizer keeps them.
    pub gradients: f64,
    /// Of all weights and running statistics together.
    pub weights: f64,
    /// The gradient that is furthest from the CPU's, among those of a thousandth of the whole norm and more.
    pub worst: (String, f64),
}

impl fmt::Display for StepDistances {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loss, gradients, weights, worst: (name, worst) } = self;
        write!(formatter, "loss {loss:.1e}, gradients {gradients:.1e} ({worst:.1e} in {name}), weights {weights:.1e}")
    }
}

const BATCH: usize = 4;

/// Steps until one is not skipped: each halves the loss scale, which begins at 65536.
const MOST_STEPS: usize = 9;

/// Logits and feature maps of two random images on both devices.
///
/// # Panics
/// If a command fails, or panics on any thread.
pub fn forward_beside_cpu(of: Beside, folder: &Path) -> Distances {
    let input = folder.join("input.safetensors");
    let values = (0..2 * 3 * of.size * of.size).map(|at| ((at * 7919) % 1000) as f32 / 250.0 - 2.0);
    let shape = [2, 3, of.size, of.size];
    write_tensors(&input, &Tensors::from([("input".to_string(), Stored::floats(&shape, values))]));
    let [cpu, cuda] = ["cpu", "cuda"].map(|device| {
        let output = folder.join(format!("{device}.safetensors"));
        let mut command = kindling();
        command.args(["forward", "--features", "--model", of.model, "--device", device, "--input"]).arg(&input);
        command.arg("--output").arg(&output);
        finish(&mut command, device, of);
        read_tensors(&output)
    });
    distances(&cpu, &cuda)
}

/// How pixels of images of 16 bits are moved: every so many-th by so many steps, up or down.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// One of so many pixels.
    pub every: usize,
    /// Steps of 1/65535 of the whole range.
    pub by: u16,
}

/// A training step of four images on both devices.
///
/// # Panics
/// If a command fails, or panics on any thread.
pub fn step_beside_cpu(of: Beside, folder: &Path) -> StepDistances {
    let data = images(&folder.join("data"), None);
    let [cpu, cuda] = ["cpu", "cuda"].map(|device| step(of, &data, device, &folder.join(device)));
    between(of, &cpu, &cuda)
}

/// The same between the CPU and the CPU, where pixels are moved a little for the second: how far a network's gradients are
/// apart when nothing but rounding differs. Where many activations have a kink, some pixel always moves one over it.
///
/// # Panics
/// As [`step_beside_cpu`].
pub fn step_beside_moved(of: Beside, moved: Moved, folder: &Path) -> StepDistances {
    let plain = step(of, &images(&folder.join("plain-data"), None), "cpu", &folder.join("plain"));
    let other = step(of, &images(&folder.join("moved-data"), Some(moved)), "cpu", &folder.join("moved"));
    between(of, &plain, &other)
}

/// A folder of images that are trained on, and few to validate and to test.
fn images(folder: &Path, moved: Option<Moved>) -> PathBuf {
    let moved_by = |at: usize| match moved {
        Some(Moved { every, by }) if at.is_multiple_of(every) => by,
        _ => 0,
    };
    for (split, each) in [("train", BATCH / 2), ("val", 1), ("test", 1)] {
        for (place, class) in ["dark", "striped"].into_iter().enumerate() {
            let folder = folder.join(split).join(class);
            fs::create_dir_all(&folder).expect("a folder of the test can be made");
            for index in 0..each {
                let picture = picture(class, 10 * place + index);
                let of_pixel = |at: usize, value: u8| {
                    let (value, by) = (u16::from(value) * 257, moved_by(at + 7 * index));
                    if at.is_multiple_of(3) {
                        value.checked_add(by).unwrap_or(value - by)
                    } else {
                        value.saturating_sub(by)
                    }
                };
                let (width, height) = picture.dimensions();
                let values =
                    picture.into_raw().into_iter().enumerate().map(|(at, value)| of_pixel(at, value)).collect();
                let deep = ImageBuffer::<Luma<u16>, Vec<u16>>::from_vec(width, height, values);
                let path = folder.join(format!("{index}.png"));
                deep.expect("a number a pixel").save(path).expect("a picture of the test can be written");
            }
        }
    }
    folder.to_path_buf()
}

/// Takes one training step on a device, and returns the run's folder. In half formats it is the first whose gradients are finite: those
/// before are skipped, with a lower loss scale each time; with the same four images, and for a GAN with the same noise on both devices.
fn step(of: Beside, data: &Path, device: &str, run: &Path) -> PathBuf {
    let after = |steps: usize| {
        let run = run.join(steps.to_string());
        train(of, data, device, steps, &run);
        let taken = if of.gan { iterations(&run).len() } else { losses(&run).len() };
        (taken > 0).then_some(run)
    };
    (1..=MOST_STEPS).find_map(after).unwrap_or_else(|| panic!("{of:?}: no gradients of {MOST_STEPS} steps are finite"))
}

/// Takes so many training steps on a device, or makes so many iterations of a GAN.
fn train(of: Beside, data: &Path, device: &str, steps: usize, run: &Path) {
    let mut command = kindling();
    if of.gan {
        // The second network meets the first one after its step, and Adam's first step has only the gradient's signs, which
        // rounding decides where gradients are nearly nothing. So the step is one of nearly nothing.
        command.args(["gan", "train", "--iterations", &steps.to_string()]);
        command.args(["--compare", "0", "--features", "8", "--lr", "1e-12"]);
    } else {
        // The momentum of the first step is the gradient.
        command.args(["train", "--max-steps", &steps.to_string(), "--optimizer", "sgd"]);
        command.args(["--weight-decay", "0", "--warmup", "0", "--image-size", &of.size.to_string()]);
        if of.precision == "f16" {
            // One device may skip a step more than the other, and what is dropped is drawn for each step.
            command.args(["--drop-rate", "0", "--drop-path-rate", "0"]);
        }
    }
    command.args(["--model", of.model, "--batch-size", &BATCH.to_string(), "--activation-checkpointing", of.recompute]);
    command.args(["--precision", of.precision, "--device", device, "--data"]).arg(data).arg("--out").arg(run);
    finish(&mut command, device, of);
}

/// How far two runs of one step are apart.
fn between(of: Beside, cpu: &Path, cuda: &Path) -> StepDistances {
    let files = |run: &Path, end: &str| -> Tensors {
        let folder = checkpoints(run).pop().expect("a run ends with a checkpoint");
        let entries = fs::read_dir(folder).expect("a checkpoint is a folder").flatten().map(|entry| entry.path());
        let is_one = |path: &PathBuf| path.to_string_lossy().ends_with(end);
        let named = |path: PathBuf| {
            let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            read_tensors(&path).into_iter().map(move |(name, tensor)| (format!("{file} {name}"), tensor))
        };
        entries.filter(is_one).flat_map(named).collect()
    };
    let of_both = |end: &str| (files(cpu, end), files(cuda, end));
    let ((weights, other_weights), (gradients, other_gradients)) =
        (of_both("weights.safetensors"), of_both("optimizer.safetensors"));
    let (all, all_weights) = (norm(&gradients), norm(&weights));
    let large = gradients.iter().filter(|(_, tensor)| norm_of(tensor) > 1e-3 * all);
    let large: Tensors = large.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
    let mut worst = distances(&large, &other_gradients);
    worst.sort_by(|a, b| a.1.total_cmp(&b.1));
    // An iteration of a GAN is no step of one loss: its networks' gradients say all.
    let loss = if of.gan { 0.0 } else { (losses(cpu)[0] - losses(cuda)[0]).abs() / losses(cpu)[0] };
    StepDistances {
        loss,
        gradients: norm(&difference(&gradients, &other_gradients)) / all,
        weights: norm(&difference(&weights, &other_weights)) / all_weights,
        worst: worst.pop().expect("a network has gradients"),
    }
}

/// The names of all networks that classify, and of all that make images, the cheapest first.
///
/// # Panics
/// If the command does not list them.
pub fn registry() -> (Vec<String>, Vec<String>) {
    let outcome = Outcome::of(kindling().args(["models", "--format", "json"])).succeeded();
    let models = outcome.stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (classifiers, others): (Vec<Value>, Vec<Value>) = models.partition(is_classifier);
    let gans = others.into_iter().filter(|model| model["family"] == "GAN").collect();
    let names = |mut models: Vec<Value>| -> Vec<String> {
        models.sort_by_key(|model| model["macs_512"].as_u64());
        models.iter().filter_map(|model| Some(model["name"].as_str()?.to_string())).collect()
    };
    (names(classifiers), names(gans))
}

fn finish(command: &mut std::process::Command, device: &str, of: Beside) {
    if device == "cuda" {
        on_cuda(command, of.capability);
    }
    let outcome = Outcome::of(command).succeeded();
    // A panic on a thread of the device leaves the exit code as it is.
    assert!(!outcome.stderr.contains("panicked at"), "{of:?}\n{}", outcome.all());
}

fn distances(cpu: &Tensors, cuda: &Tensors) -> Distances {
    let of = |(name, tensor): (&String, &Stored)| {
        let other = Tensors::from([(name.clone(), cuda[name].clone())]);
        let difference = difference(&Tensors::from([(name.clone(), tensor.clone())]), &other);
        (name.clone(), norm(&difference) / norm_of(tensor).max(f64::MIN_POSITIVE))
    };
    cpu.iter().map(of).collect()
}

/// # Panics
/// If they do not hold tensors of the same names and shapes, or the second a number that is none.
fn difference(cpu: &Tensors, cuda: &Tensors) -> Tensors {
    assert_eq!(cpu.keys().collect::<Vec<_>>(), cuda.keys().collect::<Vec<_>>());
    let of = |(name, tensor): (&String, &Stored)| {
        let other = &cuda[name];
        assert_eq!(tensor.shape, other.shape, "{name}");
        let values = other.values();
        assert!(values.iter().all(|value| value.is_finite()), "{name} holds what is no number");
        let differences = tensor.values().into_iter().zip(values).map(|(a, b)| a - b);
        (name.clone(), Stored::floats(&tensor.shape, differences))
    };
    cpu.iter().map(of).collect()
}

fn norm(tensors: &Tensors) -> f64 {
    tensors.values().map(|tensor| norm_of(tensor).powi(2)).sum::<f64>().sqrt()
}

fn norm_of(tensor: &Stored) -> f64 {
    tensor.values().iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
}
