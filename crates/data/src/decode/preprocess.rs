//! From an image of any size to what the model is fed: the same for training, evaluation and prediction.

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::{F32, F32x3};
use fast_image_resize::{FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer};
use serde::{Deserialize, Serialize};

use super::samples::{STRIP, Samples};
use super::{Image, Normalisation};
use crate::error::DataError;
use kindling_given::within;

/// The longest side of an image that a network is fed, in pixels.
const MOST_SIDE: usize = 1 << 14;
/// The largest mean or standard deviation of values in `[0, 1]`, far above any that is of use.
const MOST_VALUE: f32 = 1e3;

/// How an image becomes model input. Stored with a run, so that prediction does exactly the same.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Preprocess {
    /// The side of the square input, in pixels: 1 to 16,384, and what the model takes.
    pub size: usize,
    /// 1 (grey) or 3 (RGB).
    pub channels: usize,
    /// Applied last, by channel.
    pub normalisation: Normalisation,
    /// How a rectangle becomes a square.
    #[serde(default)]
    pub fit: Fit,
    /// How pixels between pixels are computed.
    #[serde(default)]
    pub interpolation: Interpolation,
    /// If given, the values of each image are stretched so that these shares of its pixels lie below 0 and 1, and what lies
    /// beyond is clamped: for scanners whose numbers mean something else in every scan. Padding does not count.
    #[serde(default, with = "kindling_given::none")]
    pub percentiles: Option<[f32; 2]>,
}

/// How a rectangle becomes a square.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// The longer side becomes the square's, and the rest is zero on both sides: nothing of a scan is lost.
    #[default]
    Pad,
    /// The shorter side is scaled to this many pixels, and the middle is cut out: what pretrained weights are measured
    /// with.
    Crop(usize),
}

/// How pixels between pixels are computed; always with antialiasing, on floats.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// Triangle filter.
    #[default]
    Bilinear,
    /// Cubic filter with `a` = -0.5, as Pillow has it.
    Bicubic,
}

impl Preprocess {
    /// Padded, bilinear.
    pub fn padded(size: usize, channels: usize, normalisation: Normalisation) -> Self {
        Self { size, channels, normalisation, fit: Fit::Pad, interpolation: Interpolation::Bilinear, percentiles: None }
    }

    /// Checks numbers that were read from a file.
    ///
    /// # Errors
    /// A sentence that names the first that cannot be, and its range.
    pub fn check(&self) -> Result<(), String> {
        within("image size", self.size, 1..=MOST_SIDE)?;
        if ![1, 3].contains(&self.channels) {
            return Err(format!("the number of channels is {}; images have 1 (grey) or 3 (RGB)", self.channels));
        }
        if let Fit::Crop(shorter) = self.fit {
            within("shorter side before cropping", shorter, 1..=MOST_SIDE)?;
        }
        let Normalisation { mean, std } = &self.normalisation;
        for (what, values, range) in [("mean", mean, -MOST_VALUE..=MOST_VALUE), ("std", std, 1e-6..=MOST_VALUE)] {
            if values.len() != 1 && values.len() != self.channels {
                let (count, channels) = (values.len(), self.channels);
                return Err(format!(
                    "{what} has {count} entries for {channels} channels; give one for all or one for each"
                ));
            }
            values.iter().try_for_each(|value| within(&format!("{what} of a channel"), *value, range.clone()))?;
        }
        match self.percentiles {
            Some([low, high]) if !(0.0 <= low && low < high && high <= 1.0) => {
                Err(format!("the percentiles are {low} and {high}; they must rise and lie between 0 and 1"))
            }
            _ => Ok(()),
        }
    }

    /// The image as `size` x `size` pixels of `channels` channels in `[0, 1]`, scaled up or down and never stretched;
    /// then padded or cropped.
    pub fn fit(&self, image: &Image) -> Image {
        let (width, height) = self.scaled(image.width, image.height);
        self.place(if self.channels < image.channels {
            // The cheaper way round: fewer channels to scale.
            scale(&image.in_channels(self.channels), width, height, self.interpolation)
        } else {
            scale(image, width, height, self.interpolation)
        })
    }

    /// [`Preprocess::fit`] of an image whose samples are not floats yet, with the same bits.
    ///
    /// # Errors
    /// As [`Samples::next_rows`].
    pub(crate) fn fit_samples(&self, mut samples: Samples<'_>) -> Result<Image, DataError> {
        let (width, height) = self.scaled(samples.width, samples.height);
        if width == samples.width {
            return Ok(self.fit_owned(samples.into_image()?));
        }
        // What scales an image makes its rows shorter first, each by itself, and then fewer.
        let channels = self.channels.min(samples.channels);
        let mut short = Image { width, height: samples.height, channels, pixels: Vec::new() };
        short.pixels.reserve_exact(width * samples.height * channels);
        for _ in 0..samples.height.div_ceil(STRIP) {
            let rows = samples.next_rows()?.into_channels(channels);
            resample(&rows, width, rows.height, self.interpolation, &mut short.pixels);
        }
        drop(samples);
        let scaled = scale(&short, width, height, self.interpolation);
        drop(short);
        Ok(self.place(scaled))
    }

    /// The most floats that [`Preprocess::fit_samples`] holds while it makes those of a strip, while it makes the strip's rows
    /// shorter, and when no samples are left.
    pub(crate) fn floats_to_fit(&self, width: usize, height: usize, channels: usize) -> [usize; 3] {
        let (to_width, to_height) = self.scaled(width, height);
        let kept = self.channels.min(channels);
        let (strip, scaled) = (STRIP.min(height) * width * channels, to_width * to_height * kept);
        let place = self.floats_to_place(to_width, to_height, kept);
        if to_width == width {
            let whole = width * height * channels;
            let fewer = if kept < channels { scaled } else { 0 };
            let fit = if self.leaves(width, height, channels) { 0 } else { (scaled + fewer).max(place) };
            return [whole + strip, whole + strip, whole + fit];
        }
        let short = to_width * height * kept;
        let all_channels = if kept < channels { width * channels } else { 0 };
        let row = width * kept + all_channels.max(to_width * kept);
        [short + strip, short + STRIP.min(height) * row, (short + 2 * scaled).max(place)]
    }

    /// The most floats that [`Preprocess::place`] holds.
    fn floats_to_place(&self, width: usize, height: usize, kept: usize) -> usize {
        let scaled = width * height * self.channels;
        let square = self.size * self.size * self.channels;
        let other_channels = if kept == self.channels { 0 } else { width * height * kept };
        let sorted = if self.percentiles.is_some() { scaled } else { 0 };
        let copy = if self.fit == Fit::Pad && (width, height) == (self.size, self.size) { 0 } else { square };
        scaled + other_channels.max(sorted).max(copy)
    }

    /// The size that an image is scaled to before it is padded or cropped.
    pub(super) fn scaled(&self, width: usize, height: usize) -> (usize, usize) {
        let (reference, target) = match self.fit {
            Fit::Pad => (width.max(height), self.size),
            Fit::Crop(shorter) => (width.min(height), shorter.max(self.size)),
        };
        let side = |pixels: usize| ((pixels * target) as f64 / reference.max(1) as f64).round().max(1.0) as usize;
        (side(width), side(height))
    }

    /// Position in the square, in pixels, of the first of `scaled` pixels along a side; negative where the middle is cut out. Half a
    /// pixel is rounded down where the image is padded, and to the even number where it is cropped.
    pub(super) fn start(&self, scaled: usize) -> isize {
        match self.fit {
            Fit::Pad => (self.size as isize - scaled as isize) / 2,
            Fit::Crop(_) => -(((scaled - self.size) as f64 / 2.0).round_ties_even() as isize),
        }
    }

    /// Turns a scaled image into the square: channels, percentiles, and padding or cropping.
    fn place(&self, scaled: Image) -> Image {
        let scaled = self.stretched(scaled.into_channels(self.channels));
        let [left, top] = [scaled.width, scaled.height].map(|side| self.start(side).unsigned_abs());
        match self.fit {
            Fit::Pad => pad(scaled, self.size, left, top),
            Fit::Crop(_) => crop(&scaled, self.size, left, top),
        }
    }

    /// The image with its values stretched by percentiles, where these are asked for.
    pub(super) fn stretched(&self, image: Image) -> Image {
        match self.percentiles {
            Some(shares) => stretch(image, shares),
            None => image,
        }
    }

    /// [`Preprocess::fit`] of an owned image: one that has the right shape already is returned without a copy.
    pub fn fit_owned(&self, image: Image) -> Image {
        if self.leaves(image.width, image.height, image.channels) { image } else { self.fit(&image) }
    }

    /// Whether an image stays what it is.
    fn leaves(&self, width: usize, height: usize, channels: usize) -> bool {
        let fits = (width, height, channels) == (self.size, self.size, self.channels);
        // A crop of a scaled image is not the image.
        let untouched = match self.fit {
            Fit::Pad => true,
            Fit::Crop(shorter) => shorter <= self.size,
        };
        fits && untouched && self.percentiles.is_none()
    }

    /// A fitted image as `[channels, size, size]`, normalised.
    pub fn to_tensor(&self, fitted: &Image) -> Vec<f32> {
        let mut tensor = vec![0.0; fitted.pixels.len()];
        self.write_tensor(fitted, &mut tensor);
        tensor
    }

    /// The way back from a tensor: an image to look at, clamped to `[0, 1]`. Panics unless the tensor is one image.
    pub fn to_image(&self, tensor: &[f32]) -> Image {
        assert_eq!(tensor.len(), self.channels * self.size * self.size, "the tensor of one image");
        let mut image = Image::filled(self.size, self.size, self.channels, 0.0);
        for (channel, plane) in tensor.chunks_exact(self.size * self.size).enumerate() {
            let (mean, std) = self.normalisation.of(channel);
            let values = image.pixels.iter_mut().skip(channel).step_by(self.channels);
            values.zip(plane).for_each(|(to, value)| *to = (value * std + mean).clamp(0.0, 1.0));
        }
        image
    }

    /// [`Preprocess::fit`] and [`Preprocess::to_tensor`].
    pub fn apply(&self, image: &Image) -> Vec<f32> {
        self.to_tensor(&self.fit(image))
    }

    /// [`Preprocess::to_tensor`] into a place of a batch, which is as long as the image has values.
    pub(crate) fn write_tensor(&self, fitted: &Image, tensor: &mut [f32]) {
        assert_eq!(fitted.pixels.len(), tensor.len(), "an image has the place of its size");
        let area = (fitted.width * fitted.height).max(1);
        if let (3, Some((red, rest))) = (fitted.channels, tensor.split_at_mut_checked(area))
            && let Some((green, blue)) = rest.split_at_mut_checked(area)
        {
            // One pass over the pixels instead of three.
            let [red_by, green_by, blue_by] = [0, 1, 2].map(|channel| self.normalisation.of(channel));
            let (pixels, _) = fitted.pixels.as_chunks::<3>();
            for (((pixel, red), green), blue) in pixels.iter().zip(red).zip(green).zip(blue) {
                *red = (pixel[0] - red_by.0) / red_by.1;
                *green = (pixel[1] - green_by.0) / green_by.1;
                *blue = (pixel[2] - blue_by.0) / blue_by.1;
            }
            return;
        }
        for (channel, plane) in tensor.chunks_exact_mut(area).enumerate() {
            let (mean, std) = self.normalisation.of(channel);
            let values = fitted.pixels.iter().skip(channel).step_by(fitted.channels);
            plane.iter_mut().zip(values).for_each(|(to, value)| *to = (value - mean) / std);
        }
    }
}

/// The image with these shares of its values below 0 and 1, and the rest between.
fn stretch(mut image: Image, shares: [f32; 2]) -> Image {
    let mut values = image.pixels.clone();
    let last = values.len().saturating_sub(1);
    let mut at = |share: f32| {
        let place = (share.clamp(0.0, 1.0) * last as f32).round() as usize;
        if values.is_empty() { 0.0 } else { *values.select_nth_unstable_by(place.min(last), f32::total_cmp).1 }
    };
    let [low, high] = shares.map(&mut at);
    // An image of one value is all zeros.
    let range = (high - low).max(1e-6);
    image.pixels.iter_mut().for_each(|value| *value = ((*value - low) / range).clamp(0.0, 1.0));
    image
}

/// The image at another size, antialiased.
pub(crate) fn scale(image: &Image, width: usize, height: usize, interpolation: Interpolation) -> Image {
    if (image.width, image.height) == (width, height) {
        return image.clone();
    }
    let mut pixels = Vec::with_capacity(width * height * image.channels);
    resample(image, width, height, interpolation, &mut pixels);
    pixels.iter_mut().for_each(|value| *value = value.clamp(0.0, 1.0));
    Image { width, height, channels: image.channels, pixels }
}

/// Appends the values of the image at another size, which a cubic filter may put outside `[0, 1]`.
fn resample(image: &Image, width: usize, height: usize, interpolation: Interpolation, values: &mut Vec<f32>) {
    match image.channels {
        1 => values.extend(resampled::<F32>(image, width, height, interpolation).pixels().iter().map(|pixel| pixel.0)),
        _ => values
            .extend(resampled::<F32x3>(image, width, height, interpolation).pixels().iter().flat_map(|pixel| pixel.0)),
    }
}

/// The image is read where it lies: scans are large, and a copy of one in floats is larger.
fn resampled<P: PixelTrait>(
    image: &Image,
    width: usize,
    height: usize,
    interpolation: Interpolation,
) -> TypedImage<'static, P> {
    let filter = match interpolation {
        Interpolation::Bilinear => FilterType::Bilinear,
        Interpolation::Bicubic => FilterType::CatmullRom,
    };
    let values = bytemuck::cast_slice(&image.pixels);
    let source = TypedImageRef::<P>::from_buffer(image.width as u32, image.height as u32, values);
    let source = source.expect("an image has width * height pixels");
    let mut target = TypedImage::<P>::new(width as u32, height as u32);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter)).use_alpha(false);
    Resizer::new()
        .resize_typed(&source, &mut target, &options)
        .expect("without a crop box any size can become any other");
    target
}

/// The square of the image that begins at a pixel.
fn crop(image: &Image, size: usize, left: usize, top: usize) -> Image {
    let row = image.width * image.channels;
    let lines = image.pixels.chunks_exact(row).skip(top).take(size);
    let pixels = lines.flat_map(|line| &line[left * image.channels..(left + size) * image.channels]);
    Image { width: size, height: size, channels: image.channels, pixels: pixels.copied().collect() }
}

/// The image at a place in a square of zeros.
fn pad(image: Image, size: usize, left: usize, top: usize) -> Image {
    if (image.width, image.height) == (size, size) {
        return image;
    }
    let mut padded = Image::filled(size, size, image.channels, 0.0);
    let row = image.width * image.channels;
    for (y, line) in image.pixels.chunks_exact(row).enumerate() {
        let start = ((top + y) * size + left) * image.channels;
        padded.pixels[start..start + row].copy_from_slice(line);
    }
    padded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use image::{DynamicImage, GrayAlphaImage, GrayImage, ImageBuffer, Rgb, RgbImage, RgbaImage};

    use super::*;

    fn to(size: usize, channels: usize) -> Preprocess {
        Preprocess::padded(size, channels, Normalisation::identity(channels))
    }

    #[test]
    fn slices_are_padded_never_stretched() {
        // Twice as wide as high, up and down: the same shape in the middle, zeros above and below.
        for (width, height) in [(20, 10), (100, 50), (64, 32)] {
            let fitted = to(64, 1).fit(&Image::filled(width, height, 1, 0.5));
            assert_eq!((fitted.width, fitted.height, fitted.pixels.len()), (64, 64, 64 * 64));
            for (y, row) in fitted.pixels.chunks_exact(64).enumerate() {
                let expected = if (16..48).contains(&y) { 0.5 } else { 0.0 };
                assert!(row.iter().all(|v| (v - expected).abs() < 1e-6), "row {y} of {width}x{height}");
            }
        }
        let tall = to(64, 1).fit(&Image::filled(10, 20, 1, 0.5));
        assert_eq!((tall.at(15, 30, 0), tall.at(48, 30, 0)), (0.0, 0.0));
        assert!((tall.at(16, 0, 0) - 0.5).abs() < 1e-6 && (tall.at(47, 63, 0) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn a_crop_is_the_middle_of_the_scaled_image() {
        // A ramp from left to right, twice as wide as high: the middle half of it is left, and all of its height.
        let pixels: Vec<f32> = (0..32).flat_map(|_| (0..64).map(|x| x as f32 / 63.0)).collect();
        let image = Image { width: 64, height: 32, channels: 1, pixels };
        let same = Preprocess { fit: Fit::Crop(32), ..to(32, 1) }.fit(&image);
        assert_eq!((same.width, same.height), (32, 32));
        assert_eq!((same.at(0, 0, 0), same.at(31, 31, 0)), (image.at(16, 0, 0), image.at(47, 31, 0)));
        for interpolation in [Interpolation::Bilinear, Interpolation::Bicubic] {
            let half = Preprocess { fit: Fit::Crop(20), interpolation, ..to(16, 1) }.fit(&image);
            let middle = (half.at(7, 8, 0) + half.at(8, 8, 0)) / 2.0;
            assert!((middle - 0.5).abs() < 1e-3, "{interpolation:?}: {middle}");
        }
    }

    #[test]
    fn an_image_of_the_right_size_is_not_touched() {
        let pixels: Vec<f32> = (0..256 * 256).map(|v| v as f32 / 65_535.0).collect();
        let image = Image { width: 256, height: 256, channels: 1, pixels };
        assert_eq!(to(256, 1).fit(&image), image);
    }

    #[test]
    fn percentiles_stretch_each_image_by_its_own_values_and_leave_padding_alone() {
        // 1000 levels between 0.2 and 0.4, and one pixel that burns.
        let mut pixels: Vec<f32> = (0..1000).map(|v| 0.2 + 0.2 * v as f32 / 999.0).collect();
        pixels[17] = 1.0;
        let image = Image { width: 40, height: 25, channels: 1, pixels };
        let preprocess = Preprocess { percentiles: Some([0.01, 0.99]), ..to(40, 1) };
        let fitted = preprocess.fit(&image);
        let middle = &fitted.pixels[7 * 40..32 * 40];
        assert_eq!((middle[0], middle[17], middle[999]), (0.0, 1.0, 1.0));
        assert!((middle[500] - 0.5).abs() < 0.01, "{}", middle[500]);
        assert!(fitted.pixels[..7 * 40].iter().all(|v| *v == 0.0));
        assert_eq!(preprocess.fit_owned(image.clone()), fitted);
        let darker = Image { pixels: image.pixels.iter().map(|v| v / 2.0).collect(), ..image };
        assert!(preprocess.fit(&darker).pixels.iter().zip(&fitted.pixels).all(|(a, b)| (a - b).abs() < 1e-4));
        let flat = Preprocess { percentiles: Some([0.01, 0.99]), ..to(8, 3) }.fit(&Image::filled(8, 8, 3, 0.7));
        assert!(flat.pixels.iter().all(|v| *v == 0.0));
    }

    #[test]
    fn samples_are_fitted_to_the_bits_of_their_floats() {
        let noise = |count: usize| (0..count).map(|v| ((v * 2_654_435_761) >> 7) as u8).collect::<Vec<u8>>();
        let words =
            |count| noise(count).into_iter().map(|v| (u16::from(v) * 257).wrapping_add(3)).collect::<Vec<u16>>();
        let fits = [(Fit::Pad, 48), (Fit::Crop(70), 64), (Fit::Pad, 160)];
        for (width, height) in [(301, 203), (97, 130), (64, 64), (63, 200), (160, 67), (1, 90), (500, 1)] {
            let (w, h, count) = (width as u32, height as u32, width * height);
            let images: [DynamicImage; 5] = [
                GrayImage::from_raw(w, h, noise(count)).unwrap().into(),
                GrayAlphaImage::from_raw(w, h, noise(count * 2)).unwrap().into(),
                RgbImage::from_raw(w, h, noise(count * 3)).unwrap().into(),
                RgbaImage::from_raw(w, h, noise(count * 4)).unwrap().into(),
                ImageBuffer::<Rgb<u16>, _>::from_raw(w, h, words(count * 3)).unwrap().into(),
            ];
            for (image, (fit, size)) in images.iter().flat_map(|image| fits.map(|fit| (image, fit))) {
                for (channels, interpolation) in [(1, Interpolation::Bilinear), (3, Interpolation::Bicubic)] {
                    let preprocess = Preprocess { fit, interpolation, ..to(size, channels) };
                    let samples = || Samples::of(Path::new("noise"), image.clone()).unwrap();
                    let whole = preprocess.fit(&samples().into_image().unwrap());
                    assert_eq!(
                        preprocess.fit_samples(samples()).unwrap(),
                        whole,
                        "{width}x{height} {:?}",
                        image.color()
                    );
                }
            }
        }
    }

    #[test]
    fn even_a_line_of_pixels_fits() {
        for (width, height) in [(1, 1), (5000, 1), (1, 5000)] {
            for channels in [1, 3] {
                let fitted = to(32, 3).fit(&Image::filled(width, height, channels, 1.0));
                assert_eq!(fitted.pixels.len(), 32 * 32 * 3);
                assert!(fitted.pixels.iter().any(|&v| v > 0.99));
            }
        }
    }

    #[test]
    fn tensors_are_planes_normalised_by_channel() {
        let normalisation = Normalisation { mean: vec![0.0, 0.5, 1.0], std: vec![1.0, 0.5, 0.25] };
        let preprocess = Preprocess::padded(2, 3, normalisation);
        let image = Image { pixels: [0.25, 0.5, 0.75].repeat(4), ..Image::filled(2, 2, 3, 0.0) };
        let expected = [[0.25; 4], [0.0; 4], [-1.0; 4]].concat();
        assert_eq!(preprocess.apply(&image), expected);
        assert_eq!(preprocess.to_tensor(&preprocess.fit(&image)), expected);
        assert_eq!(preprocess.to_image(&expected), image);
    }

    #[test]
    fn shrinking_averages_instead_of_skipping() {
        let pixels = (0..64 * 64).map(|i| ((i % 64 + i / 64) % 2) as f32).collect();
        let board = Image { width: 64, height: 64, channels: 1, pixels };
        let fitted = to(16, 1).fit(&board);
        assert!(fitted.pixels.iter().all(|v| (v - 0.5).abs() < 0.1));
    }

    #[test]
    fn a_stored_preprocess_comes_back_the_same() {
        let normalisation = Normalisation { mean: vec![0.123_456_79], std: vec![0.3] };
        let preprocess = Preprocess::padded(512, 1, normalisation);
        let text = serde_json::to_string(&preprocess).unwrap();
        assert_eq!(serde_json::from_str::<Preprocess>(&text).unwrap(), preprocess);
    }
}
