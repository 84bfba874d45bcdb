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
        self.tiles_of(self.fan(), self.output)
    }

    /// Tiles of `fan` numbers for each pixel of the map that is made.
    fn tiles_of(&self, fan: u64, made: FeatureMap) -> u64 {
        const BLOCK: u64 = 64;
        let (height, width) = (made.height as u64, made.width as u64);
        let row = fan * width * NUMBER;
        let fitting = (TILE / row.max(1)).max(1);
        let whole = (fitting..fitting + 4).find(|rows| (rows * width).is_multiple_of(BLOCK));
        row * whole.unwrap_or(fitting).min(height) * self.parallel()
    }

    /// Turned filters, with which the input's gradient is made where the stride is 1.
    pub(super) fn turned_filters(&self) -> u64 {
        let one = (self.input.height, self.input.width) == (self.output.height, self.output.width);
        if self.kernel > 1 && one { self.fan() * self.output.channels as u64 * NUMBER } else { 0 }
    }

    /// While the input's gradient is made.
    pub(super) fn input_gradient(&self) -> u64 {
        match self.turned_filters() {
            0 => self.tiles(),
            filters => filters + self.tiles_of(self.output.channels as u64 * self.kernel * self.kernel, self.input),
        }
    }

    /// While the weight's gradient is made: one for each sample that is computed at a time, their sum, and tiles.
    pub(super) fn weight_gradient(&self) -> u64 {
        self.tiles() + (self.parallel() + 1) * self.output.channels as u64 * self.fan() * NUMBER
    }
}
