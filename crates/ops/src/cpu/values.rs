//! Tensors as slices of float32, and back.
//!
//! Operations compute in float32 whatever the format of a map. A map of a half format is widened when it is read and the
//! result is rounded once, to nearest even, when it is written. By then the copies of what was read are gone: a result is
//! bound to a name before [`tensor`] takes it, because what a call borrows lives to the end of its statement.

use burn::backend::TensorMetadata;
use burn::tensor::{DType, TensorData, bf16, f16};
use burn_flex::FlexTensor;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::lanes::vectorised;

/// Elements that one thread converts at a time.
const PIECE: usize = 1 << 15;

/// The elements of a tensor in row-major order: the tensor's own where it is float32 and lies so.
pub(super) enum Values {
    Own(FlexTensor),
    Made(Vec<f32>),
}

impl std::ops::Deref for Values {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            // `values` made it contiguous, and a contiguous tensor has a slice.
            Self::Own(tensor) => tensor.as_slice::<f32>().unwrap_or(&[]),
            Self::Made(values) => values,
        }
    }
}

/// The elements of a tensor that [`super::serves`].
pub(super) fn values(tensor: &FlexTensor) -> Values {
    let tensor = if is_slice(tensor) { tensor.clone() } else { tensor.to_contiguous() };
    if let Some(halves) = tensor.as_slice::<bf16>() {
        return Values::Made(convert(halves, widen_bf16));
    }
    if let Some(halves) = tensor.as_slice::<f16>() {
        return Values::Made(convert(halves, |from, to| from.convert_to_f32_slice(to)));
    }
    Values::Own(tensor)
}

/// The same to write to: the tensor's own memory if nobody else refers to it.
pub(super) fn owned(tensor: FlexTensor) -> Vec<f32> {
    match tensor.dtype() {
        // Float32 data is a vector of float32.
        DType::F32 => tensor.into_data().try_into_vec().unwrap_or_default(),
        _ => values(&tensor).to_vec(),
    }
}

fn is_slice(tensor: &FlexTensor) -> bool {
    match tensor.dtype() {
        DType::BF16 => tensor.as_slice::<bf16>().is_some(),
        DType::F16 => tensor.as_slice::<f16>().is_some(),
        _ => tensor.as_slice::<f32>().is_some(),
    }
}

/// A tensor of a format and a shape.
pub(super) fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], dtype: DType) -> FlexTensor {
    FlexTensor::from_data(match dtype {
        DType::BF16 => TensorData::new(convert(&values, round_bf16), shape),
        DType::F16 => TensorData::new(convert(&values, |from, to: &mut [f16]| to.convert_from_f32_slice(from)), shape),
        _ => TensorData::new(values, shape),
    })
}

/// The shape of a map.
pub(super) fn dims(x: &FlexTensor) -> [usize; 4] {
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
        // Rounding would carry some NaNs into infinity.
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
            for (found, value) in values(&made).iter().zip(&all) {
                let expected = round(*value);
                assert!(found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()), "{value:e}");
            }
        }
    }
}
