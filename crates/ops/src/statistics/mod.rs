//! Mean and biased variance of each channel of each normalisation group.

mod cpu;
#[cfg(feature = "cube")]
mod cube;

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
#[cfg(feature = "cube")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, backend_extension};
#[cfg(feature = "cube")]
use burn::tensor::DType;
use burn::tensor::Tensor;

use crate::device::on_cpu;
use crate::graph::Tracked;

/// Mean and biased variance of each channel of each group of consecutive samples of `x` `[n, c, h, w]`: `[2, groups, c]` float32.
/// `groups` are the sizes of the groups. `x` must not be on a gradient graph.
pub fn statistics(x: Tensor<4>, groups: Vec<usize>) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as Statistics>::statistics(x.into_dispatch(), groups))
}

/// The sums over groups of the means and of the unbiased variances, both `[c]`, from which running statistics are made. `statistics` is
/// the output of [`statistics()`] for `groups` of samples of `pixels` pixels each.
pub fn sums_over_groups(statistics: &Tensor<3>, groups: &[usize], pixels: usize) -> [Tensor<1>; 2] {
    #[cfg(feature = "cube")]
    if !on_cpu(statistics) {
        let statistics = statistics.clone().into_dispatch();
        let (means, variances) = <Dispatch as SumsOverGroups>::sums_over_groups(statistics, groups.to_vec(), pixels);
        return [means, variances].map(Tensor::from_dispatch);
    }
    debug_assert!(on_cpu(statistics));
    let [_, _, channels] = statistics.dims();
    let of = |index| statistics.clone().narrow(0, index, 1).reshape([groups.len(), channels]);
    let unbiased: Vec<f32> = groups.iter().map(|samples| bessel(samples * pixels) as f32).collect();
    let unbiased = Tensor::<1>::from_floats(unbiased.as_slice(), &statistics.device()).reshape([groups.len(), 1]);
    let sum = |of_groups: Tensor<2>| of_groups.sum_dim(0).reshape([channels]);
    [sum(of(0)), sum(of(1) * unbiased)]
}

/// Bessel's correction for the variance of `count` values. A single value has no unbiased variance; its biased one, zero, is used.
pub fn bessel(count: usize) -> f64 {
    let count = count as f64;
    count / (count - 1.0).max(1.0)
}

/// See [`sums_over_groups`]. Burn's operations would take several launches and an upload.
#[cfg(feature = "cube")]
#[backend_extension(Cube, Fusion)]
pub(crate) trait SumsOverGroups: Backend {
    /// Both `[c]`.
    #[fusion(meta = |statistics, _, _| (of_channels(statistics), of_channels(statistics)))]
    fn sums_over_groups(
        statistics: FloatTensor<Self>,
        groups: Vec<usize>,
        pixels: usize,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);
}

#[cfg(feature = "cube")]
fn of_channels(statistics: &TensorSpec) -> TensorSpec {
    TensorSpec::new([statistics.shape[2]].into(), DType::F32)
}

/// See [`statistics()`].
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait Statistics: Backend {
    /// Has no gradient of its own: the backward pass of the normalisation treats the statistics as functions of the map.
    #[fusion(dtype = DType::F32, shape = [2, groups.len(), x[1]].into())]
    fn statistics(x: FloatTensor<Self>, groups: Vec<usize>) -> FloatTensor<Self>;
}

impl<B: Statistics, C: CheckpointStrategy> Statistics for Autodiff<B, C> {
    fn statistics(x: Tracked<B, C>, groups: Vec<usize>) -> Tracked<B, C> {
        Tracked::<B, C>::new(B::statistics(x.into_primitive(), groups))
    }
}
