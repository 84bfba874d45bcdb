//! Sums of gradients on the CPU.

use burn::backend::Flex;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::SumOfTwo;
use crate::cpu::gemm::Threads;
use crate::cpu::halves::{Half, SHARE};
use crate::cpu::lanes::vectorised;
use crate::cpu::making::Making;
use crate::cpu::tensors::{computed_in, contiguous, dims, tensor};
use crate::cpu::values::{Elements, Source, Target};

impl SumOfTwo for Flex {
    /// In the place of the first, if nobody else refers to it.
    fn sum_of_two(one: FlexTensor, other: FlexTensor) -> FlexTensor {
        let shape = dims(&one);
        computed_in!(T = one.dtype(); {
            let other = contiguous(&other);
            let other = other.source::<T>();
            let mut sum = Making::from(Elements::<T>::of(one));
            sum.parts(SHARE).into_par_iter().enumerate().for_each(|(index, sum)| {
                let mut sum = sum.begin(Threads::One);
                let other = other.part(index * SHARE..other.len().min((index + 1) * SHARE));
                if let (Source::Halves(Half::Bf16, other), Target::Halves(sum)) = (other, &mut sum)
                    && sum.replace_bf16(other, #[inline(always)] |one, other| one + other)
                {
                    return;
                }
                sum.replace(|at, sum| {
                    other.part(at..at + sum.len()).in_pieces(|from, other| {
                        vectorised(
                            #[inline(always)]
                            || sum[from..].iter_mut().zip(other).for_each(|(sum, other)| *sum += *other),
                        );
                    });
                });
            });
            tensor(sum.made(), shape)
        })
    }
}
