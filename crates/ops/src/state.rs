//! Operations on the tensors of a network's state, eight at a time.
//!
//! A network has hundreds of tensors, most of them small. What looks at each of them in a step (the norm of all gradients, and
//! whether the new state is there) would launch a kernel a tensor; here it launches one for eight. On the CPU, where nothing is
//! launched, both are Burn's operations.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{DType, Tensor};

use super::{on_cpu, serves};

/// Tensors of an operation.
pub(crate) const AT_ONCE: usize = 8;
/// Blocks that a tensor's squares are added up in, each in a fixed order.
pub(crate) const BLOCKS: usize = 32;

/// See the module. All tensors have one axis and are float32; what is made is float32.
#[backend_extension(Flex, Cube: cfg(feature = "cube"), Fusion: cfg(feature = "cube"))]
#[allow(clippy::too_many_arguments)] // an operation on Burn's graph names its tensors one by one
pub(crate) trait StateOps: Backend {
    /// The first number of each, `[8]`.
    #[fusion(dtype = DType::F32, shape = [AT_ONCE].into())]
    fn first_numbers(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        e: FloatTensor<Self>,
        f: FloatTensor<Self>,
        g: FloatTensor<Self>,
        h: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// The sums of the squares of blocks of each, `[8 * 32]`.
    #[fusion(dtype = DType::F32, shape = [AT_ONCE * BLOCKS].into())]
    fn squares(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        d: FloatTensor<Self>,
        e: FloatTensor<Self>,
        f: FloatTensor<Self>,
        g: FloatTensor<Self>,
        h: FloatTensor<Self>,
    ) -> FloatTensor<Self>;
}

/// The first number of each tensor, `[n]`: it cannot be read unless all of them are there. None of no tensors. They are on the
/// plain device.
pub fn first_numbers(tensors: Vec<Tensor<1>>) -> Option<Tensor<1>> {
    let found: Vec<Tensor<1>> = match are_launched(&tensors) {
        true => by_eight(&tensors, |[a, b, c, d, e, f, g, h], count| {
            let all = <Dispatch as StateOps>::first_numbers(a, b, c, d, e, f, g, h);
            Tensor::<1>::from_dispatch(all).narrow(0, 0, count)
        }),
        false => tensors.into_iter().map(|tensor| tensor.narrow(0, 0, 1)).collect(),
    };
    (!found.is_empty()).then(|| Tensor::cat(found, 0))
}

/// The sum of the squares of all numbers of the tensors, `[1]`, in an order that depends on their shapes alone. None of no
/// tensors. They are on the plain device.
pub fn squared_norm(tensors: &[Tensor<1>]) -> Option<Tensor<1>> {
    let found: Vec<Tensor<1>> = match are_launched(tensors) {
        true => by_eight(tensors, |[a, b, c, d, e, f, g, h], count| {
            let all = <Dispatch as StateOps>::squares(a, b, c, d, e, f, g, h);
            Tensor::<1>::from_dispatch(all).narrow(0, 0, count * BLOCKS)
        }),
        false => tensors.iter().map(|tensor| tensor.clone().square().sum().reshape([1])).collect(),
    };
    (!found.is_empty()).then(|| Tensor::cat(found, 0).sum())
}

/// Whether these operations serve all of the tensors, on a device where work on each would be a launch.
fn are_launched(tensors: &[Tensor<1>]) -> bool {
    tensors.iter().all(|tensor| serves(tensor) && !on_cpu(tensor) && tensor.dtype() == DType::F32)
}

/// Eight after eight; the last ones are filled up with copies of the last, whose results are left out.
fn by_eight(
    tensors: &[Tensor<1>],
    each: impl Fn([FloatTensor<Dispatch>; AT_ONCE], usize) -> Tensor<1>,
) -> Vec<Tensor<1>> {
    let of = |some: &[Tensor<1>], place: usize| some[place.min(some.len() - 1)].clone().into_dispatch();
    tensors.chunks(AT_ONCE).map(|some| each(std::array::from_fn(|place| of(some, place)), some.len())).collect()
}
