//! The blocks that several papers share, and the trait of all blocks. A block of a single paper is in that paper's file.

mod fused_inverted_residual;
mod inverted_residual;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Device, Tensor, TensorData};

use crate::drop_path::DropPath;
use crate::map::{Content, Map};
use crate::names::Names;
use crate::trace::Describe;
use kindling_ops::{Activation, Deferred, reserve, supports_residual_add, twice};

pub use fused_inverted_residual::{FusedInvertedResidual, FusedInvertedResidualConfig};
pub use inverted_residual::{InvertedResidual, InvertedResidualConfig, describe_inverted_residual};

/// A block of a [`crate::Staged`] network.
pub trait Block: Module + ModuleDisplay + Describe + Sync {
    /// The configuration of such a block.
    type Config: BlockConfig<Block = Self>;

    /// `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`.
    fn forward(&self, x: Tensor<4>) -> Tensor<4>;

    /// The same weights on a map that the block does not divide: kernels step by one pixel, and their taps are `dilation` pixels apart
    /// ([`Conv2d::atrous`](crate::Conv2d::atrous)). No shortcut is added where there was none.
    fn atrous(self, dilation: usize) -> Self;

    /// Adds timm's names of the block's layers. The block's path is `own` here and `reference` in timm.
    fn timm_names(&self, own: &str, reference: &str, names: &mut Names);
}

/// The configuration of a [`Block`].
pub trait BlockConfig: Clone {
    /// The configured block.
    type Block;

    /// A block on `device`. `drop_path` applies to its residual branch, if it has one.
    fn init(&self, drop_path: DropPath, device: &Device) -> Self::Block;

    /// Output channels.
    fn output(&self) -> usize;

    /// The factor by which the block divides height and width.
    fn stride(&self) -> usize;
}

/// The input of a block, and for its shortcut, if there is one.
pub fn with_shortcut(input: Tensor<4>, residual: bool) -> (Tensor<4>, Option<Tensor<4>>) {
    if !residual {
        return (input, None);
    }
    let [input, shortcut] = twice(input);
    (input, Some(shortcut))
}

/// The end of a residual block: the activation of the sum of shortcut and branch, to which `drop_path` applies; without a shortcut, the
/// activation of the branch.
pub fn residual_add(
    shortcut: Option<Tensor<4>>,
    branch: Map,
    drop_path: DropPath,
    activation: Activation,
) -> Tensor<4> {
    let Some(shortcut) = shortcut else { return activation.forward(branch.whole()) };
    match branch.0 {
        Content::Deferred(map) if map.gate.is_none() && supports_residual_add(activation) => {
            reserve::like(&map.x, map.x.shape().num_elements());
            let [batch, channels, ..] = map.x.dims();
            let gate = drop_path.factors(batch).map(|factors| {
                let factors = TensorData::new(factors, [batch, 1]);
                Tensor::<2>::from_data(factors, &map.statistics.device()).expand([batch, channels])
            });
            Deferred { gate, ..*map }.residual_add(shortcut, activation)
        }
        branch => {
            let branch = Map(branch).whole();
            reserve::like(&branch, branch.shape().num_elements());
            activation.forward(drop_path.forward(branch) + shortcut)
        }
    }
}
