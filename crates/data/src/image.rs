//! An image in host memory.

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
    /// An image of one value.
    pub fn filled(width: usize, height: usize, channels: usize, value: f32) -> Self {
        Self { width, height, channels, pixels: vec![value; width * height * channels] }
    }

    /// The value of one channel of one pixel. Panics outside the image.
    pub fn at(&self, x: usize, y: usize, channel: usize) -> f32 {
        self.pixels[(y * self.width + x) * self.channels + channel]
    }

    /// The image with `channels` channels: grey is repeated, RGB becomes luma (ITU-R 601-2, as in Pillow).
    pub fn into_channels(self, channels: usize) -> Self {
        let pixels = match (self.channels, channels) {
            (1, 3) => self.pixels.iter().flat_map(|&v| [v; 3]).collect(),
            (3, 1) => self.pixels.chunks_exact(3).map(|p| 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]).collect(),
            _ => return self,
        };
        Self { channels, pixels, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_survives_the_way_to_rgb_and_back() {
        let grey = Image { width: 3, height: 1, channels: 1, pixels: vec![0.0, 0.25, 1.0] };
        let rgb = grey.clone().into_channels(3);
        assert_eq!(rgb.pixels, [0.0, 0.0, 0.0, 0.25, 0.25, 0.25, 1.0, 1.0, 1.0]);
        for (back, was) in rgb.into_channels(1).pixels.iter().zip(&grey.pixels) {
            assert!((back - was).abs() < 1e-6);
        }
    }
}
