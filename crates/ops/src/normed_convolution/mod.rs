//! A convolution with its normalisation by known statistics, as inference on the CPU computes it: the last of a block, with what ends that.
//!
//! With a map `x` `[n, c, h, w]`, which is read through its own normalisation ([`Deferred`]), filters `W` `[o, c, k, k]`, a factor `a`
//! and a summand `b` for each output channel, a shortcut `s` of the output's shape and an activation `f`, [`normed_convolution`] computes
//!
//! `y = f(a (W * x) + b + s)`, `[n, o, h', w']`.
//!
//! What the convolution stores is replaced a piece at a time, while it is in the cache. Its bits are those of the convolution, of the
//! normalisation that reads what this stores, and of [`Deferred::residual_add`], one after the other.
//! There are no gradients.

mod cpu;
mod normed;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, backend_extension};
use burn::tensor::Tensor;

use crate::activation::Activation;
use crate::convolution::Convolution;
use crate::deferred::{Deferred, DeferredMap};
use crate::device::{on_cpu, serves};

pub(crate) use normed::Normed;

/// A convolution, its normalisation with known statistics, and its activation.
#[derive(Clone, Debug)]
pub struct NormedConvolution {
    /// The filters, `[output, input, k, k]`.
    pub filters: Tensor<4>,
    /// Scale, `[output]`.
    pub weight: Tensor<1>,
    /// Shift, `[output]`.
    pub bias: Tensor<1>,
    /// Means and variances, `[2, 1, output]`.
    pub statistics: Tensor<3>,
    /// Added to the variances.
    pub epsilon: f64,
    /// The activation after the normalisation, or after the sum with a shortcut.
    pub activation: Activation,
}

impl NormedConvolution {
    pub(crate) fn into_dispatch(self) -> Layer<Dispatch> {
        let Self { filters, weight, bias, statistics, epsilon, activation } = self;
        Layer {
            filters: filters.into_dispatch(),
            weight: weight.into_dispatch(),
            bias: bias.into_dispatch(),
            statistics: statistics.into_dispatch(),
            epsilon,
            activation,
        }
    }
}

/// Whether [`normed_convolution`] supports a map: on the CPU, and outside any gradient graph.
pub fn infers_normed_convolutions(x: &Tensor<4>) -> bool {
    on_cpu(x) && serves(x) && !x.is_autodiff()
}

/// A dense convolution of a map, normalised, added to a shortcut if there is one, and activated; see the module.
///
/// The caller must have checked [`infers_normed_convolutions`], and [`crate::supports_residual_add`] if there is a shortcut, which has the
/// shape and format of the output.
pub fn normed_convolution(
    x: Deferred,
    layer: NormedConvolution,
    convolution: Convolution,
    shortcut: Option<Tensor<4>>,
) -> Tensor<4> {
    let (x, layer, shortcut) = (x.into_dispatch(), layer.into_dispatch(), Shortcut::of(shortcut));
    Tensor::from_dispatch(<Dispatch as NormedConvolutions>::normed_convolution(x, layer, convolution, shortcut))
}

/// A [`NormedConvolution`] in the form that backends take.
#[derive(ExtensionType, Clone, Debug)]
pub(crate) struct Layer<B: Backend> {
    pub(crate) filters: FloatTensor<B>,
    pub(crate) weight: FloatTensor<B>,
    pub(crate) bias: FloatTensor<B>,
    pub(crate) statistics: FloatTensor<B>,
    pub(crate) epsilon: f64,
    pub(crate) activation: Activation,
}

/// What is added to the output of a block that may have a shortcut.
#[derive(ExtensionType, Clone, Debug)]
pub(crate) enum Shortcut<B: Backend> {
    None,
    Of(FloatTensor<B>),
}

impl Shortcut<Dispatch> {
    pub(crate) fn of(map: Option<Tensor<4>>) -> Self {
        map.map_or(Self::None, |map| Self::Of(map.into_dispatch()))
    }
}

/// See the module.
#[backend_extension(Flex)]
pub(crate) trait NormedConvolutions: Backend {
    /// See [`normed_convolution`].
    fn normed_convolution(
        #[extension_type] x: DeferredMap<Self>,
        #[extension_type] layer: Layer<Self>,
        convolution: Convolution,
        #[extension_type] shortcut: Shortcut<Self>,
    ) -> FloatTensor<Self>;
}
