//! What was found in overlapping windows as one map of the image.

use super::Windows;

/// The mean of what a model finds in each window, weighted with a Gaussian: pixels in the middle of a window, which see the most around
/// them, count the most.
///
/// The weights are nnU-Net's 2.8.1 (`compute_gaussian` in `nnunetv2/inference/sliding_window_prediction.py`): a standard deviation of an
/// eighth of the side, around the pixel behind the middle, and at most 1. nnU-Net replaces zeros by the smallest other weight; SciPy's filter,
/// which draws the Gaussian there, ends at four standard deviations, which is half the side, so that none is zero. A window without any
/// neighbour counts as it is.
///
/// Numbers of a pixel are added in the order of the windows. Only as many rows are kept as a window has, so the memory does not grow with
/// the height of the image.
#[derive(Debug)]
pub struct Blend<'a> {
    windows: &'a Windows,
    maps: usize,
    /// Of the rows of the windows that are being added, `[maps, side, padded width]`.
    sums: Vec<f32>,
    /// The same of the weights, `[side, padded width]`.
    totals: Vec<f32>,
    /// `[side, side]`.
    weights: Vec<f32>,
    /// The window that is added next.
    next: usize,
}

/// Rows of the map of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct BlendedRows {
    /// How many rows.
    pub height: usize,
    /// `[maps, height, width of the image]`.
    pub values: Vec<f32>,
}

impl<'a> Blend<'a> {
    /// Nothing yet, of so many maps.
    pub fn new(windows: &'a Windows, maps: usize) -> Self {
        let (side, width) = (windows.side(), windows.padded_width());
        Self {
            windows,
            maps,
            // Adding anything to this zero, and no other, leaves its bits.
            sums: vec![-0.0; maps * side * width],
            totals: vec![0.0; side * width],
            weights: if windows.count() == 1 { vec![1.0; side * side] } else { weights(side) },
            next: 0,
        }
    }

    /// Adds what was found in the next window, `[maps, side, side]`. Returns the rows that no later window has, if there are any: those of all
    /// calls are the rows of the image, from the top. Panics beyond the last window.
    pub fn add(&mut self, found: &[f32]) -> Option<BlendedRows> {
        let (side, width) = (self.windows.side(), self.windows.padded_width());
        let (left, end) = self.windows.column_and_end(self.next);
        self.next += 1;
        for (line, values) in found.chunks_exact(side).enumerate() {
            let weights = &self.weights[line % side * side..][..side];
            let sums = &mut self.sums[line * width + left..][..side];
            sums.iter_mut().zip(values.iter().zip(weights)).for_each(|(sum, (value, weight))| *sum += value * weight);
        }
        for (line, weights) in self.weights.chunks_exact(side).enumerate() {
            let totals = &mut self.totals[line * width + left..][..side];
            totals.iter_mut().zip(weights).for_each(|(total, weight)| *total += weight);
        }
        end.map(|[top, next]| self.take(top, next - top))
    }

    /// The means of so many rows of which `top` is the first, without those around the image; later rows move up.
    fn take(&mut self, top: usize, rows: usize) -> BlendedRows {
        let (side, padded) = (self.windows.side(), self.windows.padded_width());
        let ((above, before), (width, height)) = (self.windows.padding(), self.windows.image_size());
        let of_image = above.saturating_sub(top)..rows.min(above + height - top);
        let mut values = Vec::with_capacity(self.maps * of_image.len() * width);
        for sums in self.sums.chunks_exact(side * padded) {
            for row in of_image.clone() {
                let places = row * padded + before..row * padded + before + width;
                values.extend(sums[places.clone()].iter().zip(&self.totals[places]).map(|(sum, total)| sum / total));
            }
        }
        for plane in self.sums.chunks_exact_mut(side * padded) {
            move_up(plane, rows * padded, -0.0);
        }
        move_up(&mut self.totals, rows * padded, 0.0);
        BlendedRows { height: of_image.len(), values }
    }
}

/// Drops the first so many numbers, and fills the end.
fn move_up(plane: &mut [f32], count: usize, filling: f32) {
    plane.copy_within(count.., 0);
    let kept = plane.len() - count;
    plane[kept..].fill(filling);
}

/// The weights of the pixels of a window, `[side, side]`.
fn weights(side: usize) -> Vec<f32> {
    let line = gaussian(side);
    line.iter().flat_map(|down| line.iter().map(move |along| (down * along) as f32)).collect()
}

/// The weights along one side.
fn gaussian(side: usize) -> Vec<f64> {
    let (middle, deviation) = ((side / 2) as f64, side as f64 / 8.0);
    (0..side).map(|at| (-0.5 * ((at as f64 - middle) / deviation).powi(2)).exp()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::Value;

    use super::*;

    const REFERENCE: &str = include_str!("../../tests/reference/windows.json");

    fn noise(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|at| (((at + seed) * 2_654_435_761) >> 7 & 1023) as f32 / 100.0 - 5.0).collect()
    }

    /// All rows that come out, `[maps][height * width]`.
    fn blended(windows: &Windows, maps: usize, found: impl Fn(usize) -> Vec<f32>) -> Vec<Vec<f32>> {
        let mut blend = Blend::new(windows, maps);
        let mut whole = vec![Vec::new(); maps];
        for index in 0..windows.count() {
            if let Some(rows) = blend.add(&found(index)) {
                let of_map = rows.values.chunks_exact(rows.height * windows.image_size().0);
                whole.iter_mut().zip(of_map).for_each(|(whole, rows)| whole.extend(rows));
            }
        }
        whole
    }

    #[test]
    fn weights_are_nnu_nets() {
        let document: Value = serde_json::from_str(REFERENCE).unwrap();
        for case in document["gaussians"].as_array().unwrap() {
            let (side, found) =
                (case["side"].as_u64().unwrap() as usize, gaussian(case["side"].as_u64().unwrap() as usize));
            for (name, of) in [("middle_row", side / 2), ("first_row", 0)] {
                for (along, expected) in found.iter().zip(case[name].as_array().unwrap()) {
                    let (weight, expected) = (found[of] * along, expected.as_f64().unwrap());
                    assert!((weight - expected).abs() <= 1e-12 * expected, "{side}: {weight}, expected {expected}");
                }
            }
            let weights = weights(side);
            assert_eq!((weights.len(), weights[side / 2 * side + side / 2]), (side * side, 1.0));
            assert!(weights.iter().all(|weight| *weight > 0.0), "no weight of {side} is zero");
        }
    }

    #[test]
    fn one_window_is_what_was_found_to_the_bit() {
        for (width, height) in [(8, 8), (5, 3), (8, 1)] {
            let windows = Windows::over(width, height, 8, 0.5);
            let mut found = noise(2 * 64, 3);
            (found[0], found[40], found[64 + 27]) = (-0.0, f32::MIN_POSITIVE / 2.0, -0.0);
            let whole = blended(&windows, 2, |_| found.clone());
            let (above, before) = windows.padding();
            for (map, whole) in whole.iter().enumerate() {
                let expected = (0..width * height)
                    .map(|at| found[map * 64 + (above + at / width) * 8 + before + at % width].to_bits());
                assert_eq!(whole.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn every_pixel_is_the_weighted_mean_of_the_windows_it_lies_in() {
        for (width, height, side, overlap) in
            [(40, 33, 16, 0.5), (16, 100, 16, 0.9), (9, 41, 16, 0.25), (17, 16, 16, 0.0)]
        {
            let windows = Windows::over(width, height, side, overlap);
            let of_window = |index: usize| noise(3 * side * side, index * 7919);
            let whole = blended(&windows, 3, of_window);
            let ((above, before), weights) = (windows.padding(), weights(side));
            for (map, whole) in whole.iter().enumerate() {
                assert_eq!(whole.len(), width * height);
                for (at, value) in whole.iter().enumerate() {
                    let (y, x) = (above + at / width, before + at % width);
                    let (mut sum, mut total) = (0.0, 0.0);
                    for index in 0..windows.count() {
                        let (top, left) = windows.place(index);
                        if (top..top + side).contains(&y) && (left..left + side).contains(&x) {
                            let weight = f64::from(weights[(y - top) * side + x - left]);
                            sum += weight * f64::from(of_window(index)[(map * side + y - top) * side + x - left]);
                            total += weight;
                        }
                    }
                    let expected = sum / total;
                    assert!((f64::from(*value) - expected).abs() < 1e-5, "{map}, {y}, {x}: {value} and {expected}");
                }
            }
        }
    }
}
