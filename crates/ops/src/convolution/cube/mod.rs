//! Convolutions on the devices of CubeCL.

pub(crate) mod columns;
mod columns_kernels;
pub(crate) mod dense;
pub(crate) mod depthwise;
mod depthwise_kernels;

use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use super::{ConvolutionGradients, Convolutions, OfConvolution, Places, Wanted};
use crate::cube::layout::dims;
use crate::cube::source::Source;
use crate::graph::Gradient;

impl Convolutions for CubeBackend {
    fn depthwise(x: CubeTensor, weight: CubeTensor, places: Places) -> CubeTensor {
        depthwise::forward(&Source::whole(x, None), weight, places)
    }

    fn dense(x: CubeTensor, weight: CubeTensor, places: Places) -> CubeTensor {
        dense::forward(x, weight, places)
    }

    fn transposed(x: CubeTensor, weight: CubeTensor, places: Places, [height, width]: [usize; 2]) -> CubeTensor {
        let ([batch, ..], [_, output, ..]) = (dims(&x), dims(&weight));
        dense::of_input([batch, output, height, width], weight, x, places)
    }
}

impl ConvolutionGradients for CubeBackend {
    fn depthwise_backward(
        x: CubeTensor,
        weight: CubeTensor,
        dy: CubeTensor,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self> {
        let [.., side] = dims(&weight);
        let of_weight = Gradient::if_wanted(wanted.weight, || {
            depthwise::of_filters(&Source::whole(x.clone(), None), side, dy.clone(), places)
        });
        let of_x = Gradient::if_wanted(wanted.x, || depthwise::of_input(&x, weight, dy, places));
        OfConvolution { x: of_x, weight: of_weight }
    }

    fn dense_backward(
        x: CubeTensor,
        weight: CubeTensor,
        dy: CubeTensor,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self> {
        let of_weight =
            Gradient::if_wanted(wanted.weight, || dense::of_filters(x.clone(), dims(&weight), dy.clone(), places));
        let of_x = Gradient::if_wanted(wanted.x, || dense::of_input(dims(&x), weight, dy, places));
        OfConvolution { x: of_x, weight: of_weight }
    }

    fn transposed_backward(
        x: CubeTensor,
        weight: CubeTensor,
        dy: CubeTensor,
        places: Places,
        wanted: Wanted,
    ) -> OfConvolution<Self> {
        let of_weight = Gradient::if_wanted(wanted.weight, || dense::of_filters(dy.clone(), dims(&weight), x, places));
        let of_x = Gradient::if_wanted(wanted.x, || dense::forward(dy, weight, places));
        OfConvolution { x: of_x, weight: of_weight }
    }
}
