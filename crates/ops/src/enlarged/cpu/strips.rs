//! Convolutions of enlarged maps in strips ([`crate::convolution::cpu::strips`]), quarter by quarter.
//!
//! A strip holds some rows of the map that is enlarged, one more above and below, and a zero before and behind each. Of the map beside, of the
//! output and of its gradient, which have twice as many rows and columns, it holds the four quarters, each as such rows. So everything that
//! a pixel of a quarter is computed from lies at the same distance for all pixels of the quarter.

use std::ops::Range;

use half::slice::HalfBitsSliceExt;
use rayon::prelude::*;

use super::Shape;
use super::fold::{FOLDED, QUARTERS, TAPS, both};
use crate::convolution::cpu::strips::{BYTES, ROWS, each_of, paired};
use crate::cpu::bits::Bits;
use crate::cpu::gemm::{Matrix, Pixels, Stretches, Strip, Threads};
use crate::cpu::gemm_bf16::{INNER, Taps, Turned};
use crate::cpu::halves::Half;
use crate::cpu::lanes::{deal, interleave, vectorised};
use crate::cpu::room::Room;

/// Rows of a strip above and below those that it is made for.
const AROUND: usize = 2;

/// How a convolution is divided into strips of so many rows of the map that is enlarged.
pub(super) struct Strips<'a> {
    shape: &'a Shape,
    rows: usize,
}

impl<'a> Strips<'a> {
    /// Strips whose rows take so many bytes each.
    fn of(shape: &'a Shape, bytes: usize, least: usize) -> Self {
        let fitting = (BYTES / bytes.max(1)).max(ROWS).max(least).min(shape.height);
        // All about equally high.
        Self { shape, rows: shape.height.div_ceil(shape.height.div_ceil(fitting)) }
    }

    /// Those for the output.
    pub(super) fn of_output(shape: &'a Shape) -> Self {
        let pairs = shape.channels.div_ceil(2) + QUARTERS * shape.beside.div_ceil(2);
        let made = QUARTERS * shape.output * shape.width * size_of::<u16>();
        Self::of(shape, pairs * (shape.width + AROUND) * size_of::<u32>() + made, 0)
    }

    /// Those for the gradient of the map that is enlarged.
    pub(super) fn of_gradient(shape: &'a Shape) -> Self {
        let pairs = QUARTERS * shape.output.div_ceil(2);
        Self::of(shape, pairs * (shape.width + AROUND) * size_of::<u32>(), 0)
    }

    /// Those for the gradient of the filters. They have as many pixels as are added up before the sum goes to memory, or more.
    pub(super) fn of_filters(shape: &'a Shape) -> Self {
        let numbers = shape.channels + 2 * QUARTERS * shape.output;
        Self::of(shape, numbers * (shape.width + AROUND) * size_of::<u16>(), INNER / shape.width)
    }

    /// Numbers of a row.
    fn width(&self) -> usize {
        self.shape.width + AROUND
    }

    /// Numbers of the rows of a channel, or of a quarter of one.
    fn plane(&self) -> usize {
        (self.rows + AROUND) * self.width()
    }

    /// Calls `work` with the first row of each strip, and how many there are.
    fn each(&self, mut work: impl FnMut(usize, usize)) {
        let height = self.shape.height;
        (0..height).step_by(self.rows).for_each(|first| work(first, self.rows.min(height - first)));
    }

    /// Fills the rows of a strip: `write` writes the numbers of a row of the map.
    fn fill<E: Copy + Default>(&self, first: usize, rows: usize, strip: &mut [E], write: impl Fn(usize, &mut [E])) {
        for (row, line) in strip.chunks_exact_mut(self.width()).take(rows + AROUND).enumerate() {
            match (first + row).checked_sub(1).filter(|row| *row < self.shape.height) {
                Some(row) => {
                    let last = line.len() - 1;
                    (line[0], line[last]) = (E::default(), E::default());
                    write(row, &mut line[1..last]);
                }
                None => line.fill(E::default()),
            }
        }
    }

    /// Fills the quarters of each pair of channels of a map of twice as many rows and columns.
    fn fill_quarters(&self, first: usize, rows: usize, map: &[u16], pairs: &mut [u32], threads: Threads) {
        let length = 2 * self.shape.width;
        let fill = |(): &mut (), (pair, quarters): (usize, &mut [u32])| {
            let (one, other) = of_pair(map, pair, QUARTERS * self.shape.plane());
            for (quarter, strip) in quarters.chunks_exact_mut(self.plane()).enumerate() {
                let [of_row, of_column] = both(quarter);
                self.fill(first, rows, strip, |row, to| {
                    let line = (2 * row + of_row) * length..(2 * row + of_row + 1) * length;
                    every_second(&one[line.clone()], other.map(|other| &other[line]), of_column, to);
                });
            }
        };
        each_of(pairs.par_chunks_exact_mut(QUARTERS * self.plane()).enumerate(), || (), fill, threads);
    }

    /// Where what each tap sees begins: of `planes` planes for each of so many channels, or pairs of them, the plane, row and column of each
    /// of the `taps`.
    fn starts(&self, channels: usize, planes: usize, taps: &[[usize; 3]]) -> Vec<usize> {
        let at = |channel: usize, [plane, row, column]: [usize; 3]| {
            (channel * planes + plane) * self.plane() + row * self.width() + column
        };
        (0..channels).flat_map(|channel| taps.iter().map(move |tap| at(channel, *tap))).collect()
    }

    /// What the folded taps of a quarter see of the map that is enlarged.
    fn of_map(quarter: usize) -> [[usize; 3]; FOLDED] {
        let [of_row, of_column] = both(quarter);
        std::array::from_fn(|tap| {
            let [row, column] = both(tap);
            [0, row + of_row, column + of_column]
        })
    }

    /// What the taps of a quarter see of the map beside.
    fn of_beside(quarter: usize) -> [[usize; 3]; TAPS] {
        let [of_row, of_column] = both(quarter);
        std::array::from_fn(|tap| {
            let (row, column) = (of_row + tap / 3 + 1, of_column + tap % 3 + 1);
            [2 * (row % 2) + column % 2, row / 2, column / 2]
        })
    }

    /// What the taps of [`Shape::turned`] see of the output's gradient.
    fn of_turned() -> [[usize; 3]; QUARTERS * FOLDED] {
        std::array::from_fn(|number| {
            let [_, row, column] = Self::of_map(number / FOLDED)[number % FOLDED];
            [number / FOLDED, AROUND - row, AROUND - column]
        })
    }

    /// Bytes that [`Strips::convolve`] computes in.
    pub(super) fn convolve_bytes(&self) -> usize {
        let shape = self.shape;
        let planes = shape.channels.div_ceil(2) + QUARTERS * shape.beside.div_ceil(2);
        let made = QUARTERS * shape.output * self.rows * shape.width * size_of::<u16>();
        let starts = QUARTERS * shape.pairs_of_quarter() * size_of::<usize>();
        (planes * self.plane() + Strip::BEYOND) * size_of::<u32>() + made + starts
    }

    /// Computes the output of a sample.
    pub(super) fn convolve(&self, [x, beside]: [&[u16]; 2], filters: &[Taps], y: &mut Bits<'_>, threads: Threads) {
        let shape = self.shape;
        let (of_map, of_beside) = (shape.channels.div_ceil(2), shape.beside.div_ceil(2));
        let behind = of_map * self.plane();
        let starts: Vec<Vec<usize>> = (0..QUARTERS)
            .map(|quarter| {
                let others = self.starts(of_beside, QUARTERS, &Self::of_beside(quarter));
                let map = self.starts(of_map, 1, &Self::of_map(quarter));
                map.into_iter().chain(others.into_iter().map(|start| behind + start)).collect()
            })
            .collect();
        let mut pairs = vec![0; behind + of_beside * QUARTERS * self.plane() + Strip::BEYOND];
        let of_quarter = self.rows * shape.width;
        let mut made = vec![0; QUARTERS * shape.output * of_quarter];
        self.each(|first, rows| {
            let (of_x, quarters) = pairs.split_at_mut(behind);
            let planes = of_x.par_chunks_exact_mut(self.plane()).enumerate();
            each_of(
                planes,
                || (),
                |(), (pair, strip)| {
                    let (one, other) = of_pair(x, pair, shape.plane());
                    self.fill(first, rows, strip, |row, to| {
                        let line = row * shape.width..(row + 1) * shape.width;
                        paired(&one[line.clone()], other.map(|other| &other[line]), to);
                    });
                },
                threads,
            );
            self.fill_quarters(first, rows, beside, quarters, threads);
            for ((filters, starts), made) in
                filters.iter().zip(&starts).zip(made.chunks_exact_mut(shape.output * of_quarter))
            {
                let strip = Strip { pairs: &pairs, starts, width: self.width() };
                let pixels = Pixels { first: 0, rows, width: shape.width, plane: of_quarter };
                Bits::new(Half::Bf16, Room::written(made)).convolve(filters, &strip, pixels, threads);
            }
            let line = 2 * shape.width;
            let columns = 2 * first * line..2 * (first + rows) * line;
            y.fill_columns(QUARTERS * shape.plane(), columns, threads, |filter, to| {
                for (row, to) in to.chunks_exact_mut(line).enumerate() {
                    let from = |of_column: usize| {
                        let quarter = 2 * (row % 2) + of_column;
                        &made[(quarter * shape.output + filter) * of_quarter + row / 2 * shape.width..][..shape.width]
                    };
                    interleave(from(0), from(1), to);
                }
            });
        });
    }

    /// Bytes that [`Strips::gradient`] computes in.
    pub(super) fn gradient_bytes(&self) -> usize {
        let pairs = QUARTERS * self.shape.output.div_ceil(2) * self.plane() + Strip::BEYOND;
        pairs * size_of::<u32>() + self.shape.pairs_of_gradient() * size_of::<usize>()
    }

    /// Computes the gradient of a sample of the map that is enlarged.
    pub(super) fn gradient(&self, dy: &[u16], filters: &Taps, dx: &mut Bits<'_>, threads: Threads) {
        let (shape, of_output) = (self.shape, self.shape.output.div_ceil(2));
        let starts = self.starts(of_output, QUARTERS, &Self::of_turned());
        let mut pairs = vec![0; of_output * QUARTERS * self.plane() + Strip::BEYOND];
        self.each(|first, rows| {
            let filled = of_output * QUARTERS * self.plane();
            self.fill_quarters(first, rows, dy, &mut pairs[..filled], threads);
            let strip = Strip { pairs: &pairs, starts: &starts, width: self.width() };
            let pixels = Pixels { first: first * shape.width, rows, width: shape.width, plane: shape.plane() };
            dx.convolve(filters, &strip, pixels, threads);
        });
    }

    /// Numbers of a row of a quarter of the output's gradient, with a zero behind them if they are odd.
    fn stretch(&self) -> usize {
        self.shape.width.next_multiple_of(2)
    }

    /// Bytes that [`Strips::add_gradient`] computes in.
    pub(super) fn add_gradient_bytes(&self) -> usize {
        let (shape, of_quarter) = (self.shape, self.rows * self.stretch());
        let numbers = shape.channels * self.plane() + 1 + QUARTERS * shape.output * of_quarter;
        let starts = QUARTERS * FOLDED * shape.channels * size_of::<usize>();
        numbers * size_of::<u16>() + Turned::bytes(shape.output, of_quarter) + starts
    }

    /// Adds the gradient of a sample of the folded filters of some quarters to `sums`, `[quarters, output, channels, taps]`.
    pub(super) fn add_gradient(
        &self,
        [x, dy]: [&[u16]; 2],
        quarters: Range<usize>,
        sums: &mut [f32],
        threads: Threads,
    ) {
        let (shape, length) = (self.shape, self.stretch());
        let of_quarter = self.rows * length;
        let starts: Vec<Vec<usize>> =
            quarters.clone().map(|quarter| self.starts(shape.channels, 1, &Self::of_map(quarter))).collect();
        // A stretch of an odd row ends with the number behind it.
        let mut of_input = vec![0; shape.channels * self.plane() + 1];
        let mut of_output = vec![0; shape.output * QUARTERS * of_quarter];
        let mut turned = Turned::default();
        self.each(|first, rows| {
            let filled = shape.channels * self.plane();
            let planes = of_input[..filled].par_chunks_exact_mut(self.plane()).enumerate();
            each_of(
                planes,
                || (),
                |(), (channel, strip)| {
                    let plane = &x[channel * shape.plane()..][..shape.plane()];
                    self.fill(first, rows, strip, |row, to| {
                        to.copy_from_slice(&plane[row * shape.width..][..shape.width]);
                    });
                },
                threads,
            );
            let planes = of_output.par_chunks_exact_mut(QUARTERS * of_quarter).enumerate();
            each_of(
                planes,
                || (),
                |(), (filter, quarters)| {
                    let plane = &dy[filter * QUARTERS * shape.plane()..][..QUARTERS * shape.plane()];
                    let lines = plane.chunks_exact(2 * shape.width).skip(2 * first).take(2 * rows);
                    for (row, line) in lines.enumerate() {
                        let pair = &mut quarters[row % 2 * 2 * of_quarter..][..2 * of_quarter];
                        let (even, odd) = pair.split_at_mut(of_quarter);
                        let at = row / 2 * length..row / 2 * length + shape.width;
                        deal(line, &mut even[at.clone()], &mut odd[at]);
                    }
                },
                threads,
            );
            let all = of_output.reinterpret_cast::<half::bf16>();
            let each = sums.chunks_exact_mut(shape.output * shape.channels * FOLDED);
            for ((quarter, starts), sums) in quarters.clone().zip(&starts).zip(each) {
                let of_quarter = &all[quarter * of_quarter..];
                let from = QUARTERS * self.rows * length;
                turned.fill(Matrix::of_rows(of_quarter, shape.output, rows * length, from), threads);
                let values = of_input.reinterpret_cast::<half::bf16>();
                let right = Stretches { values, starts, count: rows, length, step: self.width() };
                turned.add_product(sums, shape.channels * FOLDED, right, threads);
            }
        });
    }
}

/// The planes of a pair of channels; the last of an odd number is alone.
fn of_pair(map: &[u16], pair: usize, plane: usize) -> (&[u16], Option<&[u16]>) {
    let mut planes = map[2 * pair * plane..].chunks_exact(plane);
    (planes.next().unwrap_or(&[]), planes.next())
}

/// Pairs of every second number, from the first or the second on.
fn every_second(one: &[u16], other: Option<&[u16]>, from: usize, to: &mut [u32]) {
    let (one, _) = one.as_chunks::<2>();
    let other = other.map(|other| other.as_chunks::<2>().0);
    let number = |[first, second]: [u16; 2]| u32::from(first) | u32::from(second) << 16;
    vectorised(
        #[inline(always)]
        || match (other, from) {
            (Some(other), 0) => to.iter_mut().zip(one).zip(other).for_each(|((to, one), other)| {
                *to = number(*one) & 0xffff | number(*other) << 16;
            }),
            (Some(other), _) => to.iter_mut().zip(one).zip(other).for_each(|((to, one), other)| {
                *to = number(*one) >> 16 | number(*other) & 0xffff_0000;
            }),
            (None, 0) => to.iter_mut().zip(one).for_each(|(to, one)| *to = number(*one) & 0xffff),
            (None, _) => to.iter_mut().zip(one).for_each(|(to, one)| *to = number(*one) >> 16),
        },
    );
}
