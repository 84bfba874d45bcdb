//! Feature maps between layers.

use burn::tensor::Tensor;

use crate::linear::global_average_pool;
use crate::precision;
use kindling_ops::{self as ops, Deferred, Rebuild, plain, reserve};

/// A feature map `[batch, channels, height, width]` between two layers of a block.
///
/// It is either whole, or the output of a convolution whose normalisation, activation and gate are deferred: the operation that reads
/// the map applies them while reading, and the normalised map is never stored. [`Map::whole`] computes it.
#[derive(Clone, Debug)]
pub struct Map(pub(crate) Content);

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // a handful of them at a time, on the stack
pub(crate) enum Content {
    Whole(Tensor<4>),
    Deferred(Box<Deferred>),
}

impl From<Tensor<4>> for Map {
    fn from(x: Tensor<4>) -> Self {
        Self(Content::Whole(x))
    }
}

impl From<Deferred> for Map {
    fn from(map: Deferred) -> Self {
        Self(Content::Deferred(Box::new(map)))
    }
}

impl Map {
    /// The stored tensor: the map, or the input of its deferred normalisation.
    pub(crate) fn tensor(&self) -> &Tensor<4> {
        match &self.0 {
            Content::Whole(x) => x,
            Content::Deferred(map) => &map.x,
        }
    }

    /// The map as a tensor, with everything applied.
    pub fn whole(self) -> Tensor<4> {
        match self.0 {
            Content::Whole(x) => x,
            Content::Deferred(map) => {
                reserve::like(&map.x, map.x.shape().num_elements());
                map.whole()
            }
        }
    }

    /// The same map, for whose backward pass `rebuild` is kept instead of the input of the normalisation.
    pub(crate) fn rebuilt_by(self, rebuild: Rebuild) -> Self {
        match self.0 {
            Content::Deferred(mut map) => {
                map.how.rebuild = Some(rebuild);
                Self(Content::Deferred(map))
            }
            whole => Self(whole),
        }
    }

    /// The same map, stored: whoever reads it computes nothing again.
    pub(crate) fn stored(self) -> Self {
        match self.0 {
            Content::Deferred(map) => map.stored().into(),
            whole => Self(whole),
        }
    }

    /// The same map outside any gradient graph.
    pub(crate) fn detached(&self) -> Self {
        match &self.0 {
            Content::Deferred(map) => map.detached().into(),
            Content::Whole(x) => plain(x.clone()).into(),
        }
    }

    /// The mean of each plane, `[batch, channels]`; float32 for maps of a half format.
    pub(crate) fn global_average_pool(&self) -> Tensor<2> {
        match &self.0 {
            Content::Whole(x) => global_average_pool(x.clone()),
            Content::Deferred(map) => map.as_ref().clone().global_average_pool(),
        }
    }

    /// Multiplies each plane by its factor in `gate`, `[batch, channels]`.
    pub fn gated(self, gate: Tensor<2>) -> Self {
        match self.0 {
            Content::Deferred(map) => Deferred { gate: Some(gate), ..*map }.into(),
            Content::Whole(x) => {
                reserve::like(&x, x.shape().num_elements());
                if ops::serves(&x) {
                    return ops::channel_multiply(x, gate).into();
                }
                let [batch, channels] = gate.dims();
                let gate = precision::like(gate, &x);
                (x * gate.reshape([batch, channels, 1, 1])).into()
            }
        }
    }
}
