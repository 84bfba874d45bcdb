//! `kindling gan sample`: images of a trained generator.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use burn::tensor::TensorData;
use kindling_data::Image;
use kindling_gan_training::{between, sample_latent};
use kindling_layers::tensors::to_bytes;
use kindling_runs::{RunDir, write_atomically};

use super::compare::make;
use super::pictures;
use crate::Done;
use crate::device::DeviceChoice;
use crate::gan_config::GanRunConfig;
use crate::output::note;
use crate::ranges;

/// Images of one way from latent vector to latent vector.
const WAY: usize = 8;

/// Make images: image i depends on the seed and i alone, and only as many as are computed at once are held
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder
    run: PathBuf,
    /// Images to make, 1 to 1048576
    #[arg(long, value_name = "N", value_parser = ranges::samples(), default_value_t = 64)]
    count: usize,
    /// What they are drawn with, 0 to 9223372036854775807
    #[arg(long, value_name = "N", value_parser = ranges::seed(), default_value_t = 0)]
    seed: u64,
    /// A folder for one PNG an image, or a file ending in .png for a grid of them all
    #[arg(long, value_name = "DIR|FILE.png")]
    out: PathBuf,
    /// Also write the vectors that the images are made from, `latents` of [images, width], to a safetensors file: what an
    /// exported generator is given to make the same images
    #[arg(long, value_name = "FILE")]
    latents: Option<PathBuf>,
    /// Go from image to image in eight steps instead: every eight images are one way
    #[arg(long)]
    interpolate: bool,
    /// Images computed at once, 1 to 1048576; fewer where memory runs out
    #[arg(long, value_name = "N", value_parser = ranges::samples(), default_value_t = 8)]
    micro_batch: usize,
    /// auto, cpu, cuda[:N] or wgpu
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

/// More images do not make a grid that anybody can open.
const MOST_IN_GRID: usize = 4096;

impl Args {
    pub(crate) fn run(self) -> Result<Done> {
        let grid = self.out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
        if grid && self.count > MOST_IN_GRID {
            bail!("a grid of {} images is too large to look at; give a folder as --out", self.count);
        }
        let run = RunDir::open(&self.run)?;
        let config = GanRunConfig::of(&run)?;
        let device = self.device.open()?.device;
        let generator = config.trained(&run, &device)?;
        let width = config.entry()?.latent;
        let latents = (0..self.count as u64).map(|index| self.latent(index, width));
        let mut kept: Vec<Image> = Vec::new();
        let mut number = 0u64;
        make(&generator, latents, self.micro_batch, &device, |images| {
            if grid {
                kept.extend(images);
                return Ok(());
            }
            for image in images {
                pictures::write_png(&image, &self.out.join(format!("{number:05}.png")))?;
                number += 1;
            }
            Ok(())
        })?;
        if grid {
            let columns = if self.interpolate { WAY } else { pictures::columns(kept.len()) };
            pictures::write_grid(&kept, columns, &self.out)?;
        }
        if let Some(path) = &self.latents {
            self.write_latents(path, width)?;
        }
        note!("{} images: {}", self.count, self.out.display());
        Ok(Done::Complete)
    }

    fn write_latents(&self, path: &Path, width: usize) -> Result<()> {
        let all: Vec<f32> = (0..self.count as u64).flat_map(|index| self.latent(index, width)).collect();
        let all = TensorData::new(all, [self.count, width]);
        let bytes = to_bytes(&[("latents".to_string(), all)].into(), None).map_err(anyhow::Error::msg)?;
        Ok(write_atomically(path, &bytes)?)
    }

    fn latent(&self, index: u64, width: usize) -> Vec<f32> {
        if !self.interpolate {
            return sample_latent(self.seed, index, width);
        }
        let (way, place) = (index / WAY as u64, index % WAY as u64);
        let end = |number| sample_latent(self.seed, number, width);
        between(&end(way), &end(way + 1), place as f64 / WAY as f64)
    }
}
