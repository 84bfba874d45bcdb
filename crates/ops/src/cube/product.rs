//! Matrix products on the devices of CubeCL, by cubek's kernels.
//!
//! The kernel follows from the formats and from what the device has, never from a measurement: a device computes the same bits in
//! every run, and compiles one kernel where Burn's autotune compiles thirty (`docs/decisions/kernels-are-named-not-timed.md`).

use burn_cubecl::cubecl::server::LaunchError;
use burn_cubecl::tensor::CubeTensor;
use cubek::matmul::definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError};
use cubek::matmul::launch::launch_ref;
use cubek::matmul::multi_level::Strategy;
use cubek::matmul::multi_level::components::tile::TileMatmulKind::{Cmma, Mma};
use cubek::matmul::multi_level::routines::batch::simple::SimpleArgs;
use cubek::matmul::routine::BlueprintStrategy::Inferred;
use cubek::std::InputBinding;

use super::layout::element;
use crate::device::has_tensor_cores;

/// Whether a launch failed, so that another kernel would hide what is wrong with the device. A kernel that wants more than the device has,
/// shared memory for example, only declines.
pub(crate) fn is_failure(reason: &LaunchError) -> bool {
    !matches!(reason, LaunchError::TooManyResources(_))
}

/// The kernels that may multiply, the best first: each of them declines what the device has not.
fn kernels(tensor_cores: bool) -> Vec<Strategy> {
    let simple = |tile_matmul| SimpleArgs { tile_matmul, multi_rows: false };
    let mut kernels = Vec::new();
    if tensor_cores {
        kernels.push(Strategy::SimpleCyclicMma(Inferred(simple(Mma))));
        kernels.push(Strategy::SimpleCyclicCmma(Inferred(simple(Cmma))));
    }
    kernels.push(Strategy::SimpleUnit(Inferred(Default::default())));
    kernels.push(Strategy::Naive);
    kernels
}

/// Writes the product of two matrices, or of two batches of matrices, into `out`. Sums are float32, in an order that depends on
/// shapes alone.
///
/// # Panics
/// If a launch fails, or every kernel declines. As in Burn's own products, the device is lost then.
pub(crate) fn multiply(lhs: CubeTensor, rhs: CubeTensor, out: &CubeTensor) {
    let [of_lhs, of_rhs, of_out] = [&lhs, &rhs, out].map(|tensor| element(tensor.dtype));
    let mut reasons = Vec::new();
    for kernel in kernels(has_tensor_cores(&lhs.client)) {
        let [a, b] =
            [(&lhs, of_lhs), (&rhs, of_rhs)].map(|(of, element)| InputBinding::new(of.clone().binding(), element));
        let mut elements = MatmulElems::from_globals(&MatmulGlobalElems { lhs: of_lhs, rhs: of_rhs, out: of_out });
        match launch_ref(&kernel.into(), &lhs.client, a, b, out.clone().binding(), &mut elements) {
            Ok(()) => return,
            Err(MatmulSetupError::Launch(reason)) if is_failure(&reason) => {
                panic!("a matrix product cannot be launched: {reason}")
            }
            Err(declined) => reasons.push(format!("{declined:?}")),
        }
    }
    panic!("there is no kernel for a matrix product: {}", reasons.join("; "));
}
