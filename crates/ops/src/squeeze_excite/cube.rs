//! The operations of squeeze-excite on the devices of CubeCL. They use the kernels for deferred normalisation (`deferred::cube`)
//! with the normalisation left out.

use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::{OfMultiply, SqueezeExcite, SqueezeExciteGradients, Wanted};
use crate::cube::layout::cast;
use crate::cube::source::Source;
use crate::graph::Gradient;

impl SqueezeExcite for CubeBackend {
    fn global_average_pool(x: CubeTensor) -> CubeTensor {
        Source::whole(x, None).global_average_pool()
    }

    fn channel_multiply(x: CubeTensor, gate: CubeTensor) -> CubeTensor {
        Source::whole(x, Some(gate)).applied()
    }
}

impl SqueezeExciteGradients for CubeBackend {
    fn global_average_pool_backward(dy: CubeTensor, shape: [usize; 4], dtype: DType) -> CubeTensor {
        of_means(dy, shape, dtype)
    }

    fn channel_multiply_backward(x: CubeTensor, gate: CubeTensor, dy: CubeTensor, wanted: Wanted) -> OfMultiply<Self> {
        let of_gate =
            Gradient::if_wanted(wanted.gate, || Source::whole(x.clone(), Some(gate.clone())).of_gate(dy.clone()));
        let of_x = Gradient::if_wanted(wanted.x, || Source::whole(dy, Some(gate)).applied());
        OfMultiply { x: of_x, gate: of_gate }
    }
}

/// The gradient of a map for the gradient of its planes' means. All pixels of a plane have the same, so it is stored once and
/// broadcast.
pub(crate) fn of_means(
    dy: CubeTensor,
    shape @ [batch, channels, height, width]: [usize; 4],
    dtype: DType,
) -> CubeTensor {
    let each = CubeBackend::float_mul_scalar(dy, (1.0 / (height * width) as f64).into());
    let each = cast(each, dtype);
    let each = CubeBackend::float_reshape(each, Shape::new([batch, channels, 1, 1]));
    CubeBackend::float_expand(each, Shape::new(shape))
}
