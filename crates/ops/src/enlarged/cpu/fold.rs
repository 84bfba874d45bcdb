//! The nine taps of a kernel over squares of equal pixels, folded to four.
//!
//! Along one axis, the output's pixel `2 i + parity` sees pixels `2 i + parity - 1` to `2 i + parity + 1` of the enlarged map, which are
//! copies of two neighbours of the map itself: of pixels `i + parity - 1` (place 0) and `i + parity` (place 1).

use std::ops::Range;

use rayon::prelude::*;

use super::Shape;

/// Taps of a kernel.
pub(super) const TAPS: usize = 9;
/// Taps of a folded kernel.
pub(super) const FOLDED: usize = 4;
/// Bytes of sums that stay in a cache.
const SUMS: usize = 1 << 20;
/// Quarters of an output: every second row and column of it.
pub(super) const QUARTERS: usize = 4;

/// The parities of rows and columns of a quarter, or the places of a folded tap.
pub(super) fn both(number: usize) -> [usize; 2] {
    [number / 2, number % 2]
}

/// The place that a tap of the kernel falls on, along one axis.
pub(super) fn place(parity: usize, tap: usize) -> usize {
    (parity + tap).div_ceil(2) - parity
}

/// The taps that fall on a place.
fn taps(parity: usize, place: usize) -> Range<usize> {
    let middle = 1 + parity;
    if place == 0 { 0..middle } else { middle..3 }
}

/// A tap of the folded kernel of a quarter.
fn folded(kernel: &[f32], quarter: usize, tap: usize) -> f32 {
    let ([of_row, of_column], [row, column]) = (both(quarter), both(tap));
    let rows = taps(of_row, row);
    rows.map(|row| taps(of_column, column).map(|column| kernel[3 * row + column]).sum::<f32>()).sum()
}

impl Shape {
    /// The nine taps of a filter for a channel; those of the map beside come behind those of the map that is enlarged.
    fn kernel<'a>(&self, weight: &'a [f32], filter: usize, channel: usize) -> &'a [f32] {
        &weight[(filter * (self.channels + self.beside) + channel) * TAPS..][..TAPS]
    }

    /// The filters of a quarter, `[output, 2, taps]`: first the folded taps of the map's pairs of channels, then all of those beside; of the
    /// first channel of each pair, and of the second.
    pub(super) fn of_quarter(&self, weight: &[f32], quarter: usize) -> Vec<f32> {
        let of_map = FOLDED * self.channels.div_ceil(2);
        let pairs = self.pairs_of_quarter();
        let mut made = vec![0.0; self.output * 2 * pairs];
        made.par_chunks_exact_mut(2 * pairs).enumerate().for_each(|(filter, made)| {
            for channel in 0..self.channels {
                let to = &mut made[channel % 2 * pairs + channel / 2 * FOLDED..][..FOLDED];
                let kernel = self.kernel(weight, filter, channel);
                to.iter_mut().enumerate().for_each(|(tap, to)| *to = folded(kernel, quarter, tap));
            }
            for channel in 0..self.beside {
                let to = &mut made[channel % 2 * pairs + of_map + channel / 2 * TAPS..][..TAPS];
                to.copy_from_slice(self.kernel(weight, filter, self.channels + channel));
            }
        });
        made
    }

    /// Pairs of numbers of a filter of a quarter.
    pub(super) fn pairs_of_quarter(&self) -> usize {
        FOLDED * self.channels.div_ceil(2) + TAPS * self.beside.div_ceil(2)
    }

    /// The filters that compute the gradient of the map from the output's, `[channels, 2, taps]`: for each pair of the output's channels the
    /// folded taps of all quarters.
    pub(super) fn turned(&self, weight: &[f32]) -> Vec<f32> {
        let (each, pairs) = (QUARTERS * FOLDED, self.pairs_of_gradient());
        let mut made = vec![0.0; self.channels * 2 * pairs];
        made.par_chunks_exact_mut(2 * pairs).enumerate().for_each(|(channel, made)| {
            for filter in 0..self.output {
                let to = &mut made[filter % 2 * pairs + filter / 2 * each..][..each];
                let kernel = self.kernel(weight, filter, channel);
                to.iter_mut()
                    .enumerate()
                    .for_each(|(number, to)| *to = folded(kernel, number / FOLDED, number % FOLDED));
            }
        });
        made
    }

    /// Pairs of numbers of a filter of [`Shape::turned`].
    pub(super) fn pairs_of_gradient(&self) -> usize {
        QUARTERS * FOLDED * self.output.div_ceil(2)
    }

    /// The filters for the map beside, `[output, beside, 3, 3]`.
    pub(super) fn of_beside(&self, weight: &[f32]) -> Vec<f32> {
        let of_filter = (self.channels + self.beside) * TAPS;
        weight.chunks_exact(of_filter).flat_map(|filter| &filter[self.channels * TAPS..]).copied().collect()
    }

    /// Quarters whose folded filters' gradients are added up at a time: one where those of all would not stay in a cache.
    pub(super) fn quarters_at_once(&self) -> usize {
        let numbers = QUARTERS * self.output * self.channels * FOLDED;
        if numbers * size_of::<f32>() > SUMS { 1 } else { QUARTERS }
    }

    /// The gradient of the filters `[output, channels + beside, 3, 3]`, of those for the map beside as given, and of all others zero.
    pub(super) fn with_beside(&self, of_beside: &[f32]) -> Vec<f32> {
        let all = (self.channels + self.beside) * TAPS;
        let mut made = vec![0.0; self.output * all];
        for (filter, made) in made.chunks_exact_mut(all).enumerate() {
            let others = &mut made[self.channels * TAPS..];
            others.copy_from_slice(&of_beside[filter * others.len()..][..others.len()]);
        }
        made
    }

    /// Adds to it what the gradient of the folded filters of some quarters, `[quarters, output, channels, taps]`, is for the filters.
    pub(super) fn unfold(&self, quarters: Range<usize>, of_folded: &[f32], of_filters: &mut [f32]) {
        let of_filter = self.channels * FOLDED;
        of_filters.par_chunks_exact_mut((self.channels + self.beside) * TAPS).enumerate().for_each(|(filter, made)| {
            for (number, quarter) in quarters.clone().enumerate() {
                let [of_row, of_column] = both(quarter);
                let folded = &of_folded[(number * self.output + filter) * of_filter..][..of_filter];
                for (kernel, folded) in made.as_chunks_mut::<TAPS>().0.iter_mut().zip(folded.as_chunks::<FOLDED>().0) {
                    for (tap, sum) in kernel.iter_mut().enumerate() {
                        *sum += folded[2 * place(of_row, tap / 3) + place(of_column, tap % 3)];
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tap_falls_on_the_pixel_that_it_sees() {
        for parity in 0..2 {
            for tap in 0..3 {
                // Of the output's pixel 10 + parity, the pixel of the enlarged map under the tap, and the map's that it is a copy of.
                let seen = (10 + parity + tap - 1) / 2;
                assert_eq!(5 + parity + place(parity, tap) - 1, seen);
                assert!(taps(parity, place(parity, tap)).contains(&tap));
            }
            assert_eq!(taps(parity, 0).len() + taps(parity, 1).len(), 3);
        }
    }
}
