//! Copies in the memory of the process.

use burn::tensor::{DType, FloatDType, TensorData};
use rayon::prelude::*;

use crate::cpu::gemm::Threads;
use crate::cpu::halves::{Half, SHARE};
use crate::cpu::making::Making;
use crate::cpu::tensors::data;
use crate::cpu::values::{Source, Target};

/// A copy of the numbers, rounded to a format.
pub(super) fn copy<const D: usize>(numbers: &[f32], shape: [usize; D], format: FloatDType) -> TensorData {
    let of_format = match Half::of(DType::from(format)) {
        Some(half) => Source::Halves(half, &[]),
        None => Source::Same(&[]),
    };
    let mut made: Making<f32> = Making::like(of_format, numbers.len());
    let parts = made.parts(SHARE).into_par_iter().zip(numbers.par_chunks(SHARE));
    parts.for_each(|(part, numbers)| match part.begin(Threads::One) {
        Target::Same(mut places) => places.copy(numbers),
        Target::Halves(mut places) => places.round(numbers, Threads::One),
    });
    data(made.made(), shape)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{bf16, f16};

    use super::*;

    #[test]
    fn every_number_arrives_rounded_to_nearest() {
        let numbers: Vec<f32> = (0..3 * SHARE + 5).map(|number| (number as f32).sqrt() - 100.0).collect();
        let shape = [1, numbers.len()];
        let copy = |format: FloatDType| copy(&numbers, shape, format);
        assert_eq!(copy(FloatDType::F32).as_slice::<f32>(), Ok(&numbers[..]));
        let halves: Vec<bf16> = numbers.iter().map(|number| bf16::from_f32(*number)).collect();
        assert_eq!(copy(FloatDType::BF16).as_slice::<bf16>(), Ok(&halves[..]));
        let halves: Vec<f16> = numbers.iter().map(|number| f16::from_f32(*number)).collect();
        assert_eq!(copy(FloatDType::F16).as_slice::<f16>(), Ok(&halves[..]));
    }
}
