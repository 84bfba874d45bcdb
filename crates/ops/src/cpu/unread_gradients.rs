//! [`UnreadGradients`] on the CPU.

use burn::backend::Flex;
use burn_flex::FlexTensor;

use super::autodiff::{announce, announce_unless_free};
use super::gradients::if_wanted;
use super::real::Real;
use super::unread::Source;
use super::values::{Stored, computed_in, dims, owned, tensor, values};
use super::{Convolution, after_norm, join, max_pool, norm_act};
use crate::{Normalisation, Pooling, UnreadGradients};

/// Of map, scale, shift and gate.
type OfMap = (FlexTensor, FlexTensor, FlexTensor, FlexTensor);

impl UnreadGradients for Flex {
    fn norm_act_backward(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        dy: FlexTensor,
        how: Normalisation,
        wanted: [bool; 4],
    ) -> OfMap {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        announce_unless_free(&dy);
        computed_in!(T = source.dtype; {
            let dy = owned::<T>(dy);
            of_map(&source, source.read(|reading| reading.backward(dy)), wanted)
        })
    }

    fn norm_act_conv_backward(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        filters: FlexTensor,
        dy: FlexTensor,
        how: Normalisation,
        convolution: Convolution,
        [x_wanted, weight_wanted, bias_wanted, gate_wanted, filters_wanted]: [bool; 5],
    ) -> (FlexTensor, FlexTensor, FlexTensor, FlexTensor, FlexTensor) {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        let shape = convolution.shape(source.shape, &filters);
        computed_in!(T = source.dtype; {
            let dy = values::<T>(&dy);
            announce_map(&source);
            let (made, of_filters) =
                source.read(|reading| after_norm::backward(reading, &values(&filters), &dy, &shape));
            let of_filters = if_wanted(filters_wanted, || tensor(of_filters, dims(&filters), T::DTYPE));
            let wanted = [x_wanted, weight_wanted, bias_wanted, gate_wanted];
            let (x, weight, bias, gate) = of_map(&source, made, wanted);
            (x, weight, bias, gate, of_filters)
        })
    }

    fn norm_act_means_backward(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        dy: FlexTensor,
        how: Normalisation,
        wanted: [bool; 4],
    ) -> OfMap {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        computed_in!(T = source.dtype; {
            let dy = values::<T>(&dy);
            announce_map(&source);
            of_map(&source, source.read(|reading| after_norm::backward_means(reading, &dy)), wanted)
        })
    }

    fn norm_act_max_pool_backward(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        dy: FlexTensor,
        how: Normalisation,
        pooling: Pooling,
        wanted: [bool; 4],
    ) -> OfMap {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        computed_in!(T = source.dtype; {
            let dy = values::<T>(&dy);
            announce_map(&source);
            let windows = source.windows(pooling);
            of_map(&source, source.read(|reading| max_pool::backward(reading, &dy, &windows)), wanted)
        })
    }

    fn sum_backward(y: FlexTensor, dy: FlexTensor) -> FlexTensor {
        let (shape, dtype) = (dims(&y), y.dtype());
        announce(shape.iter().product(), dtype);
        computed_in!(T = dtype; {
            let of_sum = join::of_sum::<T>(&values(&y), &values(&dy));
            tensor(of_sum, shape, dtype)
        })
    }
}

/// The gradients of map, scale, shift and gate as tensors.
fn of_map<T: Stored>(source: &Source, made: norm_act::Gradients<T>, wanted: [bool; 4]) -> OfMap {
    let [batch, channels, ..] = source.shape;
    (
        if_wanted(wanted[0], || tensor(made.x, source.shape, source.dtype)),
        if_wanted(wanted[1], || tensor(made.weight, [channels], T::DTYPE)),
        if_wanted(wanted[2], || tensor(made.bias, [channels], T::DTYPE)),
        if_wanted(wanted[3], || tensor(made.gate, [batch, channels], T::DTYPE)),
    )
}

fn announce_map(source: &Source) {
    announce(source.shape.iter().product(), source.dtype);
}
