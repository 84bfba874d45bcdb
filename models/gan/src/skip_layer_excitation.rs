//! Skip-layer excitation.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Op, Trace, Value};
use kindling_layers::{Activation, AdaptiveAveragePool, Conv2d, Conv2dConfig};

/// The grid a small map is averaged to.
const GRID: AdaptiveAveragePool = AdaptiveAveragePool { output: 4 };

/// Scales the channels of a large map by gates computed from a much smaller one (FastGAN, section 3.1): averages over a
/// grid of 4x4, a 4x4 convolution to one pixel, swish, a 1x1 convolution, sigmoid.
///
/// Unlike in squeeze-excite the gates come from another map than they scale, so that they are also a short way for the
/// gradient between distant layers.
#[derive(Module, Debug)]
pub struct SkipLayerExcitation {
    /// From the grid to one pixel.
    pub squeeze: Conv2d,
    /// From this pixel to the gates.
    pub excite: Conv2d,
}

impl SkipLayerExcitation {
    /// A block for a small map of `small` and a large one of `large` channels.
    pub fn new(small: usize, large: usize, device: &Device) -> Self {
        Self {
            squeeze: Conv2dConfig::valid(small, large, GRID.output).init(device),
            excite: Conv2dConfig::valid(large, large, 1).init(device),
        }
    }

    /// `small` `[batch, small, height, width]`; `large` `[batch, large, ...]`, and so the result.
    pub fn forward(&self, small: Tensor<4>, large: Tensor<4>) -> Tensor<4> {
        let squeezed = Activation::Silu.forward(self.squeeze.forward(GRID.forward(small)));
        large * Activation::Sigmoid.forward(self.excite.forward(squeezed))
    }

    /// Adds the block's layers for its two inputs and returns the value of its output.
    pub fn describe(&self, small: Value, large: Value, trace: &mut Trace) -> Value {
        let grid = trace.scope("pool", |trace| GRID.describe(small, trace));
        let squeezed = trace.scope("squeeze", |trace| {
            let squeezed = self.squeeze.describe(grid, trace);
            trace.activation(Activation::Silu, squeezed)
        });
        let gate = trace.scope("excite", |trace| {
            let gate = self.excite.describe(squeezed, trace);
            trace.activation(Activation::Sigmoid, gate)
        });
        trace.apply("scale", Op::Multiply, &[large, gate], large.map)
    }

    /// The reference implementation's names, where this block is `own` here and `reference` there.
    pub(crate) fn names(&self, own: &str, reference: &str, names: &mut Names) {
        names.plain(&format!("{own}.squeeze"), &format!("{reference}.main.1"));
        names.plain(&format!("{own}.excite"), &format!("{reference}.main.3"));
    }
}
