//! The blocks that networks repeat, and what any of them can do.

mod fused_inverted_residual;
mod inverted_residual;
mod mobile;
mod universal_inverted_bottleneck;

use burn::module::Module;
use burn::tensor::{Device, Tensor};

use crate::drop_path::DropPath;
use crate::names::Names;
use crate::room;
use crate::trace::Describe;

pub use fused_inverted_residual::{FusedInvertedResidual, FusedInvertedResidualConfig};
pub use inverted_residual::{InvertedResidual, InvertedResidualConfig};
pub use mobile::{MobileBlock, MobileBlockConfig};
pub use universal_inverted_bottleneck::{UniversalInvertedBottleneck, UniversalInvertedBottleneckConfig};

/// A block of a [`crate::Staged`] network.
pub trait Block: Module + Describe {
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

/// Adds a shortcut to what a branch made of it.
pub(crate) fn join(shortcut: Option<Tensor<4>>, branch: Tensor<4>, drop_path: DropPath) -> Tensor<4> {
    match shortcut {
        Some(shortcut) => {
            room::announce_like(&branch, branch.shape().num_elements());
            drop_path.forward(branch) + shortcut
        }
        None => branch,
    }
}
