//! Inverted residual blocks in inference on the CPU, without storing their expanded maps.
//!
//! With `x` `[n, c, h, w]`, 1x1 filters `E` `[e, c]` and `P` `[o, e]`, a depthwise convolution `D` of `e` planes
//! ([`crate::depthwise`]), and normalisations with known statistics, each a factor `a` and a summand `b` for a channel before an
//! activation `f`,
//!
//! - the expanded map is `u = f1(a1 (E x) + b1)`, `[n, e, h, w]`,
//! - the middle of the block is `v = f2(a2 (D u) + b2)`, `[n, e, h', w']`, and
//! - its projection is `y = f3(a3 (P v) + b3 + s)`, `[n, o, h', w']`, with a shortcut `s` or without.
//!
//! [`expanded_depthwise`] computes `v`, and the mean of each of its planes, for blocks that need these before they go on. [`inverted_residual`]
//! computes `y`, with or without an expansion. Both go over the output in bands of rows (`bands`): `u` and `v` are a few times as large as `x`
//! and `y`, and exist only for one band of one sample at a time, in the cache of the core that computes it. Rows of `u` that two bands
//! need are computed twice.
//!
//! Every sum has the order of the operations that compute a map after the other, and what these store in a half format is rounded, so the
//! bits are theirs, whatever the bands are.
//! There are no gradients.

mod bands;
mod cpu;
mod products;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::Tensor;

use crate::convolution::Places;
use crate::deferred::Deferred;
use crate::device::on_cpu;
use crate::normed_convolution::{Layer, NormedConvolution, Shortcut};

pub use bands::InvertedResidualShape;

/// Whether [`expanded_depthwise`] and [`inverted_residual`] support a map: of a format that they are computed in, on the CPU and outside any
/// gradient graph.
pub fn infers_inverted_residuals(x: &Tensor<4>) -> bool {
    on_cpu(x) && InvertedResidualShape::has_bands(x.dtype()) && !x.is_autodiff()
}

/// The depthwise convolution of a map of more channels: `expand`, normalised and activated, and then `depthwise` with filters
/// `[e, 1, k, k]`. `x` `[n, c, h, w]` gives the map `[n, e, h', w']` and the mean of each plane of it, `[n, e]`, float32 for maps of a
/// half format. Its last layers being applied already, nothing is left for whoever reads it, as with [`Deferred::stored`].
///
/// The caller must have checked [`infers_inverted_residuals`], [`InvertedResidualShape::is_in_bands`] and [`crate::depthwise_kernel`].
pub fn expanded_depthwise(
    x: Tensor<4>,
    expand: NormedConvolution,
    depthwise: NormedConvolution,
    places: Places,
) -> (Deferred, Tensor<2>) {
    let (x, expand, depthwise) = (x.into_dispatch(), expand.into_dispatch(), depthwise.into_dispatch());
    let (x, means) = <Dispatch as InvertedResiduals>::expanded_depthwise(x, expand, depthwise, places);
    (Deferred::of(Tensor::from_dispatch(x)), Tensor::from_dispatch(means))
}

/// Expansion, if there is one, depthwise convolution and projection with filters `[o, e, 1, 1]`, which a shortcut is added to if there is
/// one. `x` `[n, c, h, w]` gives `[n, o, h', w']`.
///
/// The caller must have checked [`infers_inverted_residuals`], [`InvertedResidualShape::is_in_bands`] and [`crate::depthwise_kernel`], and
/// [`crate::supports_residual_add`] if there is a shortcut, which has the shape and format of the output.
pub fn inverted_residual(
    x: Tensor<4>,
    expand: Option<NormedConvolution>,
    depthwise: NormedConvolution,
    places: Places,
    project: NormedConvolution,
    shortcut: Option<Tensor<4>>,
) -> Tensor<4> {
    let expand = expand.map_or(MaybeExpanded::No, |expand| MaybeExpanded::By(expand.into_dispatch()));
    let (x, depthwise, project) = (x.into_dispatch(), depthwise.into_dispatch(), project.into_dispatch());
    let shortcut = Shortcut::of(shortcut);
    let y = <Dispatch as InvertedResiduals>::inverted_residual(x, expand, depthwise, places, project, shortcut);
    Tensor::from_dispatch(y)
}

/// The expansion of a block that may have none.
#[derive(ExtensionType, Clone, Debug)]
#[allow(clippy::large_enum_variant)] // one at a time, on the stack
pub(crate) enum MaybeExpanded<B: Backend> {
    No,
    By(#[extension_type] Layer<B>),
}

/// See the module.
#[backend_extension(Flex)]
pub(crate) trait InvertedResiduals: Backend {
    /// See [`expanded_depthwise`].
    fn expanded_depthwise(
        x: FloatTensor<Self>,
        #[extension_type] expand: Layer<Self>,
        #[extension_type] depthwise: Layer<Self>,
        places: Places,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// See [`inverted_residual`].
    fn inverted_residual(
        x: FloatTensor<Self>,
        #[extension_type] expand: MaybeExpanded<Self>,
        #[extension_type] depthwise: Layer<Self>,
        places: Places,
        #[extension_type] project: Layer<Self>,
        #[extension_type] shortcut: Shortcut<Self>,
    ) -> FloatTensor<Self>;
}
