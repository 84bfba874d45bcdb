//! The number formats that feature maps are computed in, and the one place that casts between them.
//!
//! Master weights, running statistics, gradients, the optimizer's state and averaged weights are float32 whatever the precision. A
//! network follows the format of its images: what is computed from maps of a half format has that format, except for these, which
//! are always float32:
//!
//! - the statistics of normalisation, and the normalised value before it is rounded to the map's format;
//! - logits, softmax and loss;
//! - sums over pixels and samples, in convolutions, their gradients and pooling, where the device's operations allow it.
//!
//! Filters of dense convolutions are rounded to the map's format where the device multiplies numbers of that format, as GPUs and processors
//! with AMX or a fast AVX-512 BF16 do.
//!
//! This corresponds to PyTorch's `autocast`, without its table of operations: each layer knows which formats it can use.

use burn::tensor::{DType, Device, FloatDType, Tensor};
use kindling_given::{Named, UnknownName, all};
use kindling_ops::cast;
use serde::{Deserialize, Serialize};

/// The format of feature maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", parse_err_ty = UnknownName, parse_err_fn = Self::unknown)]
pub enum Precision {
    /// 32 bits, with 24 significant bits.
    #[default]
    F32,
    /// 16 bits, with 8 significant bits and the range of float32 ("brain float").
    Bf16,
    /// 16 bits, with 11 significant bits. The largest number is 65504, and gradients below 6e-8 become zero, so the loss is scaled up.
    F16,
}

impl Precision {
    /// All formats.
    pub const ALL: [Self; 3] = all();

    /// Bytes of a number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Whether gradients of this format need the loss to be scaled up.
    pub fn needs_loss_scale(self) -> bool {
        self == Self::F16
    }

    /// Whether a device computes in this format.
    pub fn is_supported_by(self, device: &Device) -> bool {
        device.clone().without_autodiff().supports_dtype(self.dtype())
    }

    /// The tensor in this format. A float64 tensor, which only tests have, stays as it is.
    pub fn cast<const D: usize>(self, x: Tensor<D>) -> Tensor<D> {
        if x.dtype() == DType::F64 { x } else { cast(x, self.dtype()) }
    }

    /// The same as a type of tensors.
    pub fn dtype(self) -> FloatDType {
        match self {
            Self::F32 => FloatDType::F32,
            Self::Bf16 => FloatDType::BF16,
            Self::F16 => FloatDType::F16,
        }
    }
}

impl Named for Precision {
    const KIND: &str = "precision";
}

/// The tensor in float32, if it is of a half format.
pub fn full<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    if is_half(&x) { cast(x, FloatDType::F32) } else { x }
}

/// A weight, or another float32 tensor, in the format of the map that it is used with. Its gradient is float32.
pub fn like<const D: usize, const X: usize>(weight: Tensor<D>, x: &Tensor<X>) -> Tensor<D> {
    match x.dtype() {
        DType::BF16 => cast(weight, FloatDType::BF16),
        DType::F16 => cast(weight, FloatDType::F16),
        _ => weight,
    }
}

/// Asserts that the weights of a layer have the right format for its map: float32 for float32 and the half formats, and float64 for
/// float64. With other combinations, some of Burn's operations panic far from here, and its matrix products silently compute
/// something else.
#[track_caller]
pub(crate) fn assert_fits<const D: usize, const X: usize>(weight: &Tensor<D>, x: &Tensor<X>) {
    let (weight, map) = (weight.dtype(), x.dtype());
    let fits = if map == DType::F64 { weight == DType::F64 } else { weight == DType::F32 };
    assert!(
        fits,
        "weights of {weight:?} meet a map of {map:?}: a layer keeps its weights in float32 (see `Precision`)"
    );
}

/// Whether a tensor is of a half format.
pub(crate) fn is_half<const D: usize>(x: &Tensor<D>) -> bool {
    matches!(x.dtype(), DType::BF16 | DType::F16)
}

#[cfg(test)]
mod tests {
    use burn::module::Param;

    use super::*;
    use crate::{BatchNormConfig, Conv2dConfig};

    #[test]
    fn a_precision_reads_as_it_is_written() {
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse(), Ok(precision));
            assert_eq!(serde_json::to_string(&precision).expect("a name"), format!("\"{precision}\""));
        }
        let refused = "fp8".parse::<Precision>().expect_err("there is none of that name").to_string();
        assert_eq!(refused, "`fp8` is no precision: choose f32, bf16 or f16");
    }

    fn refusal<T>(forward: impl FnOnce() -> T) -> std::thread::Result<T> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(forward))
    }

    /// A whole layer that was cast to a half format must not be used with a map of that format.
    #[test]
    fn layers_whose_weights_have_been_cast_are_refused_where_they_meet_a_map() {
        let device = Device::flex();
        let half = |layer: &mut crate::Conv2d| {
            layer.weight = Param::from_tensor(Precision::Bf16.cast(layer.weight.val()));
        };
        for depthwise in [false, true] {
            let config = if depthwise { Conv2dConfig::depthwise(4, 3, 1) } else { Conv2dConfig::new(4, 2, 3, 1) };
            let mut conv = config.init(&device);
            for precision in Precision::ALL {
                let x = precision.cast(Tensor::<4>::ones([1, 4, 5, 5], &device));
                assert_eq!(conv.forward(x.clone()).dtype(), x.dtype());
            }
            half(&mut conv);
            for precision in Precision::ALL {
                let x = precision.cast(Tensor::<4>::ones([1, 4, 5, 5], &device));
                let refused = refusal(|| conv.forward(x)).expect_err("a weight that was cast");
                let reason = refused.downcast_ref::<String>().expect("a message");
                assert!(reason.contains("weights of BF16 meet a map of"), "{reason}");
            }
        }
        let linear = crate::Linear::new(4, 2, &device);
        let x = Precision::F16.cast(Tensor::<2>::ones([1, 4], &device));
        assert!(refusal(|| linear.forward(x)).is_err(), "behind the mean everything is float32");
        let mut norm = BatchNormConfig::default().init(4, &device);
        norm.weight = Param::from_tensor(Precision::F16.cast(norm.weight.val()));
        assert!(refusal(|| norm.forward(Tensor::ones([1, 4, 2, 2], &device))).is_err());
    }

    #[test]
    fn the_cpu_computes_in_every_format() {
        let device = Device::flex();
        assert!(Precision::ALL.iter().all(|precision| precision.is_supported_by(&device)));
    }

    #[test]
    fn the_gradient_of_a_weight_is_float32_whatever_the_map() {
        let device = Device::flex().autodiff();
        for precision in Precision::ALL {
            let weight = Tensor::<1>::from_floats([1.0, 2.0], &device).require_grad();
            let x = precision.cast(Tensor::<1>::from_floats([3.0, 4.0], &device));
            let product = full(like(weight.clone(), &x) * x);
            let mut gradients = product.sum().backward();
            let gradient = weight.grad_remove(&mut gradients).expect("a weight has a gradient");
            assert_eq!(gradient.dtype(), DType::F32);
            gradient.into_data().assert_eq(&[3.0f32, 4.0].into(), true);
        }
    }
}
