//! Windows of one size over an image of any size: where they lie, and what a model is fed of each.

use super::{Image, Preprocess};

/// Windows of one size, evenly spread over an image of any size.
///
/// They lie where nnU-Net 2.8.1 has them (`compute_steps_for_sliding_window` in `nnunetv2/inference/sliding_window_prediction.py`). An image
/// that is smaller than a window lies in the middle of zeros, half a pixel up and to the left (`pad_nd_image` in `acvl_utils`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    side: usize,
    width: usize,
    height: usize,
    tops: Vec<usize>,
    lefts: Vec<usize>,
}

impl Windows {
    /// The windows of `side` x `side` pixels over an image of `width` x `height`, each of which shares at least this part of its side
    /// with the next: 0 or more, and below 1.
    pub fn over(width: usize, height: usize, side: usize, overlap: f64) -> Self {
        let starts = |length: usize| starts(length.max(side), side, overlap);
        Self { side, width, height, tops: starts(height), lefts: starts(width) }
    }

    /// How many there are: at least one.
    pub fn count(&self) -> usize {
        self.tops.len() * self.lefts.len()
    }

    /// Columns and rows of a window.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Columns and rows of the image.
    pub fn image_size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// What a model is fed of a window, `[channels, side, side]`: the part of the image, normalised, and zeros around it where the image is
    /// smaller. Windows are counted from the left, and their rows from the top. `image` is as [`Preprocess::at_own_size`] gives it. Panics
    /// beyond the last window.
    pub fn cut(&self, image: &Image, preprocess: &Preprocess, index: usize) -> Vec<f32> {
        let (top, left) = self.place(index);
        let (width, height) = (self.width.min(self.side), self.height.min(self.side));
        let row = |y: usize| {
            let start = (y * self.width + left) * image.channels;
            &image.pixels[start..start + width * image.channels]
        };
        let pixels = (top..top + height).flat_map(row).copied().collect();
        let part = preprocess.to_tensor(&Image { width, height, channels: image.channels, pixels });
        if (width, height) == (self.side, self.side) {
            return part;
        }
        let mut padded = vec![0.0; image.channels * self.side * self.side];
        let (above, before) = self.padding();
        for (line, values) in part.chunks_exact(width.max(1)).enumerate() {
            let (channel, y) = (line / height, line % height);
            let start = (channel * self.side + above + y) * self.side + before;
            padded[start..start + width].copy_from_slice(values);
        }
        padded
    }

    /// The first row and column of a window, in the image with what is around it.
    pub(super) fn place(&self, index: usize) -> (usize, usize) {
        (self.tops[index / self.lefts.len()], self.lefts[index % self.lefts.len()])
    }

    /// How many rows of zeros lie above the image, and how many columns before it.
    pub(super) fn padding(&self) -> (usize, usize) {
        let before = |length: usize| (length.max(self.side) - length) / 2;
        (before(self.height), before(self.width))
    }

    /// Columns of the image with what is around it.
    pub(super) fn padded_width(&self) -> usize {
        self.width.max(self.side)
    }

    /// The first column of a window in the image with what is around it, and where its rows end of which no later window has any; none
    /// of a window that has others to its right.
    pub(super) fn column_and_end(&self, index: usize) -> (usize, Option<[usize; 2]>) {
        let (line, column) = (index / self.lefts.len(), index % self.lefts.len());
        let next = self.tops.get(line + 1).copied().unwrap_or(self.tops[line] + self.side);
        (self.lefts[column], (column + 1 == self.lefts.len()).then_some([self.tops[line], next]))
    }
}

/// The first pixel of each window along a side of `length` pixels, which is at least a window's.
fn starts(length: usize, side: usize, overlap: f64) -> Vec<usize> {
    // One less a tenth is 0.9 and nothing beside it, or a last digit would ask for one more window.
    let step = side as f64 * (((1.0 - overlap) * 1e12).round() / 1e12);
    let beyond = (length - side) as f64;
    let last = (beyond / step).ceil();
    if last < 1.0 {
        return vec![0];
    }
    (0..=last as usize).map(|number| (beyond / last * number as f64).round_ties_even() as usize).collect()
}

impl Preprocess {
    /// The image at its own size, with the channels and the stretch by percentiles of [`Preprocess::fit`].
    pub fn at_own_size(&self, image: Image) -> Image {
        self.stretched(image.into_channels(self.channels))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;
    use crate::decode::Normalisation;

    const REFERENCE: &str = include_str!("../../tests/reference/windows.json");

    fn noise(width: usize, height: usize, channels: usize) -> Image {
        let values = (0..width * height * channels).map(|at| ((at * 2_654_435_761) >> 9) as u8);
        Image::from_u8(width, height, channels, values.collect())
    }

    fn preprocess(size: usize, channels: usize) -> Preprocess {
        Preprocess::padded(size, channels, Normalisation { mean: vec![0.4], std: vec![0.3] })
    }

    #[test]
    fn windows_lie_where_nnu_net_has_them() {
        let document: Value = serde_json::from_str(REFERENCE).unwrap();
        let cases = document["starts"].as_array().unwrap();
        assert!(cases.len() > 100, "{} cases", cases.len());
        for case in cases {
            let number = |key: &str| case[key].as_u64().unwrap() as usize;
            let expected: Vec<usize> =
                case["starts"].as_array().unwrap().iter().map(|start| start.as_u64().unwrap() as usize).collect();
            let (length, side, step) = (number("length"), number("side"), case["step"].as_f64().unwrap());
            assert_eq!(starts(length, side, 1.0 - step), expected, "{case}");
        }
    }

    #[test]
    fn every_pixel_lies_in_a_window_and_neighbours_share_what_they_should() {
        for (width, height) in [(64, 64), (65, 64), (300, 77), (1, 1), (63, 200), (1000, 64)] {
            for overlap in [0.0, 0.3, 0.5, 0.9] {
                let windows = Windows::over(width, height, 64, overlap);
                let mut seen = vec![false; width.max(64) * height.max(64)];
                for (top, left) in (0..windows.count()).map(|index| windows.place(index)) {
                    (top..top + 64)
                        .for_each(|y| seen[y * width.max(64) + left..y * width.max(64) + left + 64].fill(true));
                }
                assert!(seen.into_iter().all(|seen| seen), "{width} x {height}, {overlap}");
                for starts in [&windows.tops, &windows.lefts] {
                    let apart = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
                    assert!(apart as f64 <= 64.0 * (1.0 - overlap) + 1.0, "{starts:?} at {overlap}");
                }
            }
        }
    }

    #[test]
    fn a_window_is_the_part_of_the_image_to_the_bits_of_the_image_itself() {
        for channels in [1, 3] {
            let (image, preprocess) = (noise(50, 37, channels), preprocess(16, channels));
            let windows = Windows::over(50, 37, 16, 0.5);
            let whole = preprocess.to_tensor(&image);
            for index in 0..windows.count() {
                let ((top, left), found) = (windows.place(index), windows.cut(&image, &preprocess, index));
                for (at, value) in found.iter().enumerate() {
                    let (channel, y, x) = (at / 256, at / 16 % 16, at % 16);
                    assert_eq!(*value, whole[(channel * 37 + top + y) * 50 + left + x]);
                }
            }
            let one = noise(16, 16, channels);
            let windows = Windows::over(16, 16, 16, 0.5);
            assert_eq!((windows.count(), windows.cut(&one, &preprocess, 0)), (1, preprocess.apply(&one)));
        }
    }

    #[test]
    fn a_small_image_lies_in_the_middle_of_zeros_that_are_not_normalised() {
        let (image, preprocess) = (noise(5, 40, 3), preprocess(16, 3));
        let windows = Windows::over(5, 40, 16, 0.5);
        assert_eq!((windows.padding(), windows.count()), ((0, 5), 4));
        let whole = preprocess.to_tensor(&image);
        for index in 0..windows.count() {
            let (top, _) = windows.place(index);
            for (at, value) in windows.cut(&image, &preprocess, index).into_iter().enumerate() {
                let (channel, y, x) = (at / 256, at / 16 % 16, at % 16);
                let expected = if (5..10).contains(&x) { whole[(channel * 40 + top + y) * 5 + x - 5] } else { 0.0 };
                assert_eq!(value, expected, "channel {channel}, row {y}, column {x}");
            }
        }
        assert_eq!(Windows::over(5, 4, 16, 0.5).padding(), (6, 5));
    }

    #[test]
    fn an_image_at_its_own_size_has_the_values_of_a_fitted_one() {
        let image = noise(16, 16, 3);
        let stretched = Preprocess { percentiles: Some([0.05, 0.95]), ..preprocess(16, 1) };
        assert_eq!(stretched.at_own_size(image.clone()), stretched.fit(&image));
        let other = noise(90, 33, 1);
        assert_eq!(preprocess(16, 1).at_own_size(other.clone()), other);
    }
}
