//! Kernels for depthwise convolution and its two gradients, of maps that may still have to be read.
//!
//! A unit takes some channels of a few neighbouring pixels of a row, so that what it has read serves all of them. Rows of the
//! kernel are a loop; its columns are unrolled. Sums are float32.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use crate::cube::layout::UNITS;
use crate::cube::read::{Applied, Read, numbers, over_rows_in, reading};

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    /// Side of the filter.
    pub(crate) side: usize,
    pub(crate) stride: usize,
    pub(crate) dilation: usize,
    /// Zeros above and to the left.
    pub(crate) before: [usize; 2],
    /// Pixels of a row that a unit writes, a multiple of the stride.
    pub(crate) tile: usize,
}

impl Window {
    /// From the filter's first pixel to its last.
    fn reach(self) -> usize {
        (self.side - 1) * self.dilation
    }

    /// The filter's column that is so many pixels from its first.
    fn tap_at(self, pixels: usize) -> Option<usize> {
        (pixels.is_multiple_of(self.dilation) && pixels <= self.reach()).then(|| pixels / self.dilation)
    }

    /// Input columns under the filter at the places of a tile.
    fn columns(self) -> usize {
        (self.tile - 1) * self.stride + self.reach() + 1
    }

    /// The first output column that reaches a tile of the input, counted back from that of the tile's first.
    fn back(self) -> usize {
        (self.reach() - self.before[1]) / self.stride
    }

    /// Output columns that reach a tile of the input.
    fn reaching(self) -> usize {
        self.back() + 1 + (self.tile - 1 + self.before[1]) / self.stride
    }

    /// The filter's column between a place of a tile of the output and a column under it.
    fn tap(self, column: usize, place: usize) -> Option<usize> {
        column.checked_sub(place * self.stride).and_then(|pixels| self.tap_at(pixels))
    }

    /// The filter's column between a place of a tile of the input and an output column that reaches it.
    fn tap_back(self, column: usize, place: usize) -> Option<usize> {
        let at = place + self.before[1] + self.back() * self.stride;
        at.checked_sub(column * self.stride).and_then(|pixels| self.tap_at(pixels))
    }
}

/// The output. `filters` `[side * side, channels]`.
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
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let sample = CUBE_POS_Z as usize;
    let tile = (CUBE_POS_Y * CUBE_DIM_Y + UNIT_POS_Y) as usize;
    let row = tile / tiles as usize;
    let first = tile % tiles as usize * window.tile;
    if vector < vectors && row < y.shape(2) {
        let of = numbers::<N>(applied, vectors, vector, CUBE_POS_Z, read);
        let mut sums = Array::<Vector<f32, N>>::new(window.tile);
        #[unroll]
        for place in 0..window.tile {
            sums[place] = Vector::new(0.0);
        }
        let plane = sample * x.stride(0) + vector * N::value() * x.stride(1);
        for tap_row in 0..window.side {
            let line = row * window.stride + tap_row * window.dilation;
            if line >= window.before[0] && line - window.before[0] < x.shape(2) {
                let mut taps = Array::<Vector<f32, N>>::new(window.side);
                #[unroll]
                for tap in 0..window.side {
                    taps[tap] = filters[(tap_row * window.side + tap) * vectors + vector];
                }
                let line = plane + (line - window.before[0]) * x.stride(2);
                #[unroll]
                for column in 0..comptime!(window.columns()) {
                    let at = first * window.stride + column;
                    let mut value = Vector::<f32, N>::new(0.0);
                    if at >= window.before[1] && at - window.before[1] < x.shape(3) {
                        let at = line + (at - window.before[1]) * x.stride(3);
                        value = reading::<N>(Vector::cast_from(x[at / N::value()]), &of, read);
                    }
                    #[unroll]
                    for place in 0..window.tile {
                        let tap = comptime!(window.tap(column, place));
                        if comptime!(tap.is_some()) {
                            sums[place] += value * taps[comptime!(tap.unwrap_or(0))];
                        }
                    }
                }
            }
        }
        let line = sample * y.stride(0) + vector * N::value() * y.stride(1) + row * y.stride(2);
        #[unroll]
        for place in 0..window.tile {
            if first + place < y.shape(3) {
                let to = line + (first + place) * y.stride(3);
                y[to / N::value()] = Vector::cast_from(sums[place]);
            }
        }
    }
}

/// The gradient of what was read, from that of the output.
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
    let vector = (CUBE_POS_X * CUBE_DIM_X + UNIT_POS_X) as usize;
    let sample = CUBE_POS_Z as usize;
    let tile = (CUBE_POS_Y * CUBE_DIM_Y + UNIT_POS_Y) as usize;
    let row = tile / tiles as usize;
    let first = tile % tiles as usize * window.tile;
    if vector < vectors && row < dx.shape(2) {
        let mut sums = Array::<Vector<f32, N>>::new(window.tile);
        #[unroll]
        for place in 0..window.tile {
            sums[place] = Vector::new(0.0);
        }
        let plane = sample * dy.stride(0) + vector * N::value() * dy.stride(1);
        for tap_row in 0..window.side {
            // The output row that reaches this one through this row of the filters, if there is one.
            let below = row + window.before[0];
            let mut line = dy.shape(2);
            let above = tap_row * window.dilation;
            if below >= above {
                let reaching = (below - above) / window.stride;
                if reaching * window.stride + above == below {
                    line = reaching;
                }
            }
            if line < dy.shape(2) {
                let mut taps = Array::<Vector<f32, N>>::new(window.side);
                #[unroll]
                for tap in 0..window.side {
                    taps[tap] = filters[(tap_row * window.side + tap) * vectors + vector];
                }
                let line = plane + line * dy.stride(2);
                #[unroll]
                for column in 0..comptime!(window.reaching()) {
                    let at = first / window.stride + column;
                    let back = comptime!(window.back());
                    let mut value = Vector::<f32, N>::new(0.0);
                    if at >= back && at - back < dy.shape(3) {
                        let at = line + (at - back) * dy.stride(3);
                        value = Vector::cast_from(dy[at / N::value()]);
                    }
                    #[unroll]
                    for place in 0..window.tile {
                        let tap = comptime!(window.tap_back(column, place));
                        if comptime!(tap.is_some()) {
                            sums[place] += value * taps[comptime!(tap.unwrap_or(0))];
                        }
                    }
                }
            }
        }
        let line = sample * dx.stride(0) + vector * N::value() * dx.stride(1) + row * dx.stride(2);
        #[unroll]
        for place in 0..window.tile {
            if first + place < dx.shape(3) {
                let to = line + (first + place) * dx.stride(3);
                dx[to / N::value()] = Vector::cast_from(sums[place]);
            }
        }
    }
}

/// Parts of the filters' gradient, `[side * side, parts, channels]`: each row of cubes takes some stretches of rows of the
/// output, and each layer of cubes one row of the filters.
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
    let mut sums = Array::<Vector<f32, N>>::new(window.side);
    #[unroll]
    for tap in 0..window.side {
        sums[tap] = Vector::new(0.0);
    }
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
