//! The blocks that several papers share, and what any block can do. A block of one paper lies beside that paper's table.

mod fused_inverted_residual;
mod inverted_residual;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Device, Tensor, TensorData};

use crate::drop_path::DropPath;
use crate::map::{Content, Map};
use crate::names::Names;
use crate::trace::Describe;
use kindling_ops::{Activation, Deferred, join_serves, reserve};

pub use fused_inverted_residual::{FusedInvertedResidual, FusedInvertedResidualConfig};
pub use inverted_residual::{InvertedResidual, InvertedResidualConfig};

/// A block of a [`crate::Staged`] network.
pub trait Block: Module + ModuleDisplay + Describe {
    /// What makes one.
    type Config: BlockConfig<Block = Self>;

    /// `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`.
    fn forward(&self, x: Tensor<4>) -> Tensor<4>;

    /// Adds timm's names of the block's layers, where this block is `own` here and `reference` there.
    fn timm_names(&self, own: &str, reference: &str, names: &mut Names);
}

/// What makes a [`Block`].
pub trait BlockConfig: Clone {
    /// What is made.
    type Block;

    /// A block on `device` whose residual branch, if it has one, is dropped as `drop_path` says.
    fn init(&self, drop_path: DropPath, device: &Device) -> Self::Block;

    /// Channels that come out.
    fn output(&self) -> usize;

    /// By what the block divides height and width.
    fn stride(&self) -> usize;
}

/// The end of a residual block: an activation of a branch, dropped as `drop_path` says, plus a shortcut; of the branch alone
/// where there is none.
pub fn residual_add(
    shortcut: Option<Tensor<4>>,
    branch: Map,
    drop_path: DropPath,
    activation: Activation,
) -> Tensor<4> {
    let Some(shortcut) = shortcut else { return activation.forward(branch.whole()) };
    match branch.0 {
        Content::Deferred(map) if map.gate.is_none() && join_serves(activation) => {
            reserve::announce_like(&map.x, map.x.shape().num_elements());
            let [batch, channels, ..] = map.x.dims();
            let gate = drop_path.factors(batch).map(|factors| {
                let factors = TensorData::new(factors, [batch, 1]);
                Tensor::<2>::from_data(factors, &map.statistics.device()).expand([batch, channels])
            });
            Deferred { gate, ..*map }.added_to(shortcut, activation)
        }
        branch => {
            let branch = Map(branch).whole();
            reserve::announce_like(&branch, branch.shape().num_elements());
            activation.forward(drop_path.forward(branch) + shortcut)
        }
    }
}
