//! Temporary memory of the CPU's convolutions, for the memory planner. It is computed from the same constants that the convolutions
//! use.

use super::dense;
use super::filters;
use super::shape::Dense;
use super::winograd;
use crate::cpu::gemm_bf16::{self, Left};

/// A dense convolution on the CPU. It computes in float32 whatever half format its maps have, of pieces that it widens. Where maps of
/// bf16 are multiplied as they are stored, its filters are packed for that; what is not widened then is counted all the same.
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
    /// Whether maps are of a half format.
    pub halves: bool,
}

impl ConvScratch {
    /// Bytes that are held while the output of a whole map is computed.
    pub fn forward(&self) -> usize {
        let shape = self.shape();
        bytes(filters::size(&shape) + self.product(&shape)) + self.packed(&shape)
    }

    /// Bytes that are held while the output is computed by a convolution that normalises its input while reading it.
    pub fn forward_of_reading(&self) -> usize {
        let shape = self.shape();
        let pixels = if self.halves { shape.piece_of_both() } else { shape.piece() };
        let read = if shape.pointwise() { shape.input * pixels } else { shape.in_sample() };
        let made = if shape.pointwise() { shape.output * pixels } else { written(&shape) };
        let halves = if self.halves { made } else { 0 };
        let made_of = filters::size(&shape) + self.product_of_wide(&shape);
        bytes(self.at_once() * (read + halves) + made_of) + self.packed(&shape)
    }

    /// Bytes that are held while the gradient of the weight is computed: a part for each sample that is computed at a time, their
    /// sum, and the buffers of each.
    pub fn weight_gradient(&self) -> usize {
        let shape = self.shape();
        let widened = match (winograd::serves(&shape), shape.pointwise()) {
            (true, _) => 0,
            (false, true) => (shape.input + shape.output) * dense::PIXELS.min(shape.out_plane()),
            (false, false) => shape.in_sample() + written(&shape),
        };
        bytes(self.sums(&shape) + if self.halves { self.at_once() * widened } else { 0 }) + self.packed_gradient(&shape)
    }

    /// Bytes that are held while the gradient of the input is computed.
    pub fn input_gradient(&self) -> usize {
        let shape = self.shape();
        let widened = if shape.pointwise() { 0 } else { shape.in_sample() + written(&shape) };
        let made = match shape.turned() {
            Some(turned) => self.product(&turned),
            None if self.halves => self.product_of_wide(&shape) + self.at_once() * widened + self.pieces(&shape),
            None => self.product_of_wide(&shape),
        };
        bytes(self.turned_filters() + made) + self.packed_turned(&shape)
    }

    /// Bytes that are held while both gradients are computed of a convolution that normalises its input while reading it, beside the
    /// gradient of the normalised map.
    pub fn gradients_of_reading(&self) -> usize {
        let shape = self.shape();
        let read = if shape.pointwise() { shape.input * shape.piece() } else { shape.in_sample() };
        let widened = match (shape.turned(), shape.pointwise()) {
            _ if !self.halves => 0,
            (_, true) => shape.output * shape.piece(),
            // Computed as a convolution of the output's gradient, after the gradient of the weight.
            (Some(turned), _) if !winograd::serves(&turned) => turned.in_sample() + written(&shape),
            _ => written(&shape),
        };
        let packed = self.packed_gradient(&shape) + self.packed_turned(&shape);
        bytes(self.at_once() * (read + widened) + self.sums(&shape) + self.turned_filters()) + packed
    }

    /// Bytes of packed filters.
    fn packed(&self, shape: &Dense) -> usize {
        let packs = self.packs() && !winograd::serves(shape);
        if packs { Left::bytes(shape.output, shape.fan()) } else { 0 }
    }

    /// Bytes of packed filters for the gradient of the input.
    fn packed_turned(&self, shape: &Dense) -> usize {
        match shape.turned() {
            Some(turned) => self.packed(&turned),
            None if self.packs() => Left::bytes(shape.fan(), shape.output),
            None => 0,
        }
    }

    /// Bytes of the packed gradients of the output in the last pixels of samples, of which the gradient of the weight is made by outer
    /// products.
    fn packed_gradient(&self, shape: &Dense) -> usize {
        let packs = self.packs() && !winograd::serves(shape);
        let pixels = shape.out_plane().min(gemm_bf16::LONG - 1);
        if packs { self.at_once() * Left::bytes(shape.output, pixels) } else { 0 }
    }

    /// Whether factors of maps of bf16 are packed.
    fn packs(&self) -> bool {
        self.halves && gemm_bf16::available()
    }

    fn shape(&self) -> Dense {
        let Self { batch, input, output, kernel, stride, dilation, before, .. } = *self;
        let ([input, height, width], [output, rows, columns]) = (input, output);
        Dense { batch, input, output, height, width, kernel, stride, dilation, before, out: [rows, columns] }
    }

    /// Samples that are computed at the same time.
    fn at_once(&self) -> usize {
        if self.batch < self.threads { 1 } else { self.threads }
    }

    fn turned_filters(&self) -> usize {
        let shape = self.shape();
        match shape.turned() {
            Some(_) => filters::turned_size(&shape),
            None => 0,
        }
    }

    /// Elements of the gradient of the weight, of its parts, and of what each of these is computed from.
    fn sums(&self, shape: &Dense) -> usize {
        let made_in = if winograd::serves(shape) { winograd::weight_scratch(shape) } else { shape.tile() };
        let weight = shape.output * shape.fan();
        weight + self.at_once() * (weight + made_in)
    }

    /// Elements of the buffers that the matrix products of a convolution of a map go through.
    fn product(&self, shape: &Dense) -> usize {
        let widened = match winograd::serves(shape) || shape.pointwise() {
            true => self.pieces(shape),
            false => self.at_once() * (shape.in_sample() + written(shape)),
        };
        self.product_of_wide(shape) + if self.halves { widened } else { 0 }
    }

    /// The same where neither the map nor the output has to be converted.
    fn product_of_wide(&self, shape: &Dense) -> usize {
        if winograd::serves(shape) {
            return winograd::forward_scratch(shape, self.at_once(), self.threads);
        }
        if shape.pointwise() { 0 } else { self.at_once() * shape.tile() }
    }

    /// Elements of the pieces of input and output that a 1x1 convolution converts at a time.
    fn pieces(&self, shape: &Dense) -> usize {
        let pixels = if shape.pointwise() { shape.piece_of_both() } else { 0 };
        self.at_once() * (shape.input + shape.output) * pixels
    }
}

/// Elements of the output in a tile, which are rounded, or widened, together.
fn written(shape: &Dense) -> usize {
    if winograd::serves(shape) { 0 } else { shape.output * shape.tile() / shape.fan().max(1) }
}

fn bytes(numbers: usize) -> usize {
    numbers * size_of::<f32>()
}
