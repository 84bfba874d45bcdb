//! Temporary memory of the CPU's convolutions, for the memory planner. It is computed from the same constants that the convolutions
//! use.

use super::filters;
use super::shape::Dense;
use super::winograd;

/// A dense convolution on the CPU. It computes in float32 whatever half format its maps have.
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
}

impl ConvScratch {
    /// Bytes that are held while the output of a whole map is computed.
    pub fn forward(&self) -> usize {
        let shape = self.shape();
        bytes(filters::size(&shape) + self.product(&shape))
    }

    /// Bytes that are held while the gradient of the weight is computed: a part for each sample that is computed at a time, their
    /// sum, and the buffers of each.
    pub fn weight_gradient(&self) -> usize {
        let shape = self.shape();
        let made_in = if winograd::serves(&shape) { winograd::weight_scratch(&shape) } else { shape.tile() };
        let weight = shape.output * shape.fan();
        bytes(weight + self.at_once() * (weight + made_in))
    }

    /// Bytes that are held while the gradient of the input is computed.
    pub fn input_gradient(&self) -> usize {
        let shape = self.shape();
        bytes(self.turned_filters() + self.product(&shape.turned().unwrap_or(shape)))
    }

    /// Bytes that are held while both gradients are computed of a convolution that normalises its input while reading it.
    pub fn gradients_of_reading(&self) -> usize {
        self.reading() + self.weight_gradient() + bytes(self.turned_filters())
    }

    /// Bytes of the input that are normalised at a time by a convolution that does so while reading.
    pub fn reading(&self) -> usize {
        let shape = self.shape();
        let pixels = if shape.pointwise() { shape.piece() } else { shape.height * shape.width };
        bytes(self.at_once() * shape.input * pixels)
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

    /// Elements of the buffers that the matrix products of a convolution go through.
    fn product(&self, shape: &Dense) -> usize {
        if winograd::serves(shape) {
            return winograd::forward_scratch(shape, self.at_once(), self.threads);
        }
        if shape.pointwise() { 0 } else { self.at_once() * shape.tile() }
    }
}

fn bytes(numbers: usize) -> usize {
    numbers * size_of::<f32>()
}
