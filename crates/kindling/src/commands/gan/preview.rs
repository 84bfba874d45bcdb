//! What a run shows of its generator on the way: a grid from noise that stays the same, and distances.

use std::path::PathBuf;

use anyhow::Result;
use burn::tensor::Device;
use kindling_data::{Dataset, Image, Preprocess, Split};
use kindling_gan_training::{Preview, sample_latent};
use kindling_metrics::{Features, frechet_distance, kernel_distance};
use kindling_runs::{Event, RunDir, write_atomically};
use kindling_trainer::TrainError;
use kindling_zoo::GanGenerator;

use super::compare::{make, of_fakes, of_real, preview_failed};
use super::features::Extractor;
use super::pictures;

/// Images in a grid of small and of large images.
const SMALL_GRID: usize = 64;
const LARGE_GRID: usize = 9;

/// Looks at a generator.
pub(super) struct Looker<'a> {
    pub(super) run: &'a RunDir,
    pub(super) seed: u64,
    /// Numbers of a latent vector.
    pub(super) latent: usize,
    pub(super) image_size: usize,
    pub(super) micro_batch: usize,
    pub(super) device: Device,
    /// Where distances are measured, if they are.
    pub(super) ruler: Option<Ruler>,
}

/// What distances are measured with.
pub(super) struct Ruler {
    extractor: Extractor,
    real: Features,
}

impl Ruler {
    /// Features of `count` training images, or of all if there are fewer.
    pub(super) fn new(extractor: Extractor, dataset: &Dataset, preprocess: &Preprocess, count: usize) -> Result<Self> {
        let real = of_real(&extractor, dataset, Split::Train, preprocess, count)?;
        Ok(Self { extractor, real })
    }

    pub(super) fn name(&self) -> String {
        self.extractor.name()
    }
}

impl Looker<'_> {
    fn draw(&self, step: u64, generator: &GanGenerator) -> Result<Event> {
        let count = if self.image_size > 128 { LARGE_GRID } else { SMALL_GRID };
        let latents = (0..count as u64).map(|index| sample_latent(self.seed, index, self.latent));
        let mut images: Vec<Image> = Vec::with_capacity(count);
        make(generator, latents, self.micro_batch, &self.device, |fakes| {
            images.extend(fakes);
            Ok(())
        })?;
        let png = pictures::small_grid(&images)?;
        let folder = self.run.samples();
        std::fs::create_dir_all(&folder)?;
        let path = grid_path(self.run, step);
        write_atomically(&path, &png)?;
        let name = path.strip_prefix(self.run.path()).unwrap_or(&path).display().to_string();
        Ok(Event::Sampled { step, path: name })
    }

    fn compare(&self, ruler: &Ruler, step: u64, generator: &GanGenerator) -> Result<Event> {
        let samples = ruler.real.count();
        let of = (self.seed, samples, self.latent);
        let fakes = of_fakes(&ruler.extractor, generator, of, self.micro_batch, &self.device)?;
        let frechet = frechet_distance(&ruler.real, &fakes)?;
        let kernel = kernel_distance(&ruler.real, &fakes)?;
        Ok(Event::Compared { step, frechet, kernel, samples })
    }
}

impl Preview<GanGenerator> for Looker<'_> {
    fn look(&mut self, step: u64, generator: &GanGenerator) -> Result<Vec<Event>, TrainError> {
        let failed = preview_failed(step);
        let mut events = vec![self.draw(step, generator).map_err(&failed)?];
        if let Some(ruler) = &self.ruler {
            events.push(self.compare(ruler, step, generator).map_err(&failed)?);
        }
        Ok(events)
    }
}

/// Where the grid of an iteration lies.
pub(super) fn grid_path(run: &RunDir, step: u64) -> PathBuf {
    run.samples().join(format!("step-{step:08}.png"))
}
