//! Scratch memory of convolutions on the CPU: the tiles of `crates/layers/src/cpu/conv.rs`, and what
//! `crates/layers/src/cpu/after_norm.rs` reads at a time.
//!
//! Pointwise and depthwise convolutions of whole maps need next to none: they read maps as they lie.

use kindling_layers::trace::FeatureMap;

/// Bytes of a tile of columns, unless a single row of pixels needs more.
const TILE: u64 = 1 << 20;
/// Columns are float32 whatever the maps are.
const NUMBER: u64 = size_of::<f32>() as u64;

/// A convolution of all channels to all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convolution {
    pub(super) batch: u64,
    pub(super) input: FeatureMap,
    pub(super) output: FeatureMap,
    pub(super) kernel: u64,
    pub(super) threads: u64,
    pub(super) element_bytes: u64,
}

impl Convolution {
    fn fan(&self) -> u64 {
        self.input.channels as u64 * self.kernel * self.kernel
    }

    /// Samples computed at a time.
    fn parallel(&self) -> u64 {
        if self.batch < self.threads { 1 } else { self.threads }
    }

    /// What a pointwise convolution reads at a time: some pixels of all channels.
    pub(super) fn pieces(&self) -> u64 {
        const MULTIPLE: u64 = 256;
        let of_pixel = self.input.channels as u64 * NUMBER;
        let most = TILE / of_pixel.max(1);
        let pixels = (most - most % MULTIPLE).max(MULTIPLE).min((self.input.height * self.input.width) as u64);
        pixels * of_pixel * self.parallel()
    }

    /// What a convolution with a larger kernel reads at a time: a sample.
    pub(super) fn samples(&self) -> u64 {
        self.input.elements() * NUMBER * self.parallel()
    }

    /// What a depthwise convolution or a mean reads at a time: a plane.
    pub(super) fn planes(&self) -> u64 {
        (self.input.height * self.input.width) as u64 * NUMBER * self.threads
    }

    /// Tiles of columns, one for each sample that is computed at a time.
    pub(super) fn tiles(&self) -> u64 {
        if self.kernel == 1 && (self.input.height, self.input.width) == (self.output.height, self.output.width) {
            return 0;
        }
        let row = self.fan() * self.output.width as u64 * NUMBER;
        let rows = (TILE / row.max(1)).clamp(1, self.output.height as u64);
        row * rows * self.parallel()
    }

    /// While the weight's gradient is made: one for each sample that is computed at a time, their sum, and tiles.
    pub(super) fn weight_gradient(&self) -> u64 {
        self.tiles() + (self.parallel() + 1) * self.output.channels as u64 * self.fan() * NUMBER
    }
}
