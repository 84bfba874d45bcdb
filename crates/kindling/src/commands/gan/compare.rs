//! Made images against real ones.

use anyhow::Result;
use burn::tensor::Device;
use kindling_data::{Dataset, Image, Preprocess, Split, read_guarded};
use kindling_gan_training::{Images, generate, sample_latent};
use kindling_metrics::Features;
use kindling_trainer::TrainError;
use kindling_zoo::GanGenerator;

use super::features::Extractor;
use super::pictures;

/// Images that are held at once on the way to their features.
const PIECE: usize = 64;

/// Makes images by number and hands them over in pieces.
pub(super) fn make(
    generator: &GanGenerator,
    latents: impl Iterator<Item = Vec<f32>>,
    micro_batch: usize,
    device: &Device,
    mut take: impl FnMut(Vec<Image>) -> Result<()>,
) -> Result<()> {
    generate(generator, latents, micro_batch, device, |fakes: Images| take(pictures::of(&fakes)))
}

/// The features of the first `count` images of a seed.
pub(super) fn of_fakes(
    extractor: &Extractor,
    generator: &GanGenerator,
    (seed, count, width): (u64, usize, usize),
    micro_batch: usize,
    device: &Device,
) -> Result<Features> {
    let mut values = Vec::new();
    let latents = (0..count as u64).map(|index| sample_latent(seed, index, width));
    let mut found = 1;
    make(generator, latents, micro_batch, device, |images| {
        let features = extractor.features(&images)?;
        found = features.width();
        (0..features.count()).for_each(|row| values.extend_from_slice(features.row(row)));
        Ok(())
    })?;
    Ok(Features::new(values, found)?)
}

/// The features of `count` evenly spaced real images, or of all if there are fewer.
pub(super) fn of_real(
    extractor: &Extractor,
    dataset: &Dataset,
    split: Split,
    preprocess: &Preprocess,
    count: usize,
) -> Result<Features> {
    let source = dataset.source(split);
    let count = count.min(source.len());
    let chosen: Vec<usize> = (0..count).map(|sample| sample * source.len() / count.max(1)).collect();
    of_real_at(extractor, dataset, split, preprocess, &chosen)
}

/// The features of some real images.
pub(super) fn of_real_at(
    extractor: &Extractor,
    dataset: &Dataset,
    split: Split,
    preprocess: &Preprocess,
    chosen: &[usize],
) -> Result<Features> {
    let source = dataset.source(split);
    let mut values = Vec::new();
    let mut width = 1;
    for piece in chosen.chunks(PIECE) {
        let images: Vec<Image> = piece
            .iter()
            .map(|&index| Ok(preprocess.fit(&read_guarded(source.as_ref(), index)?)))
            .collect::<Result<_>>()?;
        let features = extractor.features(&images)?;
        width = features.width();
        (0..features.count()).for_each(|row| values.extend_from_slice(features.row(row)));
    }
    Ok(Features::new(values, width)?)
}

/// An error of the command as one of the trainer, which ends the run with it.
pub(super) fn preview_failed(step: u64) -> impl Fn(anyhow::Error) -> TrainError {
    move |error| TrainError::Preview { step, reason: format!("{error:#}") }
}
