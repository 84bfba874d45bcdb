//! Segmentation of images at their own size, in windows of the size that a model is fed.
//!
//! As in nnU-Net, logits of overlapping windows are averaged in float32 and only then become probabilities; of several views of an image
//! each is put together by itself, and their probabilities are averaged, as they are without windows. Windows are computed as many at a
//! time as fit, whatever the size of the image, and added in their order on the host.

use kindling_data::{Blend, BlendedRows, HostBatch, Image, Loader, Mask, Preprocess, Windows};
use kindling_ops::softmax_of_pixels;

use crate::error::TrainError;
use crate::inference::Inference;
use crate::logits::logits_of;
use crate::pieces::Pieces;
use crate::segmented::{Counted, ImageCounts, PixelEvaluation, SegmentedImage};
use crate::trainable::Trainable;
use crate::views::mean;

/// A model that sees images in windows.
pub struct InWindows<'a, M> {
    model: &'a M,
    preprocess: &'a Preprocess,
    overlap: f64,
    pieces: Pieces<'a>,
}

impl<'a, M: Trainable<4>> InWindows<'a, M> {
    /// Windows of the size that `preprocess` fits images to, each of which shares at least the part `overlap` of its side with the next: 0 or
    /// more, and below 1. The micro-batch of `inference` is how many are computed at once, at first; on the CPU it changes no bit.
    pub fn new(model: &'a M, preprocess: &'a Preprocess, overlap: f64, inference: &'a Inference<'a>) -> Self {
        Self { model, preprocess, overlap, pieces: Pieces::of(inference) }
    }

    /// The most probable class of each pixel of an image, which stays as large as it is.
    ///
    /// # Errors
    /// [`TrainError::InferenceOutOfMemory`] if a single window does not fit, or [`TrainError::Device`].
    pub fn mask(&mut self, image: Image) -> Result<Mask, TrainError> {
        let mut mask = Mask { width: image.width, height: image.height, classes: Vec::new() };
        self.segment(image, |rows| mask.classes.extend(rows.mask().classes))?;
        Ok(mask)
    }

    /// Tells `see` what the model says of the rows of an image: some at a time, from the top.
    fn segment(&mut self, image: Image, mut see: impl FnMut(&SegmentedImage)) -> Result<(), TrainError> {
        let (model, preprocess, pieces) = (self.model, self.preprocess, &mut self.pieces);
        let image = preprocess.at_own_size(image);
        let windows = Windows::over(image.width, image.height, preprocess.size, self.overlap);
        let inference = pieces.inference();
        let mut blends: Vec<Blend<'_>> = Vec::new();
        let mut start = 0;
        while start < windows.count() {
            let ask = |rows: std::ops::Range<usize>| {
                let batch = batch_of(&windows, &image, preprocess, rows.clone());
                let found = logits_of(model, &batch, rows, inference)?;
                Ok(found.into_iter().map(|logits| logits.views).collect::<Vec<_>>())
            };
            for found in pieces.next(windows.count(), start, ask)? {
                let classes = found.first().map_or(0, Vec::len) / (windows.side() * windows.side());
                blends.resize_with(found.len(), || Blend::new(&windows, classes));
                let rows: Vec<_> = blends.iter_mut().zip(&found).map(|(blend, found)| blend.add(found)).collect();
                if let Some(rows) = rows.into_iter().collect::<Option<Vec<BlendedRows>>>() {
                    see(&answer(&rows, classes, image.width));
                }
                start += 1;
            }
        }
        Ok(())
    }
}

/// Some of the windows of an image.
fn batch_of(windows: &Windows, image: &Image, preprocess: &Preprocess, rows: std::ops::Range<usize>) -> HostBatch {
    let (count, side) = (windows.count(), windows.side());
    HostBatch {
        images: rows.clone().flat_map(|window| windows.cut(image, preprocess, window)).collect(),
        first_row: rows.start,
        shape: [count, preprocess.channels, side, side],
        labels: vec![0; count],
        samples: vec![0; count],
        ..HostBatch::default()
    }
}

/// The probabilities of rows, from the logits of each view.
fn answer(views: &[BlendedRows], classes: usize, width: usize) -> SegmentedImage {
    let height = views.first().map_or(0, |rows| rows.height);
    let probabilities = mean(views.iter().map(|rows| softmax_of_pixels(&rows.values, classes)).collect());
    SegmentedImage { shape: [classes, height, width], probabilities }
}

/// As [`evaluate_pixels`](crate::evaluate_pixels), with images and masks at their own size, in windows: `see` is told the mask of each
/// sample at the size of its image. Processes divide the samples among each other.
///
/// # Errors
/// As [`evaluate_pixels`](crate::evaluate_pixels).
pub fn evaluate_in_windows<M: Trainable<4>>(
    model: &M,
    loader: &Loader,
    classes: usize,
    overlap: f64,
    inference: &Inference<'_>,
    mut progress: impl FnMut(usize),
    mut see: impl FnMut(u64, &Mask) -> Result<(), TrainError>,
) -> Result<PixelEvaluation, TrainError> {
    let mut found = Counted::default();
    let mut windows = InWindows::new(model, loader.preprocess(), overlap, inference);
    let (samples, size) = (loader.samples_per_epoch(), inference.ranks.map_or(1, |ranks| ranks.group().size()));
    let mine = inference.ranks.map_or(0..samples, |ranks| ranks.share(samples));
    for sample in mine {
        let sample = sample as u64;
        match loader.read_at_own_size(sample)? {
            Err(bad) => {
                loader.count_bad(std::slice::from_ref(&bad))?;
                found.bad.push(bad);
            }
            Ok((image, truth)) => {
                let mut mask = Mask { width: image.width, height: image.height, classes: Vec::new() };
                let mut counts = ImageCounts::new(classes);
                windows.segment(image, |rows| {
                    let (answer, start) = (rows.mask().classes, mask.classes.len());
                    counts.add(rows, &truth.classes[start..start + answer.len()], &answer);
                    mask.classes.extend(answer);
                })?;
                see(sample, &mask)?;
                found.images.push(counts);
            }
        }
        inference.lives();
        // The other ranks are about as far.
        progress((found.images.len() * size).min(samples));
    }
    found.evaluation(inference, loader, classes, windows.pieces.recoveries)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use burn::module::Module;
    use burn::tensor::{Device, Tensor};
    use kindling_data::Normalisation;
    use kindling_layers::{
        Activation, BatchNormConfig, Conv2dConfig, ConvNorm, ConvNormConfig, Precision, Segmenter, init,
    };

    use super::*;
    use crate::fault::Faults;
    use crate::segmented::segment;
    use crate::views::Views;

    const SIDE: usize = 16;

    /// Two convolutions, so that what is found at a pixel depends on the pixels around it.
    #[derive(Module, Debug)]
    struct Toy {
        first: ConvNorm,
        second: ConvNorm,
    }

    impl Toy {
        fn new(device: &Device) -> Self {
            let block = |input, output| {
                let conv = Conv2dConfig::new(input, output, 3, 1);
                ConvNormConfig { conv, norm: BatchNormConfig::default(), activation: Activation::HardSwish }
                    .init(device)
            };
            init::initialise(Self { first: block(1, 6), second: block(6, 3) }, 5)
        }
    }

    impl Segmenter for Toy {
        fn forward(&self, images: Tensor<4>) -> Tensor<4> {
            self.second.forward(self.first.forward(images))
        }
    }

    fn toy() -> (Device, Toy) {
        let device = Device::flex();
        let toy = Toy::new(&device);
        (device, toy)
    }

    fn preprocess() -> Preprocess {
        Preprocess::padded(SIDE, 1, Normalisation { mean: vec![0.4], std: vec![0.3] })
    }

    fn noise(width: usize, height: usize) -> Image {
        Image::from_u8(width, height, 1, (0..width * height).map(|at| ((at * 2_654_435_761) >> 9) as u8).collect())
    }

    /// The bits of the probabilities of every row, and the mask.
    fn in_windows(toy: &Toy, image: &Image, overlap: f64, inference: &Inference<'_>) -> (Vec<Vec<u64>>, Mask) {
        let preprocess = preprocess();
        let mut windows = InWindows::new(toy, &preprocess, overlap, inference);
        let mut found = vec![Vec::new(); 3];
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        windows
            .segment(image.clone(), |rows| {
                let of_class = rows.probabilities.chunks_exact(rows.shape[1] * rows.shape[2]);
                found.iter_mut().zip(of_class).for_each(|(all, rows)| all.extend(bits(rows)));
            })
            .unwrap();
        (found, windows.mask(image.clone()).unwrap())
    }

    #[test]
    fn one_window_equals_the_plain_forward_pass_to_the_bit() {
        let (device, toy) = toy();
        for (precision, views) in [(Precision::F32, Views::Alone), (Precision::F32, Views::Flip)] {
            let (image, preprocess) = (noise(SIDE, SIDE), preprocess());
            let batch = HostBatch {
                images: preprocess.apply(&image),
                shape: [1, 1, SIDE, SIDE],
                labels: vec![0],
                samples: vec![0],
                ..HostBatch::default()
            };
            let inference = Inference::new(&device, 4, precision).seeing(views);
            let plain = segment(&toy, &batch, 0..1, &inference).unwrap().remove(0);
            let (found, mask) = in_windows(&toy, &image, 0.5, &inference);
            assert_eq!(found.concat(), plain.probabilities.iter().map(|p| p.to_bits()).collect::<Vec<_>>());
            assert_eq!(mask, plain.mask());
        }
    }

    #[test]
    fn how_many_windows_are_computed_at_once_changes_no_bit() {
        let (device, toy) = toy();
        for (width, height, views) in
            [(50, 37, Views::Alone), (50, 37, Views::Flip), (9, 60, Views::Alone), (40, 5, Views::Flip)]
        {
            let image = noise(width, height);
            let inference = |at_once| Inference::new(&device, at_once, Precision::F32).seeing(views);
            let of = |at_once| in_windows(&toy, &image, 0.5, &inference(at_once));
            let one = of(1);
            assert!(one.0.iter().all(|class| class.len() == width * height), "every pixel has its probabilities");
            assert_eq!((one.1.width, one.1.height, one.1.classes.len()), (width, height, width * height));
            assert!(one.1.present().len() > 1, "more than one class is found");
            for at_once in [2, 3, 7, 1000] {
                assert!(of(at_once) == one, "{at_once} windows at once, {width} x {height}");
            }
        }
    }

    #[test]
    fn a_lack_of_memory_means_fewer_windows_at_once_and_changes_no_bit() {
        let (device, toy) = toy();
        let image = noise(50, 37);
        let plain = Inference::new(&device, 8, Precision::F32);
        let faults: Faults = "oom@step=0,phase=eval,micro=1;oom@step=0,phase=eval,micro=2".parse().unwrap();
        let failing = Inference { faults: Some((&faults, 0)), ..plain };
        let preprocess = preprocess();
        let mut windows = InWindows::new(&toy, &preprocess, 0.5, &failing);
        let found = windows.mask(image.clone()).unwrap();
        let levers: Vec<&str> = windows.pieces.recoveries.iter().map(|recovery| recovery.lever.as_str()).collect();
        assert_eq!(levers, ["freed what was cached", "8 -> 4 images at once"]);
        assert_eq!(found, in_windows(&toy, &image, 0.5, &plain).1);
    }
}
