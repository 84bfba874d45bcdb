//! [`UnreadGradients`] on the CPU.

use burn::backend::Flex;
use burn::tensor::DType;
use burn_flex::FlexTensor;

use super::autodiff::{announce, announce_unless_free};
use super::gradients::if_wanted;
use super::unread::Source;
use super::values::{dims, owned, tensor, values};
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
        let dy = owned(dy);
        of_map(&source, source.read(|reading| reading.backward(dy)), wanted)
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
        let dy = values(&dy);
        announce_map(&source);
        let (made, of_filters) = source.read(|reading| after_norm::backward(reading, &values(&filters), &dy, &shape));
        let of_filters = if_wanted(filters_wanted, || tensor(of_filters, dims(&filters), DType::F32));
        let wanted = [x_wanted, weight_wanted, bias_wanted, gate_wanted];
        let (x, weight, bias, gate) = of_map(&source, made, wanted);
        (x, weight, bias, gate, of_filters)
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
        let dy = values(&dy);
        announce_map(&source);
        of_map(&source, source.read(|reading| after_norm::backward_means(reading, &dy)), wanted)
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
        let dy = values(&dy);
        announce_map(&source);
        let windows = source.windows(pooling);
        of_map(&source, source.read(|reading| max_pool::backward(reading, &dy, &windows)), wanted)
    }

    fn sum_backward(y: FlexTensor, dy: FlexTensor) -> FlexTensor {
        let (shape, dtype) = (dims(&y), y.dtype());
        announce(shape.iter().product(), dtype);
        let of_sum = join::of_sum(&values(&y), &values(&dy));
        tensor(of_sum, shape, dtype)
    }
}

/// The gradients of map, scale, shift and gate as tensors.
fn of_map(source: &Source, made: norm_act::Gradients, wanted: [bool; 4]) -> OfMap {
    let [batch, channels, ..] = source.shape;
    (
        if_wanted(wanted[0], || tensor(made.x, source.shape, source.dtype)),
        if_wanted(wanted[1], || tensor(made.weight, [channels], DType::F32)),
        if_wanted(wanted[2], || tensor(made.bias, [channels], DType::F32)),
        if_wanted(wanted[3], || tensor(made.gate, [batch, channels], DType::F32)),
    )
}

fn announce_map(source: &Source) {
    announce(source.shape.iter().product(), source.dtype);
}
