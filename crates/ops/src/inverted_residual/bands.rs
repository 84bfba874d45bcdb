//! How a block is divided into bands of output rows, and what a band needs.

use std::ops::Range;

use burn::tensor::{DType, bf16};

use crate::convolution::cpu::depthwise::Geometry;
use crate::cpu::factors::multiplies_as_stored;
use crate::cpu::gemm::{IN_ONE_GO, apart};
use crate::cpu::gemm_bf16::{Left, Right};
use crate::cpu::lanes::ROWS_SUMMED;
use crate::cpu::panels;

/// The fewest bytes of an expanded map, and pixels of its planes, that are divided into bands: where measurements began to show a gain.
const LARGE: usize = 512 << 10;
const PIXELS: usize = 256;
/// Numbers of the middle of a block that a band of a projection computes, so that they stay in the second-level cache: 1 MiB of float32. Twice as
/// many of bf16 gained nothing.
const MIDDLE: usize = 1 << 18;
/// Bytes of the expanded map that a band computes at a time.
const EXPANDED: usize = 256 << 10;
/// Channels that a band without a projection expands at a time: as many as fit, but so many at least.
const SEVERAL: usize = 16;
/// The fewest rows of a band that is made low for the sake of more threads: lower ones would compute more rows twice than others gain. Rows of
/// a depthwise convolution are computed as many at a time, so that other bands have a multiple of it.
const FEWEST: usize = ROWS_SUMMED;
/// The number of channels of a block in bands is a multiple of this.
const CHANNELS: usize = 8;

/// The shapes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvertedResidualShape {
    /// Channels, height and width of the map before the block.
    pub input: [usize; 3],
    /// Channels of the depthwise convolution, and height and width of its output.
    pub middle: [usize; 3],
    /// Channels after the projection; 0 if it is not part of the operation.
    pub output: usize,
    /// Pixels from the first row of a depthwise kernel to its last, with both: its side if it is not dilated.
    pub reach: usize,
    /// Pixels from one place of the depthwise kernel to the next.
    pub stride: usize,
}

impl InvertedResidualShape {
    /// Whether a block is computed in bands. Smaller maps are in the cache as they are, and bands gain nothing.
    pub fn is_in_bands(&self) -> bool {
        let ([_, height, width], [channels, _, _]) = (self.input, self.middle);
        let bytes = size_of::<f32>() * channels * height * width;
        bytes >= LARGE && height * width >= PIXELS && self.keeps_orders()
    }

    /// Whether the matrix products of bands add up in the order of those of whole maps, and of any other bands ([`IN_ONE_GO`]).
    fn keeps_orders(&self) -> bool {
        let ([input, _, width], [channels, _, columns]) = (self.input, self.middle);
        let project = self.output == 0 || channels <= IN_ONE_GO || self.output > 64;
        width > 1
            && columns > 1
            && channels.is_multiple_of(CHANNELS)
            && input <= IN_ONE_GO
            && self.output != 1
            && project
    }

    /// Whether maps of a format are computed in bands: float32, float64, and half formats where their products are not those of `gemm`,
    /// which would widen all pixels again for each few channels.
    pub fn has_bands(format: DType) -> bool {
        matches!(format, DType::F32 | DType::F64) || How::of(format) != How::Plain
    }

    /// Bytes of the packed filters that all threads share.
    pub fn packed(&self, format: DType) -> usize {
        let ([input, ..], [channels, ..]) = (self.input, self.middle);
        let of_expansion = if self.expands() { How::of(format).filters(channels, input) } else { 0 };
        of_expansion + self.projection(format).filters(self.output, channels)
    }

    /// Bytes that a thread holds while it computes bands of maps of a format, as if that were float32 where it is not kept as bf16.
    pub fn scratch(&self, format: DType) -> usize {
        let (how, each, read) = (How::of(format), self.band_rows(), self.band_pixels());
        let [channels, _, columns] = self.middle;
        let (made, mut kept, mut packed) = (each * columns, 0, 0);
        if self.expands() {
            kept += self.channels_at_once(format) * apart(read);
            packed += how.pixels(self.input[0], read);
        }
        match self.projection(format) {
            _ if self.output == 0 => {}
            How::Panels => packed += How::Panels.pixels(channels, made),
            How::Halves | How::Plain => kept += channels * apart(made),
        }
        // A channel with zeros around it, a row of the input that is widened, and the product.
        let widened = if self.expands() && how != How::Halves && format.size() < size_of::<f32>() { read } else { 0 };
        let singles = read + read / 8 + widened + self.output * made;
        singles * size_of::<f32>() + kept * how.number() + packed
    }

    fn expands(&self) -> bool {
        self.input[0] != self.middle[0]
    }

    /// How filters of the projection are multiplied. Panels add up long sums in one go, others do not.
    fn projection(&self, format: DType) -> How {
        match How::of(format) {
            How::Panels if self.middle[0] > IN_ONE_GO => How::Plain,
            how => how,
        }
    }

    /// Output rows of a band; the last one may have fewer.
    pub(crate) fn band_rows(&self) -> usize {
        let [channels, height, width] = self.middle.map(|size| size.max(1));
        let most = if self.output > 0 {
            MIDDLE / (channels * width)
        } else {
            let read = EXPANDED / size_of::<f32>() / (SEVERAL * self.input[2].max(1));
            read.saturating_sub(self.reach) / self.stride + 1
        };
        // As even as possible.
        let even = |most: usize| height.div_ceil(height.div_ceil(most.clamp(1, height)));
        let rows = if self.output > 0 && most >= FEWEST { even(most - most % FEWEST) } else { even(most) };
        // Without a projection rows are added up, a few at a time.
        if self.output > 0 && rows < FEWEST { rows } else { rows.next_multiple_of(FEWEST).min(height) }
    }

    /// Pixels of each channel that a band reads at most.
    fn band_pixels(&self) -> usize {
        let [_, height, width] = self.input;
        width * ((self.band_rows() - 1) * self.stride + self.reach).min(height)
    }

    /// Channels of a map of a format that are expanded at a time.
    fn channels_at_once(&self, format: DType) -> usize {
        let (most, rows) = (EXPANDED / size_of::<f32>() / self.band_pixels().max(1), How::of(format).rows());
        (most - most % rows).max(rows).min(self.middle[0])
    }
}

/// How filters are multiplied with the pixels of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Rounded to bf16 and packed. The pixels of an expansion are packed before as well.
    Halves,
    /// In panels that were packed before, as pixels are.
    Panels,
    /// As all other products.
    Plain,
}

impl How {
    fn of(format: DType) -> Self {
        match format {
            _ if multiplies_as_stored(format) => Self::Halves,
            DType::BF16 | DType::F16 if panels::serve::<f32>() => Self::Panels,
            DType::F32 if panels::outdo_gemm() => Self::Panels,
            _ => Self::Plain,
        }
    }

    /// Bytes of packed filters.
    fn filters(self, rows: usize, inner: usize) -> usize {
        match self {
            Self::Halves => Left::bytes(rows, inner),
            Self::Panels => panels::Filters::bytes(rows, inner),
            Self::Plain => 0,
        }
    }

    /// Bytes of packed pixels.
    fn pixels(self, inner: usize, columns: usize) -> usize {
        match self {
            Self::Halves => Right::bytes(inner, columns),
            Self::Panels => panels::Pixels::bytes(inner, columns),
            Self::Plain => 0,
        }
    }

    /// Bytes of a number of the middle.
    fn number(self) -> usize {
        match self {
            Self::Halves => size_of::<bf16>(),
            Self::Panels | Self::Plain => size_of::<f32>(),
        }
    }

    /// Channels that are expanded at a time are a multiple of so many: of the rows that the kernels of the products have.
    fn rows(self) -> usize {
        match self {
            Self::Panels => 2 * panels::ROWS,
            Self::Halves => Left::PANEL,
            Self::Plain => CHANNELS,
        }
    }
}

/// A block that is computed in bands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Channels before the expansion, those of the depthwise convolution if there is none.
    pub(crate) input: usize,
    /// The depthwise convolution of whole planes.
    pub(crate) depthwise: Geometry,
    /// Channels after the projection; 0 if there is none.
    pub(crate) output: usize,
    /// That of the maps.
    pub(crate) format: DType,
}

/// What a band reads: rows of the input, and the depthwise convolution of these rows.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// The first pixel of each plane.
    pub(crate) first: usize,
    pub(crate) depthwise: Geometry,
}

impl Shape {
    /// What its bands follow from.
    pub(crate) fn described(&self) -> InvertedResidualShape {
        let Geometry { channels, height, width, kernel, stride, dilation, out, .. } = self.depthwise;
        InvertedResidualShape {
            input: [self.input, height, width],
            middle: [channels, out[0], out[1]],
            output: self.output,
            reach: (kernel - 1) * dilation + 1,
            stride,
        }
    }

    /// Channels that a band expands at a time.
    pub(crate) fn channels_at_once(&self) -> usize {
        self.described().channels_at_once(self.format)
    }

    /// Channels of a band without a projection on so many threads. Pixels that are packed serve all of its channels, so that these are
    /// several times as many as are expanded at a time, if there are enough bands all the same.
    pub(crate) fn channels_of_band(&self, threads: usize) -> usize {
        let Geometry { batch, channels, out: [height, _], .. } = self.depthwise;
        let (each, rows) = (self.channels_at_once(), height.div_ceil(self.band_rows(threads).max(1)));
        let enough = |channels_of_band: &usize| batch * rows * channels.div_ceil(*channels_of_band) >= 4 * threads;
        let several = [4 * each, 2 * each].into_iter().filter(|_| How::of(self.format) != How::Plain);
        several.map(|some| some.min(channels)).find(enough).unwrap_or(each)
    }

    /// How filters of the expansion are multiplied.
    pub(super) fn expansion(&self) -> How {
        How::of(self.format)
    }

    /// How filters of the projection are multiplied.
    pub(super) fn projection(&self) -> How {
        self.described().projection(self.format)
    }

    /// Output rows of a band on so many threads. Where a projection has samples that cannot be shared out evenly, their bands can be, if
    /// that makes none too low and changes no order of sums. Without a projection there are many bands, because channels are divided as
    /// well.
    pub(crate) fn band_rows(&self, threads: usize) -> usize {
        let Geometry { batch, out: [height, _], .. } = self.depthwise;
        let (rows, keeps_orders) = (self.described().band_rows(), self.described().keeps_orders());
        if self.output == 0 || !keeps_orders {
            return rows;
        }
        let shared = |bands: &usize| (bands * batch).is_multiple_of(threads.max(1));
        let share = (1..=threads).find(shared).unwrap_or(1);
        let bands = height.div_ceil(rows).max(1).next_multiple_of(share);
        height.div_ceil(bands).next_multiple_of(FEWEST).min(rows)
    }

    /// What a band of these output rows reads.
    pub(crate) fn read(&self, rows: &Range<usize>) -> Read {
        let whole = self.depthwise;
        let reach = (whole.kernel - 1) * whole.dilation + 1;
        let [above, left] = whole.before;
        let start = rows.start * whole.stride;
        let end = rows.end.saturating_sub(1) * whole.stride + reach;
        let first = start.saturating_sub(above).min(whole.height);
        let height = end.saturating_sub(above).clamp(first, whole.height) - first;
        let depthwise = Geometry {
            batch: 1,
            height,
            before: [above.saturating_sub(start), left],
            out: [rows.len(), whole.out[1]],
            ..whole
        };
        Read { first: first * whole.width, depthwise }
    }
}
