//! The training image that is nearest to a fake one: what was learnt by heart shows here.

use anyhow::Result;
use kindling_data::{Dataset, Image, Interpolation, Normalisation, Preprocess, Split, read_guarded};
use kindling_metrics::{Features, nearest};

use super::compare::of_real_at;
use super::features::Extractor;

/// Side of the thumbnails that candidates are found by, in all of the training images.
const THUMBNAIL: usize = 16;
/// Candidates that are looked at closer.
const CANDIDATES: usize = 20;

/// The nearest training image of a fake one.
pub(super) struct Nearest {
    /// Its index in the training split.
    pub(super) sample: usize,
    /// What it is called.
    pub(super) name: String,
    /// Distance of the features.
    pub(super) distance: f64,
    /// Fitted to the generator's images.
    pub(super) image: Image,
}

/// The nearest training image for each of `fakes`: of the twenty nearest by a thumbnail's pixels, among all training
/// images, the nearest by features.
pub(super) fn find(
    extractor: &Extractor,
    dataset: &Dataset,
    preprocess: &Preprocess,
    fakes: &[Image],
) -> Result<Vec<Nearest>> {
    let source = dataset.source(Split::Train);
    let channels = preprocess.channels;
    let small = Preprocess {
        interpolation: Interpolation::Bilinear,
        ..Preprocess::padded(THUMBNAIL, channels, Normalisation::identity(channels))
    };
    let thumbnail = |image: &Image| small.apply(image).into_iter().map(f64::from).collect::<Vec<f64>>();
    let width = THUMBNAIL * THUMBNAIL * channels;
    let of_fakes = Features::new(fakes.iter().flat_map(&thumbnail).collect(), width)?;
    let mut values = Vec::with_capacity(source.len() * width);
    for index in 0..source.len() {
        values.extend(thumbnail(&read_guarded(source.as_ref(), index)?));
    }
    let candidates = nearest(&of_fakes, &Features::new(values, width)?, CANDIDATES)?;
    fakes
        .iter()
        .zip(candidates)
        .map(|(image, candidates)| {
            let chosen: Vec<usize> = candidates.iter().map(|neighbour| neighbour.index).collect();
            let features = of_real_at(extractor, dataset, Split::Train, preprocess, &chosen)?;
            let own = extractor.features(std::slice::from_ref(image))?;
            let found = nearest(&own, &features, 1)?;
            let found = found.first().and_then(|row| row.first().copied());
            let (sample, distance) = found.map_or((chosen[0], f64::NAN), |it| (chosen[it.index], it.distance));
            let image = preprocess.fit(&read_guarded(source.as_ref(), sample)?);
            Ok(Nearest { sample, name: source.name_of(sample), distance, image })
        })
        .collect()
}
