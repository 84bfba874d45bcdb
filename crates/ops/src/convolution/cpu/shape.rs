//! The shapes of a dense convolution, and how its output is divided into tiles and pieces.

use std::ops::Range;

use crate::cpu::gemm::Threads;
use crate::cpu::parts::parts_of;

/// The most bytes of a tile, so that it stays in the second-level cache.
const TILE: usize = 1 << 20;
/// Pixels that the kernel of the matrix product takes at a time where registers are widest.
const BLOCK: usize = 64;
/// Bytes of a piece of a map, so that it stays in the second-level cache.
const PIECE: usize = 1 << 20;
/// A piece has a multiple of this number of pixels.
const PIECE_PIXELS: usize = 256;

/// The shapes of one convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dense {
    pub(crate) batch: usize,
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) kernel: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// Rows of zeros above and columns of zeros to the left; below and to the right there are as many as the output needs.
    pub(crate) before: [usize; 2],
    /// Height and width of the output.
    pub(crate) out: [usize; 2],
}

impl Dense {
    pub(crate) fn pointwise(&self) -> bool {
        self.kernel == 1 && self.stride == 1 && self.before == [0; 2] && self.out == [self.height, self.width]
    }

    pub(crate) fn input_shape(&self) -> [usize; 4] {
        [self.batch, self.input, self.height, self.width]
    }

    pub(crate) fn output_shape(&self) -> [usize; 4] {
        [self.batch, self.output, self.out[0], self.out[1]]
    }

    pub(crate) fn in_sample(&self) -> usize {
        self.input * self.height * self.width
    }

    pub(crate) fn out_plane(&self) -> usize {
        self.out[0] * self.out[1]
    }

    /// Input values under the kernel: the rows of a tile, and the columns of the matrix of filters.
    pub(crate) fn fan(&self) -> usize {
        self.input * self.kernel * self.kernel
    }

    /// Rows of output pixels in a tile: as many as fit, and up to three more if that makes a whole number of blocks, because the
    /// remainder of a block is slower.
    fn tile_rows(&self) -> usize {
        let [height, width] = self.out.map(|size| size.max(1));
        let fitting = (TILE / size_of::<f32>() / (self.fan() * width).max(1)).max(1);
        let whole = (fitting..fitting + 4).find(|rows| (rows * width).is_multiple_of(BLOCK));
        whole.unwrap_or(fitting).min(height)
    }

    /// Elements of a tile.
    pub(crate) fn tile(&self) -> usize {
        if self.pointwise() { 0 } else { self.fan() * self.tile_rows() * self.out[1] }
    }

    /// Pixels that a 1x1 convolution takes at a time where its input is normalised piece by piece. It does not depend on the batch
    /// or the number of threads, so neither does the order of sums.
    pub(crate) fn piece(&self) -> usize {
        self.piece_of(self.input)
    }

    /// Pixels that a 1x1 convolution takes at a time where pieces of both input and output are held in another format than the map's.
    pub(crate) fn piece_of_both(&self) -> usize {
        self.piece_of(self.input + self.output)
    }

    fn piece_of(&self, channels: usize) -> usize {
        let pixels = PIECE / size_of::<f32>() / channels.max(1);
        (pixels - pixels % PIECE_PIXELS).max(PIECE_PIXELS).min(self.out_plane())
    }

    /// The pixels of an output plane, so many at a time.
    pub(crate) fn pieces(&self, at_once: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        parts_of(0..self.out_plane(), at_once)
    }

    /// The same in pieces of both input and output. A product of one column adds up in another order than those of several, so a pixel is by
    /// itself only where it would be in [`Dense::pieces`], and a result does not depend on which of them it is computed in.
    pub(crate) fn pieces_of_both(&self, at_once: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let each = self.piece_of_both();
        self.pieces(at_once).flat_map(move |piece| {
            let one_is_left = piece.len() % each.max(1) == 1;
            parts_of(piece, if one_is_left { each - 1 } else { each })
        })
    }

    /// One thread computes a sample if there are at least as many samples as threads; otherwise all threads share each sample.
    pub(crate) fn threads(&self) -> Threads {
        if self.batch < rayon::current_num_threads() { Threads::All } else { Threads::One }
    }

    /// Rows, and columns, from the first tap of the kernel to the last.
    pub(super) fn reach(&self) -> usize {
        (self.kernel - 1) * self.dilation
    }

    /// Rows and columns from the first tap of the kernel to this one.
    pub(super) fn under(&self, tap: usize) -> [usize; 2] {
        [tap / self.kernel, tap % self.kernel].map(|at| at * self.dilation)
    }

    /// The output columns for which a tap, `tap_column` columns from the first, falls inside the map.
    pub(super) fn columns(&self, tap_column: usize) -> Range<usize> {
        let start = self.before[1].saturating_sub(tap_column).div_ceil(self.stride);
        let end = (self.width + self.before[1]).saturating_sub(tap_column).div_ceil(self.stride).min(self.out[1]);
        start..end.max(start)
    }

    /// Where tap `tap` falls for output row `row`: the row of the input, the output columns for which it is inside, and the input
    /// column of the first of them. `None` if it is outside for the whole row.
    pub(super) fn meeting(&self, row: usize, tap: usize) -> Option<(usize, Range<usize>, usize)> {
        let [tap_row, tap_column] = self.under(tap);
        let line = (row * self.stride + tap_row).checked_sub(self.before[0]).filter(|line| *line < self.height)?;
        let columns = self.columns(tap_column);
        let first = columns.start * self.stride + tap_column;
        (!columns.is_empty()).then(|| (line, columns, first - self.before[1]))
    }

    /// Calls `work` for each tile of a sample with its first row, its rows, the pixels before it and the pixels in it.
    pub(crate) fn tiles(&self, mut work: impl FnMut(usize, usize, usize, usize)) {
        let [height, width] = self.out;
        let each = self.tile_rows();
        for first in (0..height).step_by(each) {
            let rows = each.min(height - first);
            work(first, rows, first * width, rows * width);
        }
    }
}
