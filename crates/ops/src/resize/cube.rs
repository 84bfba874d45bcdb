//! Launches of the kernels in [`super::cube_kernels`].

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::cube_kernels::{self as kernels, PlacesLaunch};
use super::{Axis, Interpolation, Resize, ResizeGradient};
use crate::cube::layout::{Spread, addresses, dims, element, empty_map, width_of_maps};

/// The most pixels of a unit.
const EACH: usize = 8;

impl Axis {
    /// The places as an argument of a kernel.
    fn arg(self) -> PlacesLaunch {
        PlacesLaunch::new(self.scale, self.ahead, self.behind, self.whole, self.input, self.output)
    }
}

impl Resize for CubeBackend {
    fn resize(x: CubeTensor, size: [usize; 2], interpolation: Interpolation) -> CubeTensor {
        let [batch, channels, height, width] = dims(&x);
        let y = empty_map(&x, [batch, channels, size[0], size[1]], x.dtype);
        let [rows, columns] = Axis::both([height, width], size, interpolation);
        let vector = width_of_maps(&[&x, &y]);
        let spread = Spread::of(channels, vector, size[0] * size[1], EACH);
        kernels::forward::launch(
            &y.client,
            spread.count(batch),
            spread.dim(),
            addresses(&[&x, &y]),
            vector,
            x.clone().into_tensor_arg(),
            y.clone().into_tensor_arg(),
            rows.arg(),
            columns.arg(),
            spread.each,
            interpolation == Interpolation::Nearest,
            element(y.dtype),
        );
        y
    }
}

impl ResizeGradient for CubeBackend {
    fn resize_backward(dy: CubeTensor, size: [usize; 2], interpolation: Interpolation) -> CubeTensor {
        let [batch, channels, height, width] = dims(&dy);
        let dx = empty_map(&dy, [batch, channels, size[0], size[1]], dy.dtype);
        let [rows, columns] = Axis::both(size, [height, width], interpolation);
        let vector = width_of_maps(&[&dy, &dx]);
        let spread = Spread::of(channels, vector, size[0] * size[1], EACH);
        kernels::backward::launch(
            &dx.client,
            spread.count(batch),
            spread.dim(),
            addresses(&[&dy, &dx]),
            vector,
            dy.clone().into_tensor_arg(),
            dx.clone().into_tensor_arg(),
            rows.arg(),
            columns.arg(),
            spread.each,
            interpolation == Interpolation::Nearest,
            element(dx.dtype),
        );
        dx
    }
}
