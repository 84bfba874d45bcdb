//! Own operations for CUDA, Vulkan and the other devices of CubeCL, with their backward passes.
//!
//! Burn's normalisation, activation, gate and shortcut are operations of their own on these devices, each of which keeps
//! maps for backward, and its depthwise weight gradient has one thread for each number of a filter. Here a convolution's output is all that is
//! kept, as on the CPU. Depthwise convolutions, means and sums apply what comes before them while they read; dense
//! convolutions are Burn's ([`convolve`]), and read a map that is made for them, freed behind them, and made once more for
//! backward.
//!
//! Sums are made in float32, in an order that depends on shapes alone. No kernel of this module has yet been run on a GPU of
//! NVIDIA: tests run on Vulkan in software and on a stand-in for CUDA, which executes CUDA's text on the CPU.

mod convolve;
mod convolve_depthwise;
mod depthwise;
mod functions;
mod layout;
mod norm;
mod read;
mod state;
mod statistics;
mod unread;

use burn::backend::ops::{FloatTensorOps, ModuleOps};
use burn::tensor::{DType, IntDType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;

use crate::activation::Activation;
use crate::{Convolution, MapGradients, MapOps, Normalisation, Places, Pooling, StateOps, UnreadGradients, UnreadOps};
use layout::{dims, nothing, whole_planes};
use unread::{OfMap, Source};

impl MapOps for CubeBackend {
    fn depthwise(x: CubeTensor, weight: CubeTensor, places: Places) -> CubeTensor {
        convolve_depthwise::forward(&Source::whole(x, None), weight, places)
    }

    fn dense(x: CubeTensor, weight: CubeTensor, places: Places) -> CubeTensor {
        convolve::forward(x, weight, places)
    }

    fn statistics(x: CubeTensor, groups: Vec<usize>) -> CubeTensor {
        statistics::statistics(x, &groups)
    }

    fn means(x: CubeTensor) -> CubeTensor {
        Source::whole(x, None).means()
    }

    fn scale(x: CubeTensor, gate: CubeTensor) -> CubeTensor {
        Source::whole(x, Some(gate)).applied()
    }
}

impl MapGradients for CubeBackend {
    fn depthwise_backward(
        x: CubeTensor,
        weight: CubeTensor,
        dy: CubeTensor,
        places: Places,
        wanted: [bool; 2],
    ) -> (CubeTensor, CubeTensor) {
        let [.., side] = dims(&weight);
        let dw = if_wanted(wanted[1], &x, || {
            convolve_depthwise::of_filters(&Source::whole(x.clone(), None), side, dy.clone(), places)
        });
        let dx = if_wanted(wanted[0], &x, || convolve_depthwise::of_input(&x, weight, dy, places));
        (dx, dw)
    }

    fn dense_backward(
        x: CubeTensor,
        weight: CubeTensor,
        dy: CubeTensor,
        places: Places,
        wanted: [bool; 2],
    ) -> (CubeTensor, CubeTensor) {
        let dw = if_wanted(wanted[1], &x, || convolve::of_filters(x.clone(), weight.clone(), dy.clone(), places));
        let dx = if_wanted(wanted[0], &x, || convolve::of_input(x.clone(), weight, dy, places));
        (dx, dw)
    }

    fn means_backward(dy: CubeTensor, shape: [usize; 4], dtype: DType) -> CubeTensor {
        of_means(dy, shape, dtype)
    }

    fn scale_backward(x: CubeTensor, gate: CubeTensor, dy: CubeTensor, wanted: [bool; 2]) -> (CubeTensor, CubeTensor) {
        let of_gate = if_wanted(wanted[1], &x, || Source::whole(x.clone(), Some(gate.clone())).of_gate(dy.clone()));
        let dx = if_wanted(wanted[0], &x, || Source::whole(dy, Some(gate)).applied());
        (dx, of_gate)
    }
}

#[rustfmt::skip] // as many tensors as a launch takes
impl StateOps for CubeBackend {
    fn first_numbers(
        a: CubeTensor, b: CubeTensor, c: CubeTensor, d: CubeTensor, e: CubeTensor, f: CubeTensor, g: CubeTensor, h: CubeTensor,
    ) -> CubeTensor {
        state::first_numbers([a, b, c, d, e, f, g, h])
    }

    fn squares(
        a: CubeTensor, b: CubeTensor, c: CubeTensor, d: CubeTensor, e: CubeTensor, f: CubeTensor, g: CubeTensor, h: CubeTensor,
    ) -> CubeTensor {
        state::squares([a, b, c, d, e, f, g, h])
    }
}

impl UnreadOps for CubeBackend {
    fn norm_act(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        how: Normalisation,
    ) -> CubeTensor {
        Source::unread(x, weight, bias, statistics, gate, &how).applied()
    }

    fn norm_act_conv(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        filters: CubeTensor,
        how: Normalisation,
        convolution: Convolution,
    ) -> CubeTensor {
        let source = Source::unread(x, weight, bias, statistics, gate, &how);
        match convolution {
            Convolution::Dense(places) => convolve::forward(source.applied(), filters, places),
            Convolution::Depthwise(places) => convolve_depthwise::forward(&source, filters, places),
        }
    }

    fn norm_act_means(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        how: Normalisation,
    ) -> CubeTensor {
        Source::unread(x, weight, bias, statistics, gate, &how).means()
    }

    fn norm_act_max_pool(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        how: Normalisation,
        pooling: Pooling,
    ) -> CubeTensor {
        let Pooling { kernel, stride, padding } = pooling;
        let map = Source::unread(x, weight, bias, statistics, gate, &how).applied();
        whole_planes(CubeBackend::max_pool2d(map, [kernel; 2], [stride; 2], [padding; 2], [1; 2], false))
    }

    fn norm_act_add(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        shortcut: CubeTensor,
        how: Normalisation,
        activation: Activation,
    ) -> CubeTensor {
        Source::unread(x, weight, bias, statistics, gate, &how).added_to(shortcut, activation)
    }
}

impl UnreadGradients for CubeBackend {
    fn norm_act_backward(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        dy: CubeTensor,
        how: Normalisation,
        wanted: [bool; 4],
    ) -> OfMap {
        Source::unread(x, weight, bias, statistics, gate, &how).backward(dy, wanted)
    }

    fn norm_act_conv_backward(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        filters: CubeTensor,
        dy: CubeTensor,
        how: Normalisation,
        convolution: Convolution,
        [x_wanted, weight_wanted, bias_wanted, gate_wanted, filters_wanted]: [bool; 5],
    ) -> (CubeTensor, CubeTensor, CubeTensor, CubeTensor, CubeTensor) {
        let source = Source::unread(x, weight, bias, statistics, gate, &how);
        let (of_filters, of_read) = match convolution {
            Convolution::Dense(places) => (
                if_wanted(filters_wanted, &source.x, || {
                    convolve::of_filters(source.applied(), filters.clone(), dy.clone(), places)
                }),
                convolve::of_input(source.x.clone(), filters, dy, places),
            ),
            Convolution::Depthwise(places) => {
                let [.., side] = dims(&filters);
                let of_filters = if_wanted(filters_wanted, &source.x, || {
                    convolve_depthwise::of_filters(&source, side, dy.clone(), places)
                });
                (of_filters, convolve_depthwise::of_input(&source.x, filters, dy, places))
            }
        };
        let (x, weight, bias, gate) = source.backward(of_read, [x_wanted, weight_wanted, bias_wanted, gate_wanted]);
        (x, weight, bias, gate, of_filters)
    }

    fn norm_act_means_backward(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        dy: CubeTensor,
        how: Normalisation,
        wanted: [bool; 4],
    ) -> OfMap {
        let dy = of_means(dy, dims(&x), x.dtype);
        Source::unread(x, weight, bias, statistics, gate, &how).backward(dy, wanted)
    }

    fn norm_act_max_pool_backward(
        x: CubeTensor,
        weight: CubeTensor,
        bias: CubeTensor,
        statistics: CubeTensor,
        gate: CubeTensor,
        dy: CubeTensor,
        how: Normalisation,
        Pooling { kernel, stride, padding }: Pooling,
        wanted: [bool; 4],
    ) -> OfMap {
        let source = Source::unread(x, weight, bias, statistics, gate, &how);
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
        unread::of_sum(y, dy)
    }
}

/// The gradient of a map from that of its planes' means: a number for each plane, however large the plane is.
fn of_means(dy: CubeTensor, shape @ [batch, channels, height, width]: [usize; 4], dtype: DType) -> CubeTensor {
    let each = CubeBackend::float_mul_scalar(dy, (1.0 / (height * width) as f64).into());
    let each = convolve::cast(each, dtype);
    let each = CubeBackend::float_reshape(each, Shape::new([batch, channels, 1, 1]));
    CubeBackend::float_expand(each, Shape::new(shape))
}

fn if_wanted(wanted: bool, like: &CubeTensor, gradient: impl FnOnce() -> CubeTensor) -> CubeTensor {
    if wanted { gradient() } else { nothing(like) }
}
