//! [`UnreadOps`] on the CPU ([`super::reading`]).

use burn::backend::{Flex, TensorMetadata};
use burn::tensor::DType;
use burn_flex::FlexTensor;

use super::max_pool::{self, Windows};
use super::norm_act::NormAct;
use super::reading::Reading;
use super::real::Real;
use super::values::{Stored, computed_in, dims, tensor, values};
use super::{Convolution, after_norm, join};
use crate::activation::Activation;
use crate::{Normalisation, Pooling, UnreadOps};

/// The tensors of a map that is only read ([`crate::UnreadOps`]).
pub(super) struct Source {
    x: FlexTensor,
    weight: FlexTensor,
    bias: FlexTensor,
    statistics: FlexTensor,
    gate: FlexTensor,
    how: Normalisation,
    pub(super) shape: [usize; 4],
    pub(super) dtype: DType,
}

impl Source {
    pub(super) fn new(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        how: Normalisation,
    ) -> Self {
        let (shape, dtype) = (dims(&x), x.dtype());
        Self { x, weight, bias, statistics, gate, how, shape, dtype }
    }

    pub(super) fn read<T: Stored, R>(&self, work: impl FnOnce(&Reading<'_, T>) -> R) -> R {
        let Normalisation { groups, epsilon, activation, .. } = &self.how;
        let (weight, bias, statistics) = (values(&self.weight), values(&self.bias), values(&self.statistics));
        let norm = NormAct::new(self.shape, &weight, &bias, &statistics, groups, *epsilon);
        let gate = (self.gate.shape().num_elements() > 0).then(|| values(&self.gate));
        let x = values(&self.x);
        work(&Reading { x: &x, norm, activation: *activation, gate: gate.as_deref() })
    }

    pub(super) fn windows(&self, Pooling { kernel, stride, padding }: Pooling) -> Windows {
        let [.., height, width] = self.shape;
        Windows { height, width, kernel, stride, padding }
    }
}

impl UnreadOps for Flex {
    fn norm_act(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        how: Normalisation,
    ) -> FlexTensor {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        computed_in!(T = source.dtype; {
            tensor(source.read::<T, _>(|reading| reading.whole()), source.shape, source.dtype)
        })
    }

    fn norm_act_conv(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        filters: FlexTensor,
        how: Normalisation,
        convolution: Convolution,
    ) -> FlexTensor {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        let shape = convolution.shape(source.shape, &filters);
        computed_in!(T = source.dtype; {
            let y = source.read::<T, _>(|reading| after_norm::forward(reading, &values(&filters), &shape));
            tensor(y, shape.output(), source.dtype)
        })
    }

    fn norm_act_means(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        how: Normalisation,
    ) -> FlexTensor {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        let [batch, channels, ..] = source.shape;
        computed_in!(T = source.dtype; tensor(source.read::<T, _>(after_norm::means), [batch, channels], T::DTYPE))
    }

    fn norm_act_max_pool(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        how: Normalisation,
        pooling: Pooling,
    ) -> FlexTensor {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        let ([batch, channels, ..], windows) = (source.shape, source.windows(pooling));
        let [rows, columns] = windows.out();
        computed_in!(T = source.dtype; {
            let y = source.read::<T, _>(|reading| max_pool::forward(reading, &windows));
            tensor(y, [batch, channels, rows, columns], source.dtype)
        })
    }

    fn norm_act_add(
        x: FlexTensor,
        weight: FlexTensor,
        bias: FlexTensor,
        statistics: FlexTensor,
        gate: FlexTensor,
        shortcut: FlexTensor,
        how: Normalisation,
        activation: Activation,
    ) -> FlexTensor {
        let source = Source::new(x, weight, bias, statistics, gate, how);
        computed_in!(T = source.dtype; {
            let y = source.read::<T, _>(|reading| join::forward(reading, &values(&shortcut), activation));
            tensor(y, source.shape, source.dtype)
        })
    }
}
