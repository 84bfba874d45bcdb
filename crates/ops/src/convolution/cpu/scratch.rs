//! Bytes that the CPU's convolutions hold only while they run, by the very numbers they go by: for who plans memory.

use super::dense::Dense;
use super::filters;
use super::winograd;

/// A convolution of all channels to all on the CPU, float32 inside whatever its maps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvScratch {
    /// Samples.
    pub batch: usize,
    /// Channels, height and width of the input.
    pub input: [usize; 3],
    /// Channels, height and width of the output.
    pub output: [usize; 3],
    /// Side of the kernel.
    pub kernel: usize,
    /// Stride.
    pub stride: usize,
    /// Steps between the pixels under the kernel.
    pub dilation: usize,
    /// Zeros above and to the left.
    pub before: [usize; 2],
    /// Threads that compute.
    pub threads: usize,
}

impl ConvScratch {
    /// While the output is made of a whole map.
    pub fn forward(&self) -> usize {
        let shape = self.shape();
        bytes(filters::size(&shape) + self.product(&shape))
    }

    /// While the weight's gradient is made: one for each sample that is computed at a time, their sum, and what they are
    /// made in.
    pub fn weight_gradient(&self) -> usize {
        let shape = self.shape();
        let made_in = if winograd::serves(&shape) { winograd::weight_scratch(&shape) } else { shape.tile() };
        let weight = shape.output * shape.fan();
        bytes(weight + self.at_once() * (weight + made_in))
    }

    /// While the input's gradient is made.
    pub fn input_gradient(&self) -> usize {
        let shape = self.shape();
        bytes(self.turned_filters() + self.product(&shape.turned().unwrap_or(shape)))
    }

    /// While both gradients of an input are made that is normalised while it is read.
    pub fn gradients_of_reading(&self) -> usize {
        self.reading() + self.weight_gradient() + bytes(self.turned_filters())
    }

    /// What is read at a time of an input that is normalised while it is read.
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

    /// Samples computed at a time.
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

    /// Numbers that a product of the convolution goes through.
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
