//! Depthwise convolution and its two gradients, plane by plane.
//!
//! A plane is first copied into rows with zeros around them, split by column modulo the stride ("phases"): output column
//! `o` and kernel column `k` then meet at position `o + k / stride` of phase `k % stride`, so every inner loop runs over
//! neighbouring elements without conditions, at any stride.

use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::lanes::{LANES, padded, vectorised};

/// The shapes of one convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) batch: usize,
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    /// Zeros above and to the left.
    pub(super) before: [usize; 2],
}

impl Geometry {
    pub(super) fn of(
        [batch, channels, height, width]: [usize; 4],
        weight: &FlexTensor,
        stride: usize,
        before: [usize; 2],
    ) -> Self {
        let [.., kernel] = super::dims(weight);
        Self { batch, channels, height, width, kernel, stride, before }
    }

    pub(super) fn input(&self) -> [usize; 4] {
        [self.batch, self.channels, self.height, self.width]
    }

    pub(super) fn output(&self) -> [usize; 4] {
        [self.batch, self.channels, self.height.div_ceil(self.stride), self.width.div_ceil(self.stride)]
    }

    pub(super) fn in_plane(&self) -> usize {
        self.height * self.width
    }

    pub(super) fn out_plane(&self) -> usize {
        let [.., height, width] = self.output();
        height * width
    }

    /// Length of a phase of a row, zeros included.
    fn phase(&self) -> usize {
        padded(self.output()[3]) + (self.kernel - 1) / self.stride
    }

    /// The input row that output row `row` and kernel row `tap` meet at, if it is inside.
    #[inline(always)]
    fn input_row(&self, row: usize, tap: usize) -> Option<usize> {
        (row * self.stride + tap).checked_sub(self.before[0]).filter(|row| *row < self.height)
    }

    /// The output row that input row `row` reaches through kernel row `tap`, if there is one.
    #[inline(always)]
    fn output_row(&self, row: usize, tap: usize) -> Option<usize> {
        let scaled = (row + self.before[0]).checked_sub(tap)?;
        (scaled.is_multiple_of(self.stride) && scaled / self.stride < self.output()[2]).then(|| scaled / self.stride)
    }

    /// Splits an input plane into phases: `[height, stride, phase]`.
    #[inline(always)]
    fn split(&self, plane: &[f32], phases: &mut Vec<f32>) {
        let (stride, length, padding) = (self.stride, self.phase(), self.before[1]);
        phases.clear();
        phases.resize(self.height * stride * length, 0.0);
        for (row, out) in plane.chunks_exact(self.width).zip(phases.chunks_exact_mut(stride * length)) {
            if stride == 1 {
                let kept = self.width.min(length - padding);
                out[padding..padding + kept].copy_from_slice(&row[..kept]);
                continue;
            }
            for (phase, out) in out.chunks_exact_mut(length).enumerate() {
                // Padded column = position * stride + phase; the first that is not padding:
                let first = (padding.saturating_sub(phase)).div_ceil(stride);
                let column = first * stride + phase - padding;
                let source = row.iter().skip(column).step_by(stride);
                for (out, value) in out[first..].iter_mut().zip(source) {
                    *out = *value;
                }
            }
        }
    }

    /// Copies an output plane into rows with `before` zeros in front and zeros to whole lanes behind.
    #[inline(always)]
    fn pad_output(&self, plane: &[f32], before: usize, length: usize, rows: &mut Vec<f32>) {
        let [.., height, width] = self.output();
        rows.clear();
        rows.resize(height * length, 0.0);
        for (row, out) in plane.chunks_exact(width).zip(rows.chunks_exact_mut(length)) {
            out[before..before + width].copy_from_slice(row);
        }
    }
}

/// Runs the version of a function for a kernel side; [`super::depthwise_kernel`] names the sides there are.
macro_rules! for_kernel {
    ($kernel:expr, $function:ident($($argument:expr),*)) => {
        match $kernel {
            3 => $function::<3>($($argument),*),
            5 => $function::<5>($($argument),*),
            7 => $function::<7>($($argument),*),
            9 => $function::<9>($($argument),*),
            _ => $function::<11>($($argument),*),
        }
    };
}

/// Memory that a thread uses again from plane to plane.
#[derive(Default)]
pub(super) struct Scratch {
    phases: Vec<f32>,
    rows: Vec<f32>,
    /// A plane of the input, for whoever has to compute it.
    pub(super) read: Vec<f32>,
}

/// One plane; `index` counts over samples and channels.
impl Geometry {
    /// The output.
    pub(super) fn forward(&self, index: usize, x: &[f32], weight: &[f32], y: &mut [f32], scratch: &mut Vec<f32>) {
        let taps = self.taps(weight, index);
        vectorised(
            #[inline(always)]
            || for_kernel!(self.kernel, forward_plane(x, taps, y, self, scratch)),
        );
    }

    /// The gradient of the input.
    pub(super) fn backward_input(
        &self,
        index: usize,
        dy: &[f32],
        weight: &[f32],
        dx: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let taps = self.taps(weight, index);
        vectorised(
            #[inline(always)]
            || for_kernel!(self.kernel, backward_input_plane(dy, taps, dx, self, &mut scratch.rows)),
        );
    }

    /// The gradient of the filter.
    pub(super) fn backward_weight(&self, x: &[f32], dy: &[f32], scratch: &mut Scratch) -> Vec<f64> {
        let Scratch { phases, rows, .. } = scratch;
        vectorised(
            #[inline(always)]
            || for_kernel!(self.kernel, backward_weight_plane(x, dy, self, phases, rows)),
        )
    }

    /// The filter of a plane.
    fn taps<'a>(&self, weight: &'a [f32], index: usize) -> &'a [f32] {
        let taps = self.kernel * self.kernel;
        &weight[(index % self.channels) * taps..][..taps]
    }
}

/// `[batch, channels, height, width]` and `[channels, 1, kernel, kernel]` to the output.
pub(super) fn forward(x: &[f32], weight: &[f32], geometry: &Geometry) -> Vec<f32> {
    let mut y = vec![0.0; geometry.batch * geometry.channels * geometry.out_plane()];
    let planes = y.par_chunks_mut(geometry.out_plane()).zip(x.par_chunks(geometry.in_plane())).enumerate();
    planes.for_each_init(Vec::new, |scratch, (index, (y, x))| geometry.forward(index, x, weight, y, scratch));
    y
}

#[inline(always)]
fn forward_plane<const K: usize>(x: &[f32], taps: &[f32], y: &mut [f32], geometry: &Geometry, phases: &mut Vec<f32>) {
    geometry.split(x, phases);
    let (stride, length) = (geometry.stride, geometry.phase());
    let width = geometry.output()[3];
    for (row, out) in y.chunks_exact_mut(width).enumerate() {
        for (start, out) in (0..width).step_by(LANES).zip(out.chunks_mut(LANES)) {
            let mut sums = [0.0f32; LANES];
            for (tap_row, taps) in taps.chunks_exact(K).enumerate() {
                let Some(source) = geometry.input_row(row, tap_row) else { continue };
                let source = &phases[source * stride * length..][..stride * length];
                for (column, tap) in taps.iter().enumerate() {
                    let at = (column % stride) * length + column / stride + start;
                    accumulate(&mut sums, *tap, &source[at..at + LANES]);
                }
            }
            let kept = out.len();
            out.copy_from_slice(&sums[..kept]);
        }
    }
}

#[inline(always)]
fn accumulate(sums: &mut [f32; LANES], factor: f32, values: &[f32]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += factor * *value;
    }
}

/// The gradient of the input for the gradient `dy` of the output.
pub(super) fn backward_input(dy: &[f32], weight: &[f32], geometry: &Geometry) -> Vec<f32> {
    let mut dx = vec![0.0; geometry.batch * geometry.channels * geometry.in_plane()];
    let planes = dx.par_chunks_mut(geometry.in_plane()).zip(dy.par_chunks(geometry.out_plane())).enumerate();
    planes.for_each_init(Scratch::default, |scratch, (index, (dx, dy))| {
        geometry.backward_input(index, dy, weight, dx, scratch);
    });
    dx
}

#[inline(always)]
fn backward_input_plane<const K: usize>(
    dy: &[f32],
    taps: &[f32],
    dx: &mut [f32],
    geometry: &Geometry,
    rows: &mut Vec<f32>,
) {
    let (stride, padding) = (geometry.stride, geometry.before[1]);
    let before = (K - 1) / stride;
    // Positions of a phase that hold input columns.
    let positions = (geometry.width - 1 + padding) / stride + 1;
    let length = before + padded(positions.max(geometry.output()[3]));
    geometry.pad_output(dy, before, length, rows);
    for (row, out) in dx.chunks_exact_mut(geometry.width).enumerate() {
        for phase in 0..stride.min(K) {
            for start in (0..positions).step_by(LANES) {
                let mut sums = [0.0f32; LANES];
                for (tap_row, taps) in taps.chunks_exact(K).enumerate() {
                    let Some(source) = geometry.output_row(row, tap_row) else { continue };
                    let source = &rows[source * length..][..length];
                    for column in (phase..K).step_by(stride) {
                        let at = before - column / stride + start;
                        accumulate(&mut sums, taps[column], &source[at..at + LANES]);
                    }
                }
                // Position p of this phase is input column p * stride + phase - padding.
                if stride == 1 {
                    let first = start.max(padding);
                    let last = (start + LANES).min(geometry.width + padding);
                    if first < last {
                        out[first - padding..last - padding].copy_from_slice(&sums[first - start..last - start]);
                    }
                } else {
                    for (lane, sum) in sums.iter().enumerate() {
                        let column = ((start + lane) * stride + phase).wrapping_sub(padding);
                        if let Some(out) = out.get_mut(column) {
                            *out = *sum;
                        }
                    }
                }
            }
        }
    }
}

/// The gradient of the weight for the gradient `dy` of the output: `[channels, 1, kernel, kernel]`.
pub(super) fn backward_weight(x: &[f32], dy: &[f32], geometry: &Geometry) -> Vec<f32> {
    let planes = x.par_chunks(geometry.in_plane()).zip(dy.par_chunks(geometry.out_plane()));
    let of_planes: Vec<Vec<f64>> =
        planes.map_init(Scratch::default, |scratch, (x, dy)| geometry.backward_weight(x, dy, scratch)).collect();
    in_order(of_planes.iter(), geometry)
}

/// Adds filters' gradients up in the order of the samples, whatever thread made them.
pub(super) fn in_order<'a>(of_planes: impl Iterator<Item = &'a Vec<f64>>, geometry: &Geometry) -> Vec<f32> {
    let taps = geometry.kernel * geometry.kernel;
    let mut sums = vec![0.0f64; geometry.channels * taps];
    for (index, of_plane) in of_planes.enumerate() {
        let of_channel = &mut sums[(index % geometry.channels) * taps..][..taps];
        for (sum, value) in of_channel.iter_mut().zip(of_plane) {
            *sum += value;
        }
    }
    sums.into_iter().map(|sum| sum as f32).collect()
}

#[inline(always)]
fn backward_weight_plane<const K: usize>(
    x: &[f32],
    dy: &[f32],
    geometry: &Geometry,
    phases: &mut Vec<f32>,
    rows: &mut Vec<f32>,
) -> Vec<f64> {
    geometry.split(x, phases);
    let (stride, length) = (geometry.stride, geometry.phase());
    let [.., height, width] = geometry.output();
    let row_length = padded(width);
    geometry.pad_output(dy, 0, row_length, rows);
    let mut gradient = vec![0.0f64; K * K];
    for (tap_row, gradient) in gradient.chunks_exact_mut(K).enumerate() {
        let mut sums = [[0.0f32; LANES]; K];
        for (row, dy) in rows.chunks_exact(row_length).enumerate().take(height) {
            let Some(source) = geometry.input_row(row, tap_row) else { continue };
            let source = &phases[source * stride * length..][..stride * length];
            for (start, dy) in (0..row_length).step_by(LANES).zip(dy.as_chunks::<LANES>().0) {
                for (column, sums) in sums.iter_mut().enumerate() {
                    let at = (column % stride) * length + column / stride + start;
                    for ((sum, x), dy) in sums.iter_mut().zip(&source[at..at + LANES]).zip(dy) {
                        *sum += x * dy;
                    }
                }
            }
            // Float32 only within 16 rows: long sums lose digits.
            if row % 16 == 15 {
                flush(&mut sums, gradient);
            }
        }
        flush(&mut sums, gradient);
    }
    gradient
}

#[inline(always)]
fn flush<const K: usize>(sums: &mut [[f32; LANES]; K], totals: &mut [f64]) {
    for (sums, total) in sums.iter_mut().zip(totals) {
        *total += sums.iter().map(|sum| f64::from(*sum)).sum::<f64>();
        *sums = [0.0; LANES];
    }
}
