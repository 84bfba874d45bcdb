//! Reductions over the tensors of a network's state, eight tensors at a time.
//!
//! A network has hundreds of tensors, most of them small. Two operations of every step look at all of them: the norm of all
//! gradients, and the check that the new state has been computed. With one kernel launch a tensor, launching would dominate, so
//! one launch here takes eight tensors. On the CPU there is nothing to launch, and both use Burn's operations.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, Flex, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;

use crate::cpu::values::{tensor, values};
use crate::device::{on_cpu, serves};

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
    fn of([a, b, c, d, e, f, g, h]: [FloatTensor<B>; AT_ONCE]) -> Self {
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

    /// 32 partial sums of the squares of each tensor, `[8 * 32]`.
    #[fusion(dtype = DType::F32, shape = [AT_ONCE * BLOCKS].into())]
    fn squares(#[extension_type] tensors: Eight<Self>) -> FloatTensor<Self>;
}

/// Required by the backend trait. The functions below use Burn's operations on the CPU and never come here.
impl StateOps for Flex {
    fn first_numbers(tensors: Eight<Self>) -> FlexTensor {
        let firsts = tensors.into_array().map(|x| values::<f32>(&x).first().copied().unwrap_or_default());
        tensor(firsts.to_vec(), [AT_ONCE], DType::F32)
    }

    fn squares(tensors: Eight<Self>) -> FlexTensor {
        let mut sums = vec![0.0f32; AT_ONCE * BLOCKS];
        for (sums, x) in sums.chunks_exact_mut(BLOCKS).zip(tensors.into_array()) {
            values::<f32>(&x).iter().enumerate().for_each(|(at, value)| sums[at % BLOCKS] += value * value);
        }
        tensor(sums, [AT_ONCE * BLOCKS], DType::F32)
    }
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
    let found: Vec<Tensor<1>> = match are_launched(tensors) {
        true => by_eight(tensors, |some, count| {
            let all = <Dispatch as StateOps>::squares(some);
            Tensor::<1>::from_dispatch(all).narrow(0, 0, count * BLOCKS)
        }),
        false => tensors.iter().map(|tensor| tensor.clone().square().sum().reshape([1])).collect(),
    };
    (!found.is_empty()).then(|| Tensor::cat(found, 0).sum())
}

/// Whether all tensors are float32 on a device where each operation is a kernel launch.
fn are_launched(tensors: &[Tensor<1>]) -> bool {
    tensors.iter().all(|tensor| serves(tensor) && !on_cpu(tensor) && tensor.dtype() == DType::F32)
}

/// Calls `each` with eight tensors at a time and the number of them that count. The last call is filled up with copies of the last
/// tensor, whose results `each` leaves out.
fn by_eight(tensors: &[Tensor<1>], each: impl Fn(Eight<Dispatch>, usize) -> Tensor<1>) -> Vec<Tensor<1>> {
    let of = |some: &[Tensor<1>], place: usize| some[place.min(some.len() - 1)].clone().into_dispatch();
    tensors
        .chunks(AT_ONCE)
        .map(|some| each(Eight::of(std::array::from_fn(|place| of(some, place))), some.len()))
        .collect()
}
