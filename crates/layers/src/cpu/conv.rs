//! Dense convolution as matrix products: pointwise on the maps as they lie, larger kernels on tiles of columns.
//!
//! A tile holds, for some rows of output pixels, the input values under each kernel position: `[input * k * k, pixels]`.
//! Its product with the filters is the output; the product of the filters' transpose with the output's gradient is a tile
//! of gradients that is added back to where its values came from; and the product of the output's gradient with the
//! tile's transpose is the filters' gradient. A tile stays in the second cache.

use burn::tensor::DType;
use rayon::prelude::*;

use super::autodiff::announce;
use super::gemm::{Matrix, Mode, Threads, multiply};

/// Bytes a tile should not exceed.
const TILE: usize = 1 << 20;
/// Pixels of a product that adds up a pointwise filter's gradient.
const PIXELS: usize = 8192;

/// The shapes of one convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dense {
    pub(super) batch: usize,
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    /// Zeros above and to the left; below and to the right there are as many as the output needs.
    pub(super) before: [usize; 2],
    /// Height and width of the output.
    pub(super) out: [usize; 2],
}

impl Dense {
    pub(super) fn pointwise(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.before == [0; 2] && self.out == [self.height, self.width]
    }

    pub(super) fn input_shape(&self) -> [usize; 4] {
        [self.batch, self.input, self.height, self.width]
    }

    pub(super) fn output_shape(&self) -> [usize; 4] {
        [self.batch, self.output, self.out[0], self.out[1]]
    }

    pub(super) fn in_sample(&self) -> usize {
        self.input * self.height * self.width
    }

    pub(super) fn out_plane(&self) -> usize {
        self.out[0] * self.out[1]
    }

    /// Rows of a tile, and of the filters: input values under the kernel.
    pub(super) fn fan(&self) -> usize {
        self.input * self.kernel * self.kernel
    }

    /// Rows of output pixels in a tile.
    fn tile_rows(&self) -> usize {
        (TILE / size_of::<f32>() / (self.fan() * self.out[1]).max(1)).clamp(1, self.out[0].max(1))
    }

    /// Samples are spread over the threads where there are enough of them, and computed by all threads otherwise.
    pub(super) fn threads(&self) -> Threads {
        if self.batch < rayon::current_num_threads() { Threads::All } else { Threads::One }
    }

    /// Fills a tile for `rows` rows of output pixels from `first` on.
    fn gather(&self, x: &[f32], first: usize, rows: usize, tile: &mut [f32], threads: Threads) {
        let width = self.out[1];
        let fill = |(index, row): (usize, &mut [f32])| {
            let (channel, tap) = (index / (self.kernel * self.kernel), index % (self.kernel * self.kernel));
            let plane = &x[channel * self.height * self.width..][..self.height * self.width];
            for (line, out) in row.chunks_exact_mut(width).enumerate() {
                self.gather_line(plane, first + line, tap, out);
            }
        };
        let lines = rows * width;
        match threads {
            Threads::All => tile.par_chunks_exact_mut(lines).enumerate().for_each(fill),
            Threads::One => tile.chunks_exact_mut(lines).enumerate().for_each(fill),
        }
    }

    /// The values of one row of output pixels under one kernel position.
    fn gather_line(&self, plane: &[f32], row: usize, tap: usize, out: &mut [f32]) {
        let Some((line, columns, first)) = self.meeting(row, tap, out.len()) else { return out.fill(0.0) };
        let source = &plane[line * self.width + first..(line + 1) * self.width];
        out[..columns.start].fill(0.0);
        out[columns.end..].fill(0.0);
        let inside = &mut out[columns];
        if self.stride == 1 {
            let length = inside.len();
            inside.copy_from_slice(&source[..length]);
        } else {
            for (out, value) in inside.iter_mut().zip(source.iter().step_by(self.stride)) {
                *out = *value;
            }
        }
    }

    /// Adds a tile of gradients back to where its values came from.
    fn scatter(&self, dx: &mut [f32], first: usize, rows: usize, tile: &[f32], threads: Threads) {
        let width = self.out[1];
        let taps = self.kernel * self.kernel;
        let add = |(plane, tile): (&mut [f32], &[f32])| {
            for (tap, row) in tile.chunks_exact(rows * width).enumerate() {
                for (line, values) in row.chunks_exact(width).enumerate() {
                    let Some((at, columns, begin)) = self.meeting(first + line, tap, width) else { continue };
                    let target = &mut plane[at * self.width + begin..(at + 1) * self.width];
                    for (target, value) in target.iter_mut().step_by(self.stride).zip(&values[columns]) {
                        *target += *value;
                    }
                }
            }
        };
        let (plane, of_channel) = (self.height * self.width, taps * rows * width);
        match threads {
            Threads::All => dx.par_chunks_exact_mut(plane).zip(tile.par_chunks_exact(of_channel)).for_each(add),
            Threads::One => dx.chunks_exact_mut(plane).zip(tile.chunks_exact(of_channel)).for_each(add),
        }
    }

    /// Where output row `row` and kernel position `tap` meet the input: its line, the output columns that meet it, and the
    /// input column of the first of them.
    fn meeting(&self, row: usize, tap: usize, width: usize) -> Option<(usize, std::ops::Range<usize>, usize)> {
        let (tap_row, tap_column) = (tap / self.kernel, tap % self.kernel);
        let line = (row * self.stride + tap_row).checked_sub(self.before[0]).filter(|line| *line < self.height)?;
        let start = self.before[1].saturating_sub(tap_column).div_ceil(self.stride);
        let end = (self.width + self.before[1]).saturating_sub(tap_column).div_ceil(self.stride).min(width);
        (start < end).then(|| (line, start..end, start * self.stride + tap_column - self.before[1]))
    }

    /// Calls `work` for each tile of a sample: first row, rows, pixels before it, pixels in it.
    fn tiles(&self, mut work: impl FnMut(usize, usize, usize, usize)) {
        let [height, width] = self.out;
        let each = self.tile_rows();
        for first in (0..height).step_by(each) {
            let rows = each.min(height - first);
            work(first, rows, first * width, rows * width);
        }
    }
}

/// Runs `work` for each sample: on all threads at once, or one after the other with all threads inside.
pub(super) fn over_samples<T: Send>(threads: Threads, samples: Vec<T>, work: impl Fn(T) + Send + Sync) {
    match threads {
        Threads::One => samples.into_par_iter().for_each(work),
        Threads::All => samples.into_iter().for_each(work),
    }
}

/// One sample.
impl Dense {
    /// The output.
    pub(super) fn forward(&self, x: &[f32], weight: &[f32], y: &mut [f32]) {
        let (plane, threads) = (self.out_plane(), self.threads());
        let filters = Matrix::of(weight, self.output, self.fan());
        if self.pointwise() {
            return multiply(y, plane, Mode::Replace, filters, Matrix::of(x, self.input, plane), threads);
        }
        let mut tile = Vec::new();
        self.tiles(|first, rows, start, pixels| {
            tile.resize(self.fan() * pixels, 0.0);
            self.gather(x, first, rows, &mut tile, threads);
            let columns = Matrix::of(&tile, self.fan(), pixels);
            multiply(&mut y[start..], plane, Mode::Replace, filters, columns, threads);
        });
    }

    /// The gradient of the input, to be added to zeros.
    pub(super) fn backward_input(&self, dy: &[f32], weight: &[f32], dx: &mut [f32]) {
        let (plane, threads) = (self.out_plane(), self.threads());
        let filters = Matrix::of(weight, self.output, self.fan()).transposed();
        if self.pointwise() {
            return multiply(dx, plane, Mode::Replace, filters, Matrix::of(dy, self.output, plane), threads);
        }
        let mut tile = Vec::new();
        self.tiles(|first, rows, start, pixels| {
            tile.resize(self.fan() * pixels, 0.0);
            let of_pixels = Matrix::of_rows(&dy[start..], self.output, pixels, plane);
            multiply(&mut tile, pixels, Mode::Replace, filters, of_pixels, threads);
            self.scatter(dx, first, rows, &tile, threads);
        });
    }

    /// The gradient of the weight, added to `dw`.
    pub(super) fn backward_weight(&self, x: &[f32], dy: &[f32], dw: &mut [f32]) {
        let (plane, threads) = (self.out_plane(), self.threads());
        if self.pointwise() {
            for start in (0..plane).step_by(PIXELS) {
                let pixels = PIXELS.min(plane - start);
                let of_output = Matrix::of_rows(&dy[start..], self.output, pixels, plane);
                let of_input = Matrix::of_rows(&x[start..], self.input, pixels, plane);
                multiply(dw, self.fan(), Mode::Add, of_output, of_input.transposed(), threads);
            }
            return;
        }
        let mut tile = Vec::new();
        self.tiles(|first, rows, start, pixels| {
            tile.resize(self.fan() * pixels, 0.0);
            self.gather(x, first, rows, &mut tile, threads);
            let of_output = Matrix::of_rows(&dy[start..], self.output, pixels, plane);
            let columns = Matrix::of(&tile, self.fan(), pixels).transposed();
            multiply(dw, self.fan(), Mode::Add, of_output, columns, threads);
        });
    }
}

/// `[batch, input, height, width]` and `[output, input, k, k]` to the output.
pub(super) fn forward(x: &[f32], weight: &[f32], shape: &Dense) -> Vec<f32> {
    let of_sample = shape.output * shape.out_plane();
    let mut y = vec![0.0; shape.batch * of_sample];
    let samples = y.chunks_exact_mut(of_sample).zip(x.chunks_exact(shape.in_sample())).collect();
    over_samples(shape.threads(), samples, |(y, x)| shape.forward(x, weight, y));
    y
}

/// The gradient of the input for the gradient `dy` of the output.
pub(super) fn backward_input(dy: &[f32], weight: &[f32], shape: &Dense) -> Vec<f32> {
    let mut dx = vec![0.0; shape.batch * shape.in_sample()];
    let of_outputs = dy.chunks_exact(shape.output * shape.out_plane());
    let samples = dx.chunks_exact_mut(shape.in_sample()).zip(of_outputs).collect();
    over_samples(shape.threads(), samples, |(dx, dy)| shape.backward_input(dy, weight, dx));
    dx
}

/// The gradient of the weight for the gradient `dy` of the output: `[output, input, k, k]`.
pub(super) fn backward_weight(x: &[f32], dy: &[f32], shape: &Dense) -> Vec<f32> {
    let inputs = x.chunks_exact(shape.in_sample());
    let samples = inputs.zip(dy.chunks_exact(shape.output * shape.out_plane()));
    sum_over_samples(shape.threads(), shape.output * shape.fan(), samples.collect(), |(x, dy), dw| {
        shape.backward_weight(x, dy, dw);
    })
}

/// The sum of `size` numbers that `work` adds to zeros for each sample.
///
/// They are added in the order of the samples, whatever thread made them; only as many are held as are made at once.
pub(super) fn sum_over_samples<T: Send>(
    threads: Threads,
    size: usize,
    samples: Vec<T>,
    work: impl Fn(T, &mut [f32]) + Send + Sync,
) -> Vec<f32> {
    let at_once = match threads {
        Threads::One => rayon::current_num_threads().min(samples.len()),
        Threads::All => 1,
    };
    announce((at_once + 1) * size, DType::F32);
    let mut sum = vec![0.0; size];
    let mut parts = vec![0.0; at_once * size];
    let mut samples = samples.into_iter().peekable();
    while samples.peek().is_some() {
        parts.fill(0.0);
        let wave: Vec<_> = parts.chunks_exact_mut(size).zip(samples.by_ref().take(at_once)).collect();
        let made = wave.len() * size;
        over_samples(threads, wave, |(part, sample)| work(sample, part));
        for part in parts[..made].chunks_exact(size) {
            sum.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
        }
    }
    sum
}
