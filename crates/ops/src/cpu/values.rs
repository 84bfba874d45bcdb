//! Tensors as slices of numbers, and back.
//!
//! Operations compute in float32 whatever the format of a map, except for maps of float64 ([`super::real`]). A map of a half format
//! is widened when it is read, and the result is rounded once, to nearest even, when it is written. The widened copies should be
//! freed before the rounded copy is allocated. So callers bind a result to a name before they give it to [`tensor`]: a temporary in the
//! same statement would live to the end of that statement.

use burn::backend::TensorMetadata;
use burn::tensor::{DType, TensorData, bf16, f16};
use burn_flex::FlexTensor;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::lanes::vectorised;
use super::real::Real;

/// Elements that one thread converts at a time.
const PIECE: usize = 1 << 15;

/// The elements of a tensor in row-major order: borrowed from the tensor if they are stored in that type and order, else a copy.
pub(crate) enum Values<T> {
    Own(FlexTensor),
    Made(Vec<T>),
}

impl<T: Real> std::ops::Deref for Values<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            // `values` made the tensor contiguous, and a contiguous tensor has a slice.
            Self::Own(tensor) => tensor.as_slice().unwrap_or(&[]),
            Self::Made(values) => values,
        }
    }
}

/// A number type that tensors of several formats are widened to, and rounded from.
pub(crate) trait Stored: Real {
    /// Widens the elements of a contiguous tensor of another format.
    fn read(tensor: &FlexTensor) -> Vec<Self>;
    /// Rounds numbers to a format.
    fn round<const D: usize>(values: Vec<Self>, shape: [usize; D], dtype: DType) -> TensorData;
}

impl Stored for f32 {
    fn read(tensor: &FlexTensor) -> Vec<Self> {
        match (tensor.as_slice::<bf16>(), tensor.as_slice::<f16>()) {
            (Some(halves), _) => convert(halves, widen_bf16),
            (_, Some(halves)) => convert(halves, |from, to| from.convert_to_f32_slice(to)),
            // Not a format that these operations support.
            _ => Vec::new(),
        }
    }

    fn round<const D: usize>(values: Vec<Self>, shape: [usize; D], dtype: DType) -> TensorData {
        match dtype {
            DType::BF16 => TensorData::new(convert(&values, round_bf16), shape),
            DType::F16 => {
                TensorData::new(convert(&values, |from, to: &mut [f16]| to.convert_from_f32_slice(from)), shape)
            }
            _ => TensorData::new(values, shape),
        }
    }
}

impl Stored for f64 {
    /// Widens float32 weights and statistics that are used with a map of float64.
    fn read(tensor: &FlexTensor) -> Vec<Self> {
        tensor.as_slice::<f32>().unwrap_or(&[]).iter().map(|value| Self::from(*value)).collect()
    }

    fn round<const D: usize>(values: Vec<Self>, shape: [usize; D], _: DType) -> TensorData {
        TensorData::new(values, shape)
    }
}

/// Compiles and runs an expression for the number type of a format: in `computed_in!(T = x.dtype(); ...)`, `T` is that type.
macro_rules! computed_in {
    ($number:ident = $dtype:expr; $work:expr) => {
        if $dtype == burn::tensor::DType::F64 {
            type $number = f64;
            $work
        } else {
            type $number = f32;
            $work
        }
    };
}
pub(crate) use computed_in;

/// The elements of a tensor of which [`crate::serves`] is true.
pub(crate) fn values<T: Stored>(tensor: &FlexTensor) -> Values<T> {
    let tensor = if is_slice(tensor) { tensor.clone() } else { tensor.to_contiguous() };
    if tensor.dtype() == T::DTYPE { Values::Own(tensor) } else { Values::Made(T::read(&tensor)) }
}

/// The elements as a vector that can be written to: the tensor's own memory if nothing else refers to it.
pub(crate) fn owned<T: Stored>(tensor: FlexTensor) -> Vec<T> {
    if tensor.dtype() == T::DTYPE {
        // The data has this type, so the conversion cannot fail.
        tensor.into_data().try_into_vec().unwrap_or_default()
    } else {
        values(&tensor).to_vec()
    }
}

fn is_slice(tensor: &FlexTensor) -> bool {
    match tensor.dtype() {
        DType::BF16 => tensor.as_slice::<bf16>().is_some(),
        DType::F16 => tensor.as_slice::<f16>().is_some(),
        DType::F64 => tensor.as_slice::<f64>().is_some(),
        _ => tensor.as_slice::<f32>().is_some(),
    }
}

/// A tensor of this shape and format.
pub(crate) fn tensor<T: Stored, const D: usize>(values: Vec<T>, shape: [usize; D], dtype: DType) -> FlexTensor {
    FlexTensor::from_data(T::round(values, shape, dtype))
}

/// The shape of a map.
pub(crate) fn dims(x: &FlexTensor) -> [usize; 4] {
    x.shape().dims()
}

fn convert<A: Sync, B: Clone + Default + Send>(from: &[A], piece: impl Fn(&[A], &mut [B]) + Sync) -> Vec<B> {
    let mut to = vec![B::default(); from.len()];
    to.par_chunks_mut(PIECE).zip(from.par_chunks(PIECE)).for_each(|(to, from)| {
        vectorised(
            #[inline(always)]
            || piece(from, to),
        );
    });
    to
}

#[inline(always)]
fn widen_bf16(from: &[bf16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = f32::from_bits(u32::from(from.to_bits()) << 16);
    }
}

#[inline(always)]
fn round_bf16(from: &[f32], to: &mut [bf16]) {
    for (to, from) in to.iter_mut().zip(from) {
        let bits = from.to_bits();
        let rounded = (bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16) as u16;
        // Rounding would turn some NaNs into infinity.
        let quiet = (bits >> 16) as u16 | 0x40;
        *to = bf16::from_bits(if from.is_nan() { quiet } else { rounded });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_as_the_crate_half_rounds_them() {
        let special = [0.0, -0.0, 1.0, 1.003_906_2, 1.011_718_8, 65504.0, 65520.0, 1e-8, f32::MAX, f32::MIN_POSITIVE];
        let swept = (0..200_000u32).map(|step| f32::from_bits(step.wrapping_mul(21_473)));
        let all: Vec<f32> = special.into_iter().chain([f32::INFINITY, f32::NAN]).chain(swept).collect();
        for (dtype, round) in [
            (DType::BF16, (|value| bf16::from_f32(value).to_f32()) as fn(f32) -> f32),
            (DType::F16, |value| f16::from_f32(value).to_f32()),
        ] {
            let made = tensor(all.clone(), [all.len()], dtype);
            assert_eq!(made.dtype(), dtype);
            for (found, value) in values::<f32>(&made).iter().zip(&all) {
                let expected = round(*value);
                assert!(found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()), "{value:e}");
            }
        }
    }
}
