//! An image in host memory, and how many bits it needs.

use serde::Serialize;

/// An image of `width` x `height` pixels with 1 (grey) or 3 (RGB) channels.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// Rows from the top, pixels from the left, channels interleaved: `height * width * channels` values in `[0, 1]`.
    /// 16-bit samples are kept exactly (f32 holds 24 bits).
    pub pixels: Vec<f32>,
}

impl Image {
    /// An image of 8-bit samples, rows from the top, channels interleaved; 0 to 255 become 0 to 1. Panics unless there
    /// are `width * height * channels` samples.
    pub fn from_u8(width: usize, height: usize, channels: usize, samples: Vec<u8>) -> Self {
        let pixels = samples.iter().map(|&sample| f32::from(sample) / 255.0).collect();
        Self::of(width, height, channels, pixels)
    }

    /// An image of 16-bit samples, as [`Image::from_u8`]; 0 to 65 535 become 0 to 1, and no two values become one.
    pub fn from_u16(width: usize, height: usize, channels: usize, samples: Vec<u16>) -> Self {
        let pixels = samples.iter().map(|&sample| f32::from(sample) / 65_535.0).collect();
        Self::of(width, height, channels, pixels)
    }

    /// An image of values in `[0, 1]`, as [`Image::from_u8`]; values outside are clamped, and what is not a number is 0.
    pub fn from_f32(width: usize, height: usize, channels: usize, mut samples: Vec<f32>) -> Self {
        for sample in &mut samples {
            *sample = if sample.is_nan() { 0.0 } else { sample.clamp(0.0, 1.0) };
        }
        Self::of(width, height, channels, samples)
    }

    fn of(width: usize, height: usize, channels: usize, pixels: Vec<f32>) -> Self {
        assert!(channels == 1 || channels == 3, "an image has 1 or 3 channels, not {channels}");
        let count = width.checked_mul(height).and_then(|area| area.checked_mul(channels));
        assert_eq!(count, Some(pixels.len()), "an image of {width} x {height} x {channels} samples");
        Self { width, height, channels, pixels }
    }

    /// An image whose pixels all have one value.
    pub fn filled(width: usize, height: usize, channels: usize, value: f32) -> Self {
        Self { width, height, channels, pixels: vec![value; width * height * channels] }
    }

    /// The value of one channel of one pixel. Panics outside the image.
    pub fn at(&self, x: usize, y: usize, channel: usize) -> f32 {
        self.pixels[(y * self.width + x) * self.channels + channel]
    }

    /// The image with `channels` channels: grey is repeated, RGB becomes luma (ITU-R 601-2, as in Pillow).
    pub fn into_channels(self, channels: usize) -> Self {
        if self.channels == channels { self } else { self.in_channels(channels) }
    }

    /// [`Image::into_channels`] of an image that is needed as it is, too.
    pub(crate) fn in_channels(&self, channels: usize) -> Self {
        let pixels = match (self.channels, channels) {
            (1, 3) => self.pixels.iter().flat_map(|&v| [v; 3]).collect(),
            (3, 1) => self.pixels.chunks_exact(3).map(|p| 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]).collect(),
            _ => return self.clone(),
        };
        Self { width: self.width, height: self.height, channels, pixels }
    }
}

/// The smallest kind of sample that holds every value of an image exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Depth {
    /// 8 bits.
    #[serde(rename = "8")]
    Eight,
    /// 16 bits.
    #[serde(rename = "16")]
    Sixteen,
    /// A floating point number: a window or a rescaling has left no whole steps.
    #[serde(rename = "float")]
    Float,
}

impl Depth {
    /// As reports write it: `8`, `16` or `float`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eight => "8",
            Self::Sixteen => "16",
            Self::Float => "float",
        }
    }
}

/// The depth of an image: what it needs, not what its file spends.
pub fn depth_of(image: &Image) -> Depth {
    let fits = |steps: f32| image.pixels.iter().all(|&value| (value * steps).round() / steps == value);
    if fits(255.0) {
        Depth::Eight
    } else if fits(65_535.0) {
        Depth::Sixteen
    } else {
        Depth::Float
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_any_depth_become_zero_to_one_and_stay_apart() {
        assert_eq!(Image::from_u8(3, 1, 1, vec![0, 51, 255]).pixels, [0.0, 0.2, 1.0]);
        assert_eq!(Image::from_u16(1, 1, 3, vec![0, 13_107, 65_535]).pixels, [0.0, 0.2, 1.0]);
        assert_eq!(Image::from_f32(2, 2, 1, vec![-1.0, 0.25, 7.0, f32::NAN]).pixels, [0.0, 0.25, 1.0, 0.0]);
        let every = Image::from_u16(256, 256, 1, (0..=u16::MAX).collect());
        assert!(every.pixels.windows(2).all(|pair| pair[0] < pair[1]));
        for (back, level) in every.pixels.iter().zip(0..=u16::MAX) {
            assert_eq!((back * 65_535.0).round() as u16, level);
        }
    }

    #[test]
    #[should_panic(expected = "2 x 2 x 1")]
    fn an_image_has_as_many_samples_as_its_sides_say() {
        Image::from_u8(2, 2, 1, vec![0; 5]);
    }

    #[test]
    fn grey_survives_the_way_to_rgb_and_back() {
        let grey = Image { width: 3, height: 1, channels: 1, pixels: vec![0.0, 0.25, 1.0] };
        let rgb = grey.clone().into_channels(3);
        assert_eq!(rgb.pixels, [0.0, 0.0, 0.0, 0.25, 0.25, 0.25, 1.0, 1.0, 1.0]);
        for (back, was) in rgb.into_channels(1).pixels.iter().zip(&grey.pixels) {
            assert!((back - was).abs() < 1e-6);
        }
    }

    #[test]
    fn the_depth_is_what_the_values_need() {
        assert_eq!(depth_of(&Image::from_u8(16, 16, 1, (0..=255).collect())), Depth::Eight);
        assert_eq!(depth_of(&Image::from_u16(256, 256, 1, (0..=u16::MAX).collect())), Depth::Sixteen);
        assert_eq!(depth_of(&Image::from_u16(1, 2, 1, vec![257, 514])), Depth::Eight);
        assert_eq!(depth_of(&Image::from_f32(1, 1, 1, vec![1.0 / 3000.0])), Depth::Float);
    }
}
