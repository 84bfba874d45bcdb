//! The operations that read a map through its normalisation, on the devices of CubeCL.

mod kernels;
mod launch;

use burn::backend::ops::ModuleOps;
use burn::tensor::IntDType;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::tensor::CubeTensor;

use super::{DeferredGradients, DeferredMap, DeferredOps, Gate, OfConvolved, OfMap, Pooling, Wanted};
use crate::activation::Activation;
use crate::convolution::Convolution;
use crate::convolution::cube::{dense, depthwise};
use crate::cube::layout::{Groups, dims, whole_planes};
use crate::cube::read::Read;
use crate::cube::source::Source;
use crate::graph::Gradient;
use crate::squeeze_excite::cube::of_means;

impl From<DeferredMap<CubeBackend>> for Source {
    fn from(map: DeferredMap<CubeBackend>) -> Self {
        let DeferredMap { x, weight, bias, statistics, gate, how } = map;
        assert!(how.rebuild.is_none(), "a tensor would be dropped on the thread of a device");
        let weight = into_contiguous(weight);
        let (gated, gate) = match gate {
            Gate::Of(gate) => (true, into_contiguous(gate)),
            // A kernel needs a tensor for every parameter, even those that it does not read.
            Gate::Open => (false, weight.clone()),
        };
        Self {
            x,
            weight,
            bias: into_contiguous(bias),
            statistics: into_contiguous(statistics),
            gate,
            epsilon: how.epsilon as f32,
            groups: Groups::of(&how.groups),
            read: Read { norm: true, activation: how.activation, gated },
        }
    }
}

impl DeferredOps for CubeBackend {
    fn apply(map: DeferredMap<Self>) -> CubeTensor {
        Source::from(map).applied()
    }

    fn convolve(map: DeferredMap<Self>, filters: CubeTensor, convolution: Convolution) -> CubeTensor {
        let source = Source::from(map);
        match convolution {
            Convolution::Dense(places) => dense::forward(source.applied(), filters, places),
            Convolution::Depthwise(places) => depthwise::forward(&source, filters, places),
        }
    }

    fn average(map: DeferredMap<Self>) -> CubeTensor {
        Source::from(map).global_average_pool()
    }

    fn max_pool(map: DeferredMap<Self>, pooling: Pooling) -> CubeTensor {
        let Pooling { kernel, stride, padding } = pooling;
        let map = Source::from(map).applied();
        whole_planes(CubeBackend::max_pool2d(map, [kernel; 2], [stride; 2], [padding; 2], [1; 2], false))
    }

    fn add(map: DeferredMap<Self>, shortcut: CubeTensor, activation: Activation) -> CubeTensor {
        Source::from(map).residual_add(shortcut, activation)
    }
}

impl DeferredGradients for CubeBackend {
    fn apply_backward(map: DeferredMap<Self>, dy: CubeTensor, wanted: Wanted) -> OfMap<Self> {
        Source::from(map).backward(dy, wanted)
    }

    fn convolve_backward(
        map: DeferredMap<Self>,
        filters: CubeTensor,
        dy: CubeTensor,
        convolution: Convolution,
        wanted: Wanted,
        filters_wanted: bool,
    ) -> OfConvolved<Self> {
        let source = Source::from(map);
        let (of_filters, of_read) = match convolution {
            Convolution::Dense(places) => (
                Gradient::if_wanted(filters_wanted, || {
                    dense::of_filters(source.applied(), dims(&filters), dy.clone(), places)
                }),
                dense::of_input(dims(&source.x), filters, dy, places),
            ),
            Convolution::Depthwise(places) => {
                let [.., side] = dims(&filters);
                let of_filters =
                    Gradient::if_wanted(filters_wanted, || depthwise::of_filters(&source, side, dy.clone(), places));
                (of_filters, depthwise::of_input(&source.x, filters, dy, places))
            }
        };
        OfConvolved { map: source.backward(of_read, wanted), filters: of_filters }
    }

    fn average_backward(map: DeferredMap<Self>, dy: CubeTensor, wanted: Wanted) -> OfMap<Self> {
        let dy = of_means(dy, dims(&map.x), map.x.dtype);
        Source::from(map).backward(dy, wanted)
    }

    fn max_pool_backward(map: DeferredMap<Self>, dy: CubeTensor, pooling: Pooling, wanted: Wanted) -> OfMap<Self> {
        let Pooling { kernel, stride, padding } = pooling;
        let source = Source::from(map);
        let (map, windows) = (source.applied(), ([kernel; 2], [stride; 2], [padding; 2], [1; 2]));
        let (kernel, stride, padding, dilation) = windows;
        let maxima =
            CubeBackend::max_pool2d_with_indices(map.clone(), kernel, stride, padding, dilation, false, IntDType::I32);
        let of_read = CubeBackend::max_pool2d_with_indices_backward(
            map,
            kernel,
            stride,
            padding,
            dilation,
            false,
            dy,
            maxima.indices,
        );
        source.backward(of_read.x_grad, wanted)
    }

    fn sum_backward(y: CubeTensor, dy: CubeTensor) -> CubeTensor {
        launch::of_sum(y, dy)
    }
}
