//! The blocks that several papers share, and the trait of all blocks. A block of a single paper is in that paper's file.

mod fused_inverted_residual;
mod inverted_residual;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Device, Tensor, TensorData};

use crate::conv_norm::ConvNorm;
use crate::drop_path::DropPath;
use crate::map::{Content, Map};
use crate::names::Names;
use crate::pass::is_training;
use crate::trace::Describe;
use kindling_ops::{Activation, Deferred, infers_normed_convolutions, reserve, supports_residual_add, twice};

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

/// The last convolution of a block, passed by `pass`, and the end of the block ([`residual_add`]). In inference on the CPU, nothing is stored
/// between them.
pub fn convolve_and_add(
    last: &ConvNorm,
    pass: fn(&ConvNorm, Map) -> Map,
    x: Map,
    shortcut: Option<Tensor<4>>,
    drop_path: DropPath,
    activation: Activation,
) -> Tensor<4> {
    match (x.0, last.activation_at_end(shortcut.is_some(), activation)) {
        (Content::Deferred(map), Some(activation)) if !is_training() && infers_normed_convolutions(&map.x) => {
            last.infer_to_end(*map, shortcut, activation)
        }
        (x, _) => residual_add(shortcut, pass(last, Map(x)), drop_path, activation),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{TrainingPass, training};
    use crate::{BatchNormConfig, Conv2dConfig, ConvNormConfig, Precision};
    use burn::tensor::Distribution;

    #[test]
    fn the_end_of_a_block_has_the_bits_of_its_layers() {
        let device = Device::flex();
        let random = |channels| Tensor::<4>::random([3, channels, 20, 18], Distribution::Normal(0.5, 1.0), &device);
        let (x, shortcut) = (random(4), random(6));
        let (identity, relu) = (Activation::Identity, Activation::Relu);
        // The last two are not computed at once.
        let ends = [
            (identity, true, relu, true),
            (identity, true, identity, true),
            (Activation::HardSwish, false, identity, true),
            (relu, true, relu, false),
            (identity, false, relu, false),
        ];
        for (own, has_shortcut, of_block, at_once) in ends {
            let layer = |conv, activation| {
                let config = ConvNormConfig { conv, norm: BatchNormConfig::default(), activation };
                crate::init::initialise(config.init(&device), 3)
            };
            let first = layer(Conv2dConfig::pointwise(4, 5), relu);
            let (_, statistics) = training(TrainingPass::whole_batch(3), || first.forward(x.clone()));
            let first = statistics.commit(first, 0.5);
            let last = layer(Conv2dConfig::new(5, 6, 3, 1), own);
            assert_eq!(last.activation_at_end(has_shortcut, of_block).is_some(), at_once);
            for precision in [Precision::F32, Precision::Bf16, Precision::F16] {
                let (x, shortcut) = (precision.cast(x.clone()), has_shortcut.then(|| precision.cast(shortcut.clone())));
                let before = || first.pass(x.clone().into());
                let drop_path = DropPath::default();
                let ended = convolve_and_add(&last, ConvNorm::pass, before(), shortcut.clone(), drop_path, of_block);
                let one_by_one = residual_add(shortcut, last.pass(before()), drop_path, of_block);
                ended.into_data().assert_eq(&one_by_one.into_data(), true);
            }
        }
    }
}
