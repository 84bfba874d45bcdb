//! Scratch memory of convolutions on the CPU, as `burn-flex` 0.22.1 takes it (`src/ops/conv.rs`,
//! `src/ops/conv_transpose.rs`, and the gradients in `burn-backend`'s `src/backend/ops/modules/conv.rs`).
//!
//! Pointwise and depthwise convolutions need next to none: they have operations of their own.

use kindling_layers::trace::FeatureMap;

/// Output pixels that im2col lays out at a time.
const TILE: u64 = 512;
/// Bytes of columns of a transposed convolution, from which on they are made in tiles.
const COLUMNS: u64 = 8 << 20;
/// With at most this many channels in and out there is no im2col.
const FEW_CHANNELS: (u64, u64) = (4, 16);

/// A convolution of all channels to all, its input padded as far as the padding differs from side to side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    pub(super) batch: u64,
    pub(super) input: FeatureMap,
    pub(super) output: FeatureMap,
    pub(super) kernel: u64,
    pub(super) stride: u64,
    /// Zeros on each side that the operation itself adds.
    pub(super) padding: u64,
    pub(super) threads: u64,
    pub(super) element_bytes: u64,
}

impl Convolution {
    fn weights(&self) -> u64 {
        (self.input.channels * self.output.channels) as u64 * self.kernel * self.kernel
    }

    /// Beside input and output in the forward pass: the filters reordered, the input with channels last, and for each
    /// thread a tile of columns and one of results.
    pub(super) fn forward(&self) -> u64 {
        let (input, output) = (self.input.channels as u64, self.output.channels as u64);
        if input <= FEW_CHANNELS.0 && output <= FEW_CHANNELS.1 {
            return 0;
        }
        let pixels = (self.output.height * self.output.width) as u64;
        let tile = (input * self.kernel * self.kernel + output) * pixels.min(TILE);
        let tiles = self.threads.min(self.batch * pixels.div_ceil(TILE));
        (self.weights() + self.batch * self.input.elements() + tiles * tile) * self.element_bytes
    }

    /// Beside both gradients when the input's is made: the columns.
    pub(super) fn input_gradient(&self) -> u64 {
        let rows = self.input.channels as u64 * self.kernel * self.kernel;
        let pixels = (self.output.height * self.output.width) as u64;
        let whole = rows * pixels * self.element_bytes;
        let columns = if whole <= COLUMNS { whole } else { (COLUMNS / rows * rows).max(rows * self.element_bytes) };
        columns * self.threads.min(self.batch)
    }

    /// Sides of what the weight's gradient is cut from: larger than the kernel where the stride leaves pixels over.
    fn gradient_side(&self, input: usize, output: usize) -> u64 {
        (input as u64 + 2 * self.padding).saturating_sub(self.stride * (output as u64 - 1)).max(self.kernel)
    }

    /// The weight's gradient before it is cut to the kernel's size.
    pub(super) fn uncut_gradient(&self) -> u64 {
        let (high, wide) = (
            self.gradient_side(self.input.height, self.output.height),
            self.gradient_side(self.input.width, self.output.width),
        );
        (self.input.channels * self.output.channels) as u64 * high * wide * self.element_bytes
    }

    /// Beside all that when the weight's gradient is made: input and output's gradient with samples and channels
    /// swapped, then both again in the layouts of a convolution whose kernel is the output's gradient.
    pub(super) fn weight_gradient(&self) -> u64 {
        let input = self.batch * self.input.elements();
        let output = self.batch * self.output.elements();
        // One sample lies the same either way.
        let swapped = if self.batch > 1 { input + output } else { 0 };
        let elements = if self.batch <= FEW_CHANNELS.0 && self.output.channels as u64 <= FEW_CHANNELS.1 {
            swapped
        } else {
            let places =
                self.uncut_gradient() / self.element_bytes / (self.input.channels * self.output.channels) as u64;
            let fan = self.batch * (self.output.height * self.output.width) as u64;
            let tile = (fan + self.output.channels as u64) * places.min(TILE);
            swapped + input + output + tile * self.threads.min(self.input.channels as u64)
        };
        elements * self.element_bytes
    }
}
