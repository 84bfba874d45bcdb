//! Kernels for depthwise convolution and its two gradients, of maps whose normalisation may be deferred.
//!
//! A unit computes `N` neighbouring channels of a tile, which is `window.tile` neighbouring pixels of a row. The windows of the tile
//! overlap, so a value that the unit has loaded, normalised and activated once is used for several pixels. The rows of the filter are
//! a loop at run time; its columns and the pixels of the tile are unrolled, so that sums and taps stay in registers. The window is a
//! compile-time parameter: which tap meets which pixel is decided when the kernel is compiled.
//!
//! In all three kernels `CUBE_POS_X` and `UNIT_POS_X` choose the channels. With channels last in memory, the units of a row of a cube
//! read consecutive addresses. Sums are float32.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::cube::read::{Applied, Read, numbers, over_rows_in, reading};
use crate::cube::units::UNITS;

/// The compile-time parameters of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    /// Side of the filter.
    pub(crate) side: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// Rows of zeros above and columns of zeros to the left.
    pub(crate) before: [usize; 2],
    /// Pixels of a row that a unit writes. In [`backward_input()`] a multiple of the stride.
    pub(crate) tile: usize,
}

impl Window {
    /// Pixels from the first tap of the filter to the last.
    fn reach(self) -> usize {
        (self.side - 1) * self.dilation
    }

    /// The column of the filter whose tap is this many pixels from the first, if there is one.
    fn tap_at(self, pixels: usize) -> Option<usize> {
        (pixels.is_multiple_of(self.dilation) && pixels <= self.reach()).then(|| pixels / self.dilation)
    }

    /// Input columns under the windows of a tile of the output.
    fn columns(self) -> usize {
        (self.tile - 1) * self.stride + self.reach() + 1
    }

    /// How many output columns before its own first one reach a tile of the input.
    fn back(self) -> usize {
        (self.reach() - self.before[1]) / self.stride
    }

    /// Output columns that reach a tile of the input.
    fn reaching(self) -> usize {
        self.back() + 1 + (self.tile - 1 + self.before[1]) / self.stride
    }

    /// The column of the filter whose tap, for the pixel `place` of a tile of the output, falls on input column `column` of those under
    /// the tile.
    fn tap(self, column: usize, place: usize) -> Option<usize> {
        column.checked_sub(place * self.stride).and_then(|pixels| self.tap_at(pixels))
    }

    /// The column of the filter through which output column `column`, of those that reach a tile of the input, meets the pixel
    /// `place` of the tile.
    fn tap_back(self, column: usize, place: usize) -> Option<usize> {
        let at = place + self.before[1] + self.back() * self.stride;
        at.checked_sub(column * self.stride).and_then(|pixels| self.tap_at(pixels))
    }
}

/// Where a unit works: a tile of a row of a sample, and the channels.
#[derive(CubeType, Clone, Copy)]
struct Tile {
    sample: usize,
    /// Which vector of neighbouring channels.
    vector: usize,
    row: usize,
    /// The first pixel of the tile.
    first: usize,
}

/// The tile of this unit, where a row has `tiles` of them.
#[cube]
fn tile_of_unit(tiles: u32, #[comptime] window: Window) -> Tile {
    let tile = (CUBE_POS_Y * CUBE_DIM_Y + UNIT_POS_Y) as usize;
    Tile {
        sample: CUBE_POS_Z as usize,
        vector: (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize,
        row: tile / tiles as usize,
        first: tile % tiles as usize * window.tile,
    }
}

/// So many sums, in registers.
#[cube]
fn zeros<N: Size>(#[comptime] count: usize) -> Array<Vector<f32, N>> {
    let mut sums = Array::<Vector<f32, N>>::new(count);
    #[unroll]
    for index in 0..count {
        sums[index] = Vector::new(0.0);
    }
    sums
}

/// The taps of a row of the filter.
#[cube]
fn taps_of<N: Size>(
    filters: &Tensor<Vector<f32, N>>,
    tap_row: usize,
    vectors: usize,
    vector: usize,
    #[comptime] window: Window,
) -> Array<Vector<f32, N>> {
    let mut taps = Array::<Vector<f32, N>>::new(window.side);
    #[unroll]
    for tap in 0..window.side {
        taps[tap] = filters[(tap_row * window.side + tap) * vectors + vector];
    }
    taps
}

/// Adds the value of a column, times the tap through which the two meet, to the sum of every pixel of a tile that it meets.
/// [`Window::tap_back`] says through which if the value is the output's and the tile the input's, and otherwise [`Window::tap`].
#[cube]
fn add_to_tile<N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    value: Vector<f32, N>,
    taps: &Array<Vector<f32, N>>,
    #[comptime] column: usize,
    #[comptime] back: bool,
    #[comptime] window: Window,
) {
    #[unroll]
    for place in 0..window.tile {
        let tap = comptime!(if back { window.tap_back(column, place) } else { window.tap(column, place) });
        if comptime!(tap.is_some()) {
            sums[place] += value * taps[comptime!(tap.unwrap_or(0))];
        }
    }
}

/// Writes the sums of a tile, as far as its row goes.
#[cube]
fn write<F: Float, N: Size>(
    sums: &Array<Vector<f32, N>>,
    out: &mut Tensor<Vector<F, N>>,
    tile: &Tile,
    #[comptime] window: Window,
) {
    let line = tile.sample * out.stride(0) + tile.vector * N::value() * out.stride(1) + tile.row * out.stride(2);
    #[unroll]
    for place in 0..window.tile {
        if tile.first + place < out.shape(3) {
            let to = line + (tile.first + place) * out.stride(3);
            out[to / N::value()] = Vector::cast_from(sums[place]);
        }
    }
}

/// Computes the output. `filters` is `[side * side, channels]`.
///
/// `CUBE_POS_Z` is the sample; `CUBE_POS_Y` and `UNIT_POS_Y` choose a row of the output and a tile in it. For each row of the filter, a
/// unit loads its taps, goes over the input columns under the tile, and adds each value times the right tap to the sum of every pixel
/// whose window holds it.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn forward<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    filters: &Tensor<Vector<f32, N>>,
    applied: &Applied<N>,
    y: &mut Tensor<Vector<F, N>>,
    tiles: u32,
    #[comptime] read: Read,
    #[comptime] window: Window,
    #[define(F)] _element: ElemType,
) {
    let vectors = x.shape(1) / N::value();
    let tile = tile_of_unit(tiles, window);
    if tile.vector < vectors && tile.row < y.shape(2) {
        let of = numbers::<N>(applied, vectors, tile.vector, CUBE_POS_Z, read);
        let mut sums = zeros::<N>(window.tile);
        let plane = tile.sample * x.stride(0) + tile.vector * N::value() * x.stride(1);
        for tap_row in 0..window.side {
            let line = tile.row * window.stride + tap_row * window.dilation;
            if line >= window.before[0] && line - window.before[0] < x.shape(2) {
                let taps = taps_of::<N>(filters, tap_row, vectors, tile.vector, window);
                let line = plane + (line - window.before[0]) * x.stride(2);
                #[unroll]
                for column in 0..comptime!(window.columns()) {
                    let at = tile.first * window.stride + column;
                    let mut value = Vector::<f32, N>::new(0.0);
                    if at >= window.before[1] && at - window.before[1] < x.shape(3) {
                        let at = line + (at - window.before[1]) * x.stride(3);
                        value = reading::<N>(Vector::cast_from(x[at / N::value()]), &of, read);
                    }
                    add_to_tile::<N>(&mut sums, value, &taps, column, false, window);
                }
            }
        }
        write::<F, N>(&sums, y, &tile, window);
    }
}

/// The gradient of the input from that of the output.
///
/// `CUBE_POS_Z` is the sample; `CUBE_POS_Y` and `UNIT_POS_Y` choose a row of the input and a tile in it. It gathers instead of
/// scattering: for each row of the filter, a unit finds the output row that reaches its own and goes over the output columns that
/// reach the tile. So every pixel is written once, by one unit, and no atomic operations are needed.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn backward_input<F: Float, N: Size>(
    dy: &Tensor<Vector<F, N>>,
    filters: &Tensor<Vector<f32, N>>,
    dx: &mut Tensor<Vector<F, N>>,
    tiles: u32,
    #[comptime] window: Window,
    #[define(F)] _element: ElemType,
) {
    let vectors = dx.shape(1) / N::value();
    let tile = tile_of_unit(tiles, window);
    if tile.vector < vectors && tile.row < dx.shape(2) {
        let mut sums = zeros::<N>(window.tile);
        let plane = tile.sample * dy.stride(0) + tile.vector * N::value() * dy.stride(1);
        for tap_row in 0..window.side {
            // The output row that reaches this row through this row of the filter; `dy.shape(2)` if there is none.
            let below = tile.row + window.before[0];
            let mut line = dy.shape(2);
            let above = tap_row * window.dilation;
            if below >= above {
                let reaching = (below - above) / window.stride;
                if reaching * window.stride + above == below {
                    line = reaching;
                }
            }
            if line < dy.shape(2) {
                let taps = taps_of::<N>(filters, tap_row, vectors, tile.vector, window);
                let line = plane + line * dy.stride(2);
                #[unroll]
                for column in 0..comptime!(window.reaching()) {
                    let at = tile.first / window.stride + column;
                    let back = comptime!(window.back());
                    let mut value = Vector::<f32, N>::new(0.0);
                    if at >= back && at - back < dy.shape(3) {
                        let at = line + (at - back) * dy.stride(3);
                        value = Vector::cast_from(dy[at / N::value()]);
                    }
                    add_to_tile::<N>(&mut sums, value, &taps, column, true, window);
                }
            }
        }
        write::<F, N>(&sums, dx, &tile, window);
    }
}

/// Partial sums of the gradient of the filters: `parts` `[side * side, parts, channels]`.
///
/// `CUBE_POS_Z` is a row of the filter, and `CUBE_POS_Y` the part. The work is divided into jobs, one for each stretch of `tiles` tiles
/// of a row of the output of a sample; a unit takes every `CUBE_COUNT_Y * CUBE_DIM_Y`-th job. It keeps the sums of one row of the filter
/// in registers: loads a tile of the output's gradient, then goes over the input columns under it. At the end, the units of a cube add
/// up their sums in shared memory.
#[cube(launch, address_type = "dynamic")]
pub(crate) fn backward_filters<F: Float, N: Size>(
    x: &Tensor<Vector<F, N>>,
    dy: &Tensor<Vector<F, N>>,
    applied: &Applied<N>,
    parts: &mut Tensor<Vector<f32, N>>,
    stretches: u32,
    tiles: u32,
    #[comptime] read: Read,
    #[comptime] window: Window,
    #[define(F)] _element: ElemType,
) {
    let vectors = x.shape(1) / N::value();
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let tap_row = CUBE_POS_Z as usize;
    let mut sums = zeros::<N>(window.side);
    if vector < vectors {
        let of_sample = dy.shape(2) * stretches as usize;
        let mut job = (CUBE_POS_Y * CUBE_DIM_Y + UNIT_POS_Y) as usize;
        while job < of_sample * dy.shape(0) {
            let sample = job / of_sample;
            let row = job % of_sample / stretches as usize;
            let stretch = job % of_sample % stretches as usize;
            let line = row * window.stride + tap_row * window.dilation;
            if line >= window.before[0] && line - window.before[0] < x.shape(2) {
                let of = numbers::<N>(applied, vectors, vector, sample as u32, read);
                let channel = vector * N::value();
                let line = sample * x.stride(0) + channel * x.stride(1) + (line - window.before[0]) * x.stride(2);
                let of_line = sample * dy.stride(0) + channel * dy.stride(1) + row * dy.stride(2);
                for tile in 0..tiles as usize {
                    let first = (stretch * tiles as usize + tile) * window.tile;
                    let mut of_places = Array::<Vector<f32, N>>::new(window.tile);
                    #[unroll]
                    for place in 0..window.tile {
                        of_places[place] = Vector::new(0.0);
                        if first + place < dy.shape(3) {
                            let at = of_line + (first + place) * dy.stride(3);
                            of_places[place] = Vector::cast_from(dy[at / N::value()]);
                        }
                    }
                    #[unroll]
                    for column in 0..comptime!(window.columns()) {
                        let at = first * window.stride + column;
                        if at >= window.before[1] && at - window.before[1] < x.shape(3) {
                            let at = line + (at - window.before[1]) * x.stride(3);
                            let value = reading::<N>(Vector::cast_from(x[at / N::value()]), &of, read);
                            #[unroll]
                            for place in 0..window.tile {
                                let tap = comptime!(window.tap(column, place));
                                if comptime!(tap.is_some()) {
                                    let tap = comptime!(tap.unwrap_or(0));
                                    sums[tap] += value * of_places[place];
                                }
                            }
                        }
                    }
                }
            }
            job += (CUBE_COUNT_Y * CUBE_DIM_Y) as usize;
        }
    }
    let mut shared = Shared::<[Vector<f32, N>]>::new_slice(comptime!(UNITS as usize));
    #[unroll]
    for tap in 0..window.side {
        let sum = over_rows_in::<N>(&mut shared, sums[tap]);
        if UNIT_POS_Y == 0 && vector < vectors {
            let index = tap_row * window.side + tap;
            parts[(index * CUBE_COUNT_Y as usize + CUBE_POS_Y as usize) * vectors + vector] = sum;
        }
    }
}
