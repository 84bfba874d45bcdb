//! Operations on the tensors of a network's state, eight tensors at a time: the norm of all gradients, moving averages, and a
//! read that waits for all of them.
//!
//! A network has hundreds of tensors, most of them small. One kernel launch for each would take longer than the work, so a launch
//! takes eight. On the CPU nothing is launched, and Burn's operations do the same; but it squares gradients on one thread, into memory of its
//! own, so their norm is computed here.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, Flex, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::cpu::lanes::vectorised;
use crate::cpu::tensors::{tensor, values};
use crate::device::{on_cpu, serves};
use crate::sum::sum;

/// Tensors that one launch takes.
pub(crate) const AT_ONCE: usize = 8;
/// Partial sums of a tensor's squares. Each is added up in a fixed order.
pub(crate) const BLOCKS: usize = 32;

/// Eight float32 tensors of one axis each.
#[derive(ExtensionType)]
#[extension_type(fusion: cfg(feature = "cube"))]
pub(crate) struct Eight<B: Backend> {
    pub(crate) a: FloatTensor<B>,
    pub(crate) b: FloatTensor<B>,
    pub(crate) c: FloatTensor<B>,
    pub(crate) d: FloatTensor<B>,
    pub(crate) e: FloatTensor<B>,
    pub(crate) f: FloatTensor<B>,
    pub(crate) g: FloatTensor<B>,
    pub(crate) h: FloatTensor<B>,
}

impl<B: Backend> Eight<B> {
    pub(crate) fn of([a, b, c, d, e, f, g, h]: [FloatTensor<B>; AT_ONCE]) -> Self {
        Self { a, b, c, d, e, f, g, h }
    }

    pub(crate) fn into_array(self) -> [FloatTensor<B>; AT_ONCE] {
        let Self { a, b, c, d, e, f, g, h } = self;
        [a, b, c, d, e, f, g, h]
    }
}

/// See the module. The outputs are float32.
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
pub(crate) trait StateOps: Backend {
    /// The first number of each tensor, `[8]`.
    #[fusion(dtype = DType::F32, shape = [AT_ONCE].into())]
    fn first_numbers(#[extension_type] tensors: Eight<Self>) -> FloatTensor<Self>;

    /// 32 partial sums of the squares of each of the first `count` tensors, `[8 * 32]`. The rest are placeholders.
    #[fusion(dtype = DType::F32, shape = [AT_ONCE * BLOCKS].into())]
    fn squares(#[extension_type] tensors: Eight<Self>, count: usize) -> FloatTensor<Self>;

    /// `from + share * (factor * to - from)` of the first `count` tensors. The rest are placeholders.
    #[fusion(meta = |from, _, _, _, _| from.clone())]
    fn lerp(
        #[extension_type] from: Eight<Self>,
        #[extension_type] to: Eight<Self>,
        count: usize,
        factor: f32,
        share: f32,
    ) -> Eight<Self>;
}

/// The functions below come here for squares alone; for the rest they use Burn's operations on the CPU.
impl StateOps for Flex {
    fn first_numbers(tensors: Eight<Self>) -> FlexTensor {
        let firsts = tensors.into_array().map(|x| values::<f32>(&x).first().copied().unwrap_or_default());
        tensor(firsts.to_vec(), [AT_ONCE])
    }

    fn squares(tensors: Eight<Self>, count: usize) -> FlexTensor {
        let mut sums = vec![0.0f32; AT_ONCE * BLOCKS];
        for (sums, x) in sums.chunks_exact_mut(BLOCKS).zip(tensors.into_array()).take(count) {
            let x = values::<f32>(&x);
            let of_block = x.len().div_ceil(BLOCKS).max(1);
            sums.par_iter_mut().zip(x.par_chunks(of_block)).for_each(|(sum, block)| *sum = squared(block));
        }
        tensor(sums, [AT_ONCE * BLOCKS])
    }

    fn lerp(from: Eight<Self>, to: Eight<Self>, _: usize, factor: f32, share: f32) -> Eight<Self> {
        let [mut from, mut to] = [from, to].map(|tensors| tensors.into_array().into_iter());
        Eight::of(std::array::from_fn(|_| {
            let (from, to) = from.next().zip(to.next()).expect("eight of each");
            let (from, to) = (values::<f32>(&from), values::<f32>(&to));
            let pairs = from.iter().zip(to.iter());
            let moved: Vec<f32> = pairs.map(|(from, to)| from + share * (factor * to - from)).collect();
            let length = moved.len();
            tensor(moved, [length])
        }))
    }
}

/// The sum of the squares of some numbers: those of each lane, and then these, one after the other.
fn squared(numbers: &[f32]) -> f32 {
    const LANES: usize = 32;
    let mut sums = [0.0f32; LANES];
    let (lines, rest) = numbers.as_chunks::<LANES>();
    vectorised(
        #[inline(always)]
        || {
            for line in lines {
                for (sum, number) in sums.iter_mut().zip(line) {
                    *sum += number * number;
                }
            }
        },
    );
    sums.iter().sum::<f32>() + rest.iter().map(|number| number * number).sum::<f32>()
}

/// The first number of each tensor, `[n]`. Reading the result waits until all tensors have been computed. `None` if there are no
/// tensors. The tensors must not be on a gradient graph.
pub fn first_numbers(tensors: Vec<Tensor<1>>) -> Option<Tensor<1>> {
    let found: Vec<Tensor<1>> = match are_launched(&tensors) {
        true => by_eight(&tensors, |some, count| {
            let all = <Dispatch as StateOps>::first_numbers(some);
            Tensor::<1>::from_dispatch(all).narrow(0, 0, count)
        }),
        false => tensors.into_iter().map(|tensor| tensor.narrow(0, 0, 1)).collect(),
    };
    (!found.is_empty()).then(|| Tensor::cat(found, 0))
}

/// The sum of the squares of all numbers of all tensors, `[1]`, added up in an order that depends on shapes alone. `None` if there
/// are no tensors. The tensors must not be on a gradient graph.
pub fn squared_norm(tensors: &[Tensor<1>]) -> Option<Tensor<1>> {
    let serves = tensors.iter().all(|tensor| serves(tensor) && tensor.dtype() == DType::F32);
    let found: Vec<Tensor<1>> = match serves {
        true => by_eight(tensors, |some, count| {
            let all = <Dispatch as StateOps>::squares(some, count);
            Tensor::<1>::from_dispatch(all).narrow(0, 0, count * BLOCKS)
        }),
        false => tensors.iter().map(|tensor| sum(tensor.clone().square())).collect(),
    };
    (!found.is_empty()).then(|| sum(Tensor::cat(found, 0)))
}

/// `from + share * (factor * to - from)` of each pair of tensors, which have the same length and are not on a gradient graph. `None` on
/// the CPU, where the caller takes one pair after the other.
pub fn lerp(pairs: &[[Tensor<1>; 2]], factor: f64, share: f64) -> Option<Vec<Tensor<1>>> {
    if !pairs.iter().all(are_launched) {
        return None;
    }
    let moved = pairs.chunks(AT_ONCE).flat_map(|some| {
        let [from, to] = [0, 1].map(|of| eight(some, |pair| &pair[of]));
        let moved = <Dispatch as StateOps>::lerp(from, to, some.len(), factor as f32, share as f32);
        moved.into_array().into_iter().take(some.len()).map(Tensor::from_dispatch)
    });
    Some(moved.collect())
}

/// Whether all tensors are float32 on a device where each operation is a kernel launch.
pub(crate) fn are_launched<'a>(tensors: impl IntoIterator<Item = &'a Tensor<1>>) -> bool {
    tensors.into_iter().all(|tensor| serves(tensor) && !on_cpu(tensor) && tensor.dtype() == DType::F32)
}

/// A tensor of each of up to eight items, filled up with the tensor of the last item.
pub(crate) fn eight<T>(items: &[T], of: impl Fn(&T) -> &Tensor<1>) -> Eight<Dispatch> {
    Eight::of(std::array::from_fn(|place| of(&items[place.min(items.len() - 1)]).clone().into_dispatch()))
}

/// Calls `each` with eight tensors at a time and the number of them that count. The last call is filled up with copies of the last
/// tensor, whose results `each` leaves out.
fn by_eight(tensors: &[Tensor<1>], each: impl Fn(Eight<Dispatch>, usize) -> Tensor<1>) -> Vec<Tensor<1>> {
    tensors.chunks(AT_ONCE).map(|some| each(eight(some, |tensor| tensor), some.len())).collect()
}
