//! The operations that read a map through its normalisation, on the CPU ([`reading`]), and their gradients ([`backward`]).

mod add;
mod backward;
pub(crate) mod convolution;
pub(crate) mod epilogue;
mod max_pool;
pub(crate) mod normalisation;
pub(crate) mod reading;
mod sums;

use burn::backend::Flex;
use burn::tensor::DType;
use burn_flex::FlexTensor;

use super::{DeferredGradients, DeferredMap, DeferredOps, Gate, Normalisation, OfConvolved, OfMap, Pooling, Wanted};
use crate::activation::Activation;
use crate::convolution::Convolution;
use crate::convolution::cpu::Shape;
use crate::cpu::tensors::{computed_in, contiguous, dims, tensor, values};
use crate::cpu::values::{Elements, Stored};
use crate::cpu::{reserve, reserve_unless_free};
use crate::graph::Gradient;
use max_pool::Windows;
use normalisation::{Gradients, NormAct};
use reading::Reading;

pub use backward::channels_at_once;

impl DeferredMap<Flex> {
    pub(crate) fn shape(&self) -> [usize; 4] {
        dims(&self.x)
    }

    pub(crate) fn dtype(&self) -> DType {
        self.x.dtype()
    }

    pub(crate) fn read<T: Stored, R>(&self, work: impl FnOnce(&Reading<'_, T>) -> R) -> R {
        let Normalisation { groups, epsilon, activation, .. } = &self.how;
        let (weight, bias, statistics) = (values(&self.weight), values(&self.bias), values(&self.statistics));
        let norm = NormAct::new(self.shape(), &weight, &bias, &statistics, groups, *epsilon);
        let gate = match &self.gate {
            Gate::Of(gate) => Some(values(gate)),
            Gate::Open => None,
        };
        let x = contiguous(&self.x);
        work(&Reading { x: x.source(), norm, activation: *activation, gate: gate.as_deref() })
    }

    fn windows(&self, Pooling { kernel, stride, padding }: Pooling) -> Windows {
        let [.., height, width] = self.shape();
        Windows { height, width, kernel, stride, padding }
    }

    /// Reserves memory for a gradient of this map's shape.
    fn reserve(&self) {
        reserve(self.shape().iter().product(), self.dtype());
    }

    /// The gradients of map, scale, shift and gate as tensors.
    fn gradients<T: Stored>(&self, made: Gradients<T>, wanted: Wanted) -> OfMap<Flex> {
        let [batch, channels, ..] = self.shape();
        let gated = matches!(self.gate, Gate::Of(_));
        OfMap {
            x: Gradient::if_wanted(wanted.x, || tensor(made.x, self.shape())),
            weight: Gradient::if_wanted(wanted.weight, || tensor(made.weight, [channels])),
            bias: Gradient::if_wanted(wanted.bias, || tensor(made.bias, [channels])),
            gate: Gradient::if_wanted(wanted.gate && gated, || tensor(made.gate, [batch, channels])),
        }
    }
}

impl DeferredOps for Flex {
    fn apply(map: DeferredMap<Self>) -> FlexTensor {
        computed_in!(T = map.dtype(); tensor(map.read::<T, _>(|reading| reading.whole()), map.shape()))
    }

    fn convolve(map: DeferredMap<Self>, filters: FlexTensor, convolution: Convolution) -> FlexTensor {
        let shape = Shape::of(convolution, map.shape(), &filters);
        computed_in!(T = map.dtype(); {
            let y = map.read::<T, _>(|reading| convolution::forward(reading, &values(&filters), &shape));
            tensor(y, shape.output())
        })
    }

    fn average(map: DeferredMap<Self>) -> FlexTensor {
        let [batch, channels, ..] = map.shape();
        computed_in!(T = map.dtype(); tensor(map.read::<T, _>(convolution::global_average_pool), [batch, channels]))
    }

    fn max_pool(map: DeferredMap<Self>, pooling: Pooling) -> FlexTensor {
        let ([batch, channels, ..], windows) = (map.shape(), map.windows(pooling));
        let [rows, columns] = windows.out();
        computed_in!(T = map.dtype(); {
            let y = map.read::<T, _>(|reading| max_pool::forward(reading, &windows));
            tensor(y, [batch, channels, rows, columns])
        })
    }

    fn add(map: DeferredMap<Self>, shortcut: FlexTensor, activation: Activation) -> FlexTensor {
        computed_in!(T = map.dtype(); {
            let shortcut = contiguous(&shortcut);
            let y = map.read::<T, _>(|reading| add::forward(reading, shortcut.source(), activation));
            tensor(y, map.shape())
        })
    }
}

impl DeferredGradients for Flex {
    fn apply_backward(map: DeferredMap<Self>, dy: FlexTensor, wanted: Wanted) -> OfMap<Self> {
        reserve_unless_free(&dy);
        computed_in!(T = map.dtype(); {
            let made = if dy.is_unique() {
                let dy = Elements::<T>::of(dy);
                map.read(|reading| reading.backward(dy))
            } else {
                let dy = contiguous(&dy);
                map.read(|reading| reading.backward_apart(dy.source::<T>()))
            };
            map.gradients(made, wanted)
        })
    }

    fn convolve_backward(
        map: DeferredMap<Self>,
        filters: FlexTensor,
        dy: FlexTensor,
        convolution: Convolution,
        wanted: Wanted,
        filters_wanted: bool,
    ) -> OfConvolved<Self> {
        let shape = Shape::of(convolution, map.shape(), &filters);
        computed_in!(T = map.dtype(); {
            let dy = contiguous(&dy);
            map.reserve();
            let (made, of_filters) =
                map.read::<T, _>(|reading| convolution::backward(reading, &values(&filters), dy.source(), &shape));
            let of_filters = Gradient::if_wanted(filters_wanted, || tensor(of_filters, dims(&filters)));
            OfConvolved { map: map.gradients(made, wanted), filters: of_filters }
        })
    }

    fn average_backward(map: DeferredMap<Self>, dy: FlexTensor, wanted: Wanted) -> OfMap<Self> {
        computed_in!(T = map.dtype(); {
            let dy = values::<T>(&dy);
            map.reserve();
            map.gradients(map.read(|reading| convolution::backward_global_average_pool(reading, &dy)), wanted)
        })
    }

    fn max_pool_backward(map: DeferredMap<Self>, dy: FlexTensor, pooling: Pooling, wanted: Wanted) -> OfMap<Self> {
        let windows = map.windows(pooling);
        computed_in!(T = map.dtype(); {
            let dy = contiguous(&dy);
            map.reserve();
            map.gradients(map.read::<T, _>(|reading| max_pool::backward(reading, dy.source(), &windows)), wanted)
        })
    }

    fn sum_backward(y: FlexTensor, dy: FlexTensor) -> FlexTensor {
        let (shape, dtype) = (dims(&y), y.dtype());
        reserve(shape.iter().product(), dtype);
        computed_in!(T = dtype; {
            let (y, dy) = (contiguous(&y), contiguous(&dy));
            tensor(add::of_sum::<T>(y.source(), dy.source()), shape)
        })
    }
}
