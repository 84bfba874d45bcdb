//! The memory that convolutions of enlarged maps compute in, for planning.

use super::Shape;
use super::fold::{FOLDED, QUARTERS, TAPS};
use super::strips::Strips;
use crate::convolution::cpu::{ConvScratch, samples};
use crate::cpu::gemm_bf16::Taps;
use burn::tensor::DType;

/// The shapes of a convolution of an enlarged map ([`crate::dense_of_enlarged`]), and the threads that compute it.
#[derive(Clone, Copy, Debug)]
pub struct EnlargedScratch {
    /// Samples of the batch.
    pub batch: usize,
    /// Channels, rows and columns of the map that is enlarged.
    pub input: [usize; 3],
    /// Channels of the map beside it.
    pub beside: usize,
    /// Channels of the output.
    pub output: usize,
    /// Threads.
    pub threads: usize,
}

impl EnlargedScratch {
    fn shape(&self) -> Shape {
        let &Self { batch, input: [channels, height, width], beside, output, .. } = self;
        Shape { batch, channels, beside, output, height, width }
    }

    /// Samples that are computed at the same time.
    fn at_once(&self) -> usize {
        if self.batch < self.threads { 1 } else { self.threads }
    }

    /// Bytes that are held while the output is computed.
    pub fn forward(&self) -> usize {
        let shape = self.shape();
        let filters = QUARTERS * Taps::bytes(shape.output, 2, shape.pairs_of_quarter());
        // The folded filters of a quarter while they are packed, which is before there are strips.
        let folded = 2 * shape.output * shape.pairs_of_quarter() * size_of::<f32>();
        filters + folded.max(self.at_once() * Strips::of_output(&shape).convolve_bytes())
    }

    /// Bytes that are held while the gradient of the filters is computed, the gradient itself included.
    pub fn weight_gradient(&self) -> usize {
        let shape = self.shape();
        let parts = samples::parts_of_sum(shape.batch, self.at_once());
        let folded = shape.quarters_at_once() * shape.output * shape.channels * FOLDED * size_of::<f32>();
        let strips = self.at_once() * Strips::of_filters(&shape).add_gradient_bytes();
        // There is the gradient itself meanwhile. That for the map beside is computed before, and is there until it is copied.
        let of_beside = if shape.beside > 0 { self.of_beside().weight_gradient() } else { 0 };
        let all = shape.output * (shape.channels + shape.beside) * TAPS * size_of::<f32>();
        let others = shape.output * shape.beside * TAPS * size_of::<f32>();
        (all + others + parts * folded + strips).max(of_beside)
    }

    /// Bytes that are held, beside the gradient itself, while the gradient of the map that is enlarged is computed.
    pub fn input_gradient(&self) -> usize {
        let shape = self.shape();
        let filters = Taps::bytes(shape.channels, 2, shape.pairs_of_gradient());
        let turned = 2 * shape.channels * shape.pairs_of_gradient() * size_of::<f32>();
        filters + turned.max(self.at_once() * Strips::of_gradient(&shape).gradient_bytes())
    }

    /// The same for the gradient of the map beside.
    pub fn beside_gradient(&self) -> usize {
        if self.beside == 0 { 0 } else { self.of_beside().input_gradient() }
    }

    fn of_beside(&self) -> ConvScratch {
        let size = [2 * self.input[1], 2 * self.input[2]];
        ConvScratch {
            batch: self.batch,
            input: [self.beside, size[0], size[1]],
            output: [self.output, size[0], size[1]],
            kernel: 3,
            stride: 1,
            dilation: 1,
            before: [1; 2],
            threads: self.threads,
            format: DType::BF16,
        }
    }
}
