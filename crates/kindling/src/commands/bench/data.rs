//! `kindling bench data`: the way from files to batches, stage by stage and all together.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use kindling_data::{Loader, LoaderConfig, Stage, measure_stages};
use kindling_memory::{MemorySize, host_usage, reset_host_peak};
use kindling_runs::{Event, EventLog, RunDir};
use serde_json::{Value, json};

use crate::Done;
use crate::commands::Format;
use crate::commands::train::augment;
use crate::config::{IMAGE_SIZE, preprocess, usual};
use crate::dataset::{self, HowToOpen};
use crate::output::out;
use crate::ranges;

/// Images and megabytes per second of reading, decoding, resizing, augmenting and collating, and of the whole loader
///
/// The stages are timed one after the other on one thread, each by itself; the loader with its workers, batch after batch,
/// while nobody computes. --run adds what a finished or running training waited for its data.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data set, or a folder as for `train`; its training images are measured
    #[arg(long, value_name = "NAME|DIR")]
    data: String,
    /// Loader threads, 0 to 1024
    #[arg(long, value_name = "N", value_parser = ranges::workers(), default_value_t = 2)]
    workers: usize,
    /// Side of the square images, 1 to 16384
    #[arg(long, value_name = "PIXELS", default_value_t = IMAGE_SIZE)]
    image_size: usize,
    /// Samples of a batch, 1 to 1048576
    #[arg(long, value_name = "N", value_parser = ranges::samples(), default_value_t = usual().batch_size)]
    batch_size: usize,
    /// none, light, medium, heavy, or a TOML file with a policy
    #[arg(long, value_name = "POLICY", default_value = "light")]
    augment: String,
    /// Images that are loaded, 1 to 1000000000; the data set is passed over again where it has fewer
    #[arg(long, value_name = "N", value_parser = ranges::many(), default_value_t = 512)]
    images: usize,
    /// The most memory of batches that are made ahead
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    prefetch_bytes: MemorySize,
    /// A run, for the share of its training time that was spent waiting for data
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// What the loader did.
struct Loaded {
    images: usize,
    seconds: f64,
    /// Of the images in float32.
    bytes: u64,
    /// Live bytes of the process after the first batches, and the most after that.
    memory: [u64; 2],
}

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let dataset = dataset::open_with(&self.data, 0, &HowToOpen::unsaid())?.dataset;
        let augment = augment(&self.augment)?;
        let preprocess = preprocess(&dataset, self.image_size, Default::default())?;
        let stages = measure_stages(dataset.train.as_ref(), &preprocess, &augment, self.images)?;
        let measured = self.images.min(dataset.train.len());
        let config = LoaderConfig {
            workers: self.workers,
            augment,
            classes: dataset.classes.len(),
            task: dataset.task,
            prefetch_bytes: self.prefetch_bytes.0,
            ..LoaderConfig::shuffled(self.batch_size, preprocess, 0)
        };
        let loaded = self.load(&Loader::new(dataset.train.clone(), config)?)?;
        let waiting = self.run.as_deref().map(waiting_share).transpose()?;
        match self.format {
            Format::Json => out!("{}", self.json(&stages, measured, &loaded, waiting)),
            Format::Table => self.print(&stages, measured, &loaded, waiting),
        }
        Ok(Done::Complete)
    }

    /// Takes batches until there were enough images.
    fn load(&self, loader: &Loader) -> Result<Loaded> {
        let mut loaded = Loaded { images: 0, seconds: 0.0, bytes: 0, memory: [0; 2] };
        let began = Instant::now();
        let settled = 4 * self.workers.max(1);
        for (count, batch) in (0..).flat_map(|epoch| loader.epoch(epoch, 0)).enumerate() {
            let batch = batch?;
            loaded.images += batch.len();
            loaded.bytes += batch.bytes() as u64;
            if count == settled {
                loaded.memory[0] = host_usage().current as u64;
                reset_host_peak();
            }
            if loaded.images >= self.images {
                break;
            }
        }
        loaded.memory[1] = host_usage().peak as u64;
        loaded.seconds = began.elapsed().as_secs_f64();
        Ok(loaded)
    }

    fn json(&self, stages: &[Stage], measured: usize, loaded: &Loaded, waiting: Option<f64>) -> Value {
        let rows: serde_json::Map<String, Value> = stages
            .iter()
            .map(|stage| {
                let (rate, megabytes) = rates(stage.time.as_secs_f64(), measured, stage.bytes);
                (stage.name.to_string(), json!({ "images_per_second": rate, "megabytes_per_second": megabytes }))
            })
            .collect();
        let (rate, megabytes) = rates(loaded.seconds, loaded.images, loaded.bytes);
        json!({
            "data": self.data, "image_size": self.image_size, "batch_size": self.batch_size, "augment": self.augment,
            "stages_one_thread": rows,
            "loader": {
                "workers": self.workers, "images": loaded.images, "images_per_second": rate,
                "megabytes_per_second": megabytes, "live_bytes_settled": loaded.memory[0],
                "live_bytes_peak_after": loaded.memory[1],
            },
            "waiting_share": waiting,
        })
    }

    fn print(&self, stages: &[Stage], measured: usize, loaded: &Loaded, waiting: Option<f64>) {
        out!("{:<10} {:>10} {:>12} {:>10}", "stage", "ms/image", "images/s", "MB/s");
        let line = |name: &str, seconds: f64, images: usize, bytes: u64| {
            let (rate, megabytes) = rates(seconds, images, bytes);
            out!("{name:<10} {:>10.3} {rate:>12.1} {megabytes:>10.1}", 1e3 * seconds / images.max(1) as f64);
        };
        for stage in stages {
            line(stage.name, stage.time.as_secs_f64(), measured, stage.bytes);
        }
        line("loader", loaded.seconds, loaded.images, loaded.bytes);
        out!(
            "\nstages: one thread, {measured} images; loader: {} workers, {} images of {2}x{2}, {3}",
            self.workers,
            loaded.images,
            self.image_size,
            self.augment
        );
        let [settled, peak] = loaded.memory.map(MemorySize);
        out!("live memory {settled} after the first batches, at most {peak} after that");
        if let Some(share) = waiting {
            out!("training waited for data in {:.2} % of its step time", 100.0 * share);
        }
    }
}

/// Images and megabytes (10^6 bytes) per second.
fn rates(seconds: f64, images: usize, bytes: u64) -> (f64, f64) {
    let seconds = seconds.max(1e-9);
    (images as f64 / seconds, bytes as f64 / 1e6 / seconds)
}

/// The share of a run's step time that was spent waiting for batches. The first step of each sitting does not count: it
/// waits for the loader to begin.
fn waiting_share(path: &std::path::Path) -> Result<f64> {
    let run = RunDir::open(path)?;
    let (mut waited, mut total, mut first) = (0.0, 0.0, true);
    let batch = EventLog::read(&run.events())?;
    let mut global_batch = 0;
    for event in &batch {
        match event {
            Event::Started { global_batch: size, .. } => global_batch = *size,
            Event::Resumed { .. } => first = true,
            Event::Step { waiting_seconds, images_per_second, .. } => {
                // The first step of a sitting waits for the loader to start.
                let counts = !std::mem::take(&mut first) && *images_per_second > 0.0;
                let (share, seconds) = if counts { (1.0, global_batch as f64 / images_per_second) } else { (0.0, 0.0) };
                waited += share * waiting_seconds;
                total += seconds;
            }
            _ => {}
        }
    }
    if total == 0.0 {
        bail!("{} has no two steps to look at yet", path.display());
    }
    Ok(waited / total)
}
