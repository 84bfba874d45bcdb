//! Temporary memory of the CPU's convolutions, for the memory planner. It is computed from the same constants that the convolutions
//! use.

use burn::tensor::DType;

use super::filters;
use super::pointwise;
use super::samples;
use super::shape::Dense;
use super::strips::Strips;
use super::winograd;
use crate::cpu::factors::multiplies_as_stored;
use crate::cpu::gemm::apart;
use crate::cpu::gemm_bf16::{self, Left};

/// A dense convolution on the CPU. Of maps of a half format it widens pieces to float32. Where the processor multiplies numbers of bf16,
/// maps of bf16 are multiplied as they are stored, and filters are packed for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvScratch {
    /// Samples of the batch.
    pub batch: usize,
    /// Channels, height and width of the input.
    pub input: [usize; 3],
    /// Channels, height and width of the output.
    pub output: [usize; 3],
    /// Side of the kernel.
    pub kernel: usize,
    /// Pixels from one place of the kernel to the next.
    pub stride: usize,
    /// Pixels from one tap of the kernel to the next.
    pub dilation: usize,
    /// Rows of zeros above and columns of zeros to the left.
    pub before: [usize; 2],
    /// Threads that the convolution runs on.
    pub threads: usize,
    /// The format of maps.
    pub format: DType,
}

impl ConvScratch {
    /// Bytes that are held while the output of a whole map is computed.
    pub fn forward(&self) -> usize {
        self.way().forward()
    }

    /// Bytes that are held while the output is computed by a convolution that normalises its input while reading it.
    pub fn forward_of_reading(&self) -> usize {
        self.way().forward_of_reading()
    }

    /// Bytes that are held while the gradient of the weight is computed: a part for each sample that is computed at a time, their
    /// sum, and the buffers of each.
    pub fn weight_gradient(&self) -> usize {
        self.way().weight_gradient()
    }

    /// Bytes that are held while the gradient of the input is computed.
    pub fn input_gradient(&self) -> usize {
        self.way().input_gradient()
    }

    /// Bytes that are held while both gradients are computed of a convolution that normalises its input while reading it, beside the
    /// gradient of the normalised map.
    pub fn gradients_of_reading(&self) -> usize {
        self.way().gradients_of_reading()
    }

    /// Bytes of the filters in the form that products need, which every call of the convolution prepares once.
    pub fn prepared(&self) -> usize {
        self.way().prepared()
    }

    /// Bytes of these that a [`crate::FilterCache`] keeps.
    pub fn packed(&self) -> usize {
        let way = self.way();
        way.packed(&way.shape)
    }

    /// Whether the gradient of a normalised map, which needs sums over all samples, waits for them in float32 though the map is of a half
    /// format. Where maps are multiplied as they are stored, it waits in their format.
    pub fn waits_in_float32(&self) -> bool {
        self.way().widens()
    }

    /// The way in which this convolution is computed.
    fn way(&self) -> Way {
        let Self { batch, input, output, kernel, stride, dilation, before, threads, format } = *self;
        let ([input, height, width], [output, rows, columns]) = (input, output);
        let out = [rows, columns];
        let shape = Dense { batch, input, output, height, width, kernel, stride, dilation, before, out };
        let halved = multiplies_as_stored(format);
        Way { shape, threads, halves: format.size() < size_of::<f32>(), halved }
    }
}

/// A way of computing a convolution.
struct Way {
    shape: Dense,
    threads: usize,
    /// Whether maps are of a half format.
    halves: bool,
    /// Whether they are multiplied as they are stored.
    halved: bool,
}

impl Way {
    fn forward(&self) -> usize {
        let shape = &self.shape;
        bytes(self.product(shape)) + self.prepared()
    }

    fn forward_of_reading(&self) -> usize {
        let shape = &self.shape;
        let pixels = if self.halves { shape.piece_of_both() } else { shape.piece() };
        let read = self.read(shape, pixels);
        let made = if shape.pointwise() { shape.output * pixels } else { self.written(shape) };
        let halves = if self.halves { made } else { 0 };
        bytes(self.at_once() * (read + halves) + self.product_of_wide(shape)) + self.prepared()
    }

    fn weight_gradient(&self) -> usize {
        let shape = &self.shape;
        let widened = match winograd::serves(shape, self.halved) {
            _ if pointwise::serves(shape, self.halved) => pointwise::scratch(shape),
            _ if !self.widens() => 0,
            true => 0,
            false => shape.in_sample() + self.written(shape),
        };
        bytes(self.sums(shape) + self.at_once() * widened) + self.packed_gradient(shape)
    }

    fn input_gradient(&self) -> usize {
        let shape = &self.shape;
        if pointwise::serves(shape, self.halved) {
            return bytes(self.product(shape)).max(self.gradients_of_pieces(shape));
        }
        let of_output = if self.widens() { self.written(shape) } else { 0 };
        let widened = match shape.spreads() {
            _ if shape.pointwise() => 0,
            true => of_output,
            false => shape.in_sample() + of_output,
        };
        let made = match shape.turned() {
            Some(turned) => self.product(&turned),
            None if self.halves => self.at_once() * (shape.tile() + widened) + self.pieces(shape),
            None => self.at_once() * shape.tile(),
        };
        bytes(self.turned_filters() + made) + self.packed_turned(shape)
    }

    /// Bytes held while both gradients of a 1x1 convolution are computed, beside the gradients.
    fn gradients_of_pieces(&self, shape: &Dense) -> usize {
        let made = if self.halves { shape.input * pointwise::piece(shape) } else { 0 };
        let each = pointwise::scratch(shape) + made;
        bytes(self.sums(shape) - shape.output * shape.fan() + self.at_once() * each)
    }

    fn gradients_of_reading(&self) -> usize {
        let shape = &self.shape;
        let read = self.read(shape, shape.piece());
        let widened = match (shape.turned(), shape.pointwise()) {
            (_, true) if !self.halved => shape.output * apart(shape.piece()),
            _ if !self.widens() => 0,
            // Computed as a convolution of the output's gradient, after the gradient of the weight.
            (Some(turned), _) if !winograd::serves(&turned, self.halved) => turned.in_sample() + self.written(shape),
            _ => self.written(shape),
        };
        // The gradient of the normalised map before it is rounded.
        let made = match (shape.turned(), shape.pointwise()) {
            _ if !self.halved => 0,
            (_, true) => shape.input * shape.piece(),
            (Some(turned), _) => self.written(&turned),
            (None, _) if shape.spreads() => 0,
            (None, _) => shape.in_sample(),
        };
        let packed = self.packed_gradient(shape) + self.packed_turned(shape);
        // Of the gradient of the weight, and after it of that of the input.
        let tile = if shape.turned().is_some() { 0 } else { shape.tile() };
        let each = read + widened + made + self.each_sum(shape).max(tile);
        bytes(self.at_once() * each + self.parts(shape) + self.turned_filters()) + packed
    }

    /// Whether maps are widened before they are multiplied.
    fn widens(&self) -> bool {
        self.halves && !self.halved
    }

    /// Samples that are computed at the same time.
    fn at_once(&self) -> usize {
        if self.shape.batch < self.threads { 1 } else { self.threads }
    }

    fn turned_filters(&self) -> usize {
        match self.shape.turned() {
            Some(turned) => filters::turned_size(&turned, self.halved),
            None => 0,
        }
    }

    /// Bytes of the filters in the form that products need.
    fn prepared(&self) -> usize {
        bytes(filters::size(&self.shape, self.halved)) + self.packed(&self.shape)
    }

    /// Elements of what is normalised at a time: so many pixels of a 1x1 convolution, which are rounded where maps are multiplied as they
    /// are stored; otherwise a sample, unless that is done strip by strip.
    fn read(&self, shape: &Dense, pixels: usize) -> usize {
        match (shape.pointwise(), self.strips(shape)) {
            (true, _) if self.halved => (shape.input * pixels).div_ceil(2),
            (true, _) => shape.input * apart(pixels),
            (false, Some(_)) => 0,
            (false, None) => shape.in_sample(),
        }
    }

    /// Bytes of packed filters.
    fn packed(&self, shape: &Dense) -> usize {
        if self.halved { filters::packed_size(shape) } else { 0 }
    }

    /// Bytes of packed filters for the gradient of the input.
    fn packed_turned(&self, shape: &Dense) -> usize {
        match shape.turned() {
            Some(turned) => self.packed(&turned),
            None if self.halved => Left::bytes(shape.fan(), shape.output),
            None => 0,
        }
    }

    /// Bytes of the packed gradients of the output in few pixels, or in the last of many, of which the gradient of the weight is made by
    /// outer products.
    fn packed_gradient(&self, shape: &Dense) -> usize {
        let pixels = shape.out_plane().min(gemm_bf16::LONG - 1);
        if self.halved { self.at_once() * Left::bytes(shape.output, pixels) } else { 0 }
    }

    /// Elements of the gradient of the weight, of its parts, and of what each of these is computed from.
    fn sums(&self, shape: &Dense) -> usize {
        self.parts(shape) + self.at_once() * self.each_sum(shape)
    }

    /// Elements of the gradient of the weight and of its parts.
    fn parts(&self, shape: &Dense) -> usize {
        samples::parts_of_sum(shape.batch, self.at_once()) * shape.output * shape.fan()
    }

    /// Elements that a part of the gradient of the weight is computed from.
    fn each_sum(&self, shape: &Dense) -> usize {
        match self.strips(shape) {
            Some(strips) => strips.gradient_bytes().div_ceil(size_of::<f32>()),
            None if winograd::serves(shape, self.halved) => winograd::weight_scratch(shape),
            None => shape.tile(),
        }
    }

    /// Elements of the buffers that the matrix products of a convolution of a map go through.
    fn product(&self, shape: &Dense) -> usize {
        let widened = match winograd::serves(shape, self.halved) || shape.pointwise() {
            true => self.pieces(shape),
            false => {
                let of_input = if self.widens() { shape.in_sample() } else { 0 };
                self.at_once() * (of_input + self.written(shape))
            }
        };
        self.product_of_wide(shape) + if self.halves { widened } else { 0 }
    }

    /// The same where neither the map nor the output has to be converted.
    fn product_of_wide(&self, shape: &Dense) -> usize {
        if winograd::serves(shape, self.halved) {
            return winograd::forward_scratch(shape, self.at_once(), self.threads);
        }
        let each = match self.strips(shape) {
            Some(strips) => strips.forward_bytes().div_ceil(size_of::<f32>()),
            None if shape.pointwise() => 0,
            None => shape.tile(),
        };
        self.at_once() * each
    }

    /// The strips that a convolution is computed in, if it is.
    fn strips<'a>(&self, shape: &'a Dense) -> Option<Strips<'a>> {
        if self.halved { Strips::of(shape) } else { None }
    }

    /// Elements of the pieces of input and output that a 1x1 convolution converts at a time.
    fn pieces(&self, shape: &Dense) -> usize {
        let pixels = if shape.pointwise() { shape.piece_of_both() } else { 0 };
        self.at_once() * (shape.input + shape.output) * pixels
    }

    /// Elements of the output in a tile, which are rounded, or widened, together.
    fn written(&self, shape: &Dense) -> usize {
        let elsewhere = winograd::serves(shape, self.halved) || self.strips(shape).is_some();
        if elsewhere { 0 } else { shape.output * shape.tile() / shape.fan().max(1) }
    }
}

fn bytes(numbers: usize) -> usize {
    numbers * size_of::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_filters_are_counted_where_maps_may_be_multiplied_as_they_are_stored() {
        let single = ConvScratch {
            batch: 1,
            input: [96, 7, 7],
            output: [160, 7, 7],
            kernel: 1,
            stride: 1,
            dilation: 1,
            before: [0; 2],
            threads: 2,
            format: DType::F32,
        };
        let half = ConvScratch { format: DType::BF16, ..single };
        let packed = |rows, inner| if gemm_bf16::pays() { Left::bytes(rows, inner) } else { 0 };
        // All pixels of a plane in float32, of input and output.
        let pieces = (96 + 160) * 49 * size_of::<f32>();
        assert_eq!(single.forward(), 0);
        // Copies of all pixels, in rows an odd number of lines of the cache apart.
        let copies = (96 + 160) * 80 * size_of::<f32>();
        assert_eq!(single.input_gradient(), copies);
        assert_eq!(half.forward(), pieces + packed(160, 96));
        let both = if gemm_bf16::pays() { pieces + packed(96, 160) } else { copies + 96 * 49 * size_of::<f32>() };
        assert_eq!(half.input_gradient(), both);
        // Columns of bf16; the transforms of a map of float16 are those of float32, and what is widened comes on top.
        let square = ConvScratch { kernel: 3, before: [1; 2], ..half };
        let of = |format| ConvScratch { format, ..square }.forward();
        assert!(of(DType::F16) >= of(DType::F32));
        assert!(square.forward() > packed(160, 9 * 96));
    }
}
