//! Mean and standard deviation of the pixels of a source.

use super::{OnBadSample, Source, guarded};
use crate::decode::{Normalisation, Preprocess};
use crate::error::DataError;

impl Normalisation {
    /// Measures at most `at_most` evenly spaced samples, fitted to `size` (padding included, since the model sees it
    /// too). The same source gives the same numbers. A channel without any variation gets a deviation of 1.
    ///
    /// # Errors
    /// The first sample that cannot be read, or [`DataError::NoSamples`].
    pub fn measure(source: &dyn Source, channels: usize, size: usize, at_most: usize) -> Result<Self, DataError> {
        Self::measure_fitted(
            source,
            &Preprocess::padded(size, channels, Self::identity(channels)),
            at_most,
            OnBadSample::Fail,
        )
    }

    /// [`Normalisation::measure`] of images prepared as they will be, whatever the normalisation in `fit`. Where bad samples
    /// are skipped they are left out here too.
    ///
    /// # Errors
    /// The first sample that cannot be read unless bad samples are skipped, or [`DataError::NoSamples`].
    pub fn measure_fitted(
        source: &dyn Source,
        fit: &Preprocess,
        at_most: usize,
        on_bad: OnBadSample,
    ) -> Result<Self, DataError> {
        let (channels, size) = (fit.channels, fit.size);
        let taken = source.len().min(at_most);
        let mut measured = 0;
        let (mut sum, mut squares) = (vec![0.0f64; channels], vec![0.0f64; channels]);
        for sample in 0..taken {
            let index = sample * source.len() / taken;
            let fitted = match guarded(source, index, || Ok(fit.fit(&source.read(index)?))) {
                Ok(fitted) => fitted,
                Err(_) if on_bad == OnBadSample::Skip => continue,
                Err(error) => return Err(error),
            };
            measured += 1;
            for pixel in fitted.pixels.chunks_exact(channels) {
                for (channel, &value) in pixel.iter().enumerate() {
                    sum[channel] += f64::from(value);
                    squares[channel] += f64::from(value) * f64::from(value);
                }
            }
        }
        if measured == 0 {
            return Err(DataError::NoSamples { purpose: "measure the normalisation on" });
        }
        let count = (measured * size * size) as f64;
        let mean: Vec<f64> = sum.iter().map(|sum| sum / count).collect();
        let std = squares.iter().zip(&mean).map(|(squares, mean)| {
            let std = (squares / count - mean * mean).max(0.0).sqrt() as f32;
            if std < 1e-6 { 1.0 } else { std }
        });
        Ok(Self { std: std.collect(), mean: mean.iter().map(|&mean| mean as f32).collect() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::decode::Image;

    /// `count` flat images; image `i` has the value `i / 10`.
    struct Flat(usize);

    impl Source for Flat {
        fn len(&self) -> usize {
            self.0
        }
        fn label(&self, _: usize) -> usize {
            0
        }
        fn read(&self, index: usize) -> Result<Image, DataError> {
            Ok(Image::filled(8, 8, 1, index as f32 / 10.0))
        }
        fn name_of(&self, index: usize) -> String {
            index.to_string()
        }
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_pixels() {
        let measured = Normalisation::measure(&Flat(5), 3, 4, 100).unwrap();
        for channel in 0..3 {
            assert!((measured.mean[channel] - 0.2).abs() < 1e-6);
            assert!((measured.std[channel] - 0.02f32.sqrt()).abs() < 1e-6);
        }
        assert_eq!(measured, Normalisation::measure(&Flat(5), 3, 4, 5).unwrap());
    }

    #[test]
    fn a_sample_of_the_images_is_spread_over_all_of_them() {
        // Of ten, the images 0, 2, 4, 6 and 8.
        let measured = Normalisation::measure(&Flat(10), 1, 8, 5).unwrap();
        assert!((measured.mean[0] - 0.4).abs() < 1e-6);
    }

    #[test]
    fn flat_images_are_not_divided_by_zero_and_none_at_all_is_an_error() {
        assert_eq!(Normalisation::measure(&Flat(1), 1, 8, 5).unwrap().std, [1.0]);
        assert!(matches!(Normalisation::measure(&Flat(0), 1, 8, 5), Err(DataError::NoSamples { .. })));
    }
}
