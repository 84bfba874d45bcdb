//! Linear layers, and the global average pool before them.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, module};

use crate::parameters::zeros_when_read;
use crate::pass;
use crate::precision::full;
use crate::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_ops::{self as ops, Places};

/// The mean of each plane, `[batch, channels, height, width]` to `[batch, channels]`. From here on, a network computes in float32,
/// whatever the format of its maps.
pub fn global_average_pool(x: Tensor<4>) -> Tensor<2> {
    if ops::serves(&x) {
        return ops::global_average_pool(x);
    }
    let [batch, channels, height, width] = x.dims();
    full(x.reshape([batch, channels, height * width])).mean_dim(2).reshape([batch, channels])
}

/// A linear layer with bias, `[batch, input]` to `[batch, output]`.
///
/// The weight is `[output, input]` as in PyTorch, so that weight files need no transposition.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[output, input]`.
    pub weight: Param<Tensor<2>>,
    /// `[output]`.
    pub bias: Param<Tensor<1>>,
}

impl Linear {
    /// A layer whose weights are zero until [`crate::init::initialise`] or a weights file fills them.
    pub fn new(input: usize, output: usize, device: &Device) -> Self {
        Self { weight: zeros_when_read([output, input], device), bias: zeros_when_read([output], device) }
    }

    /// `[batch, input]` to `[batch, output]`. In inference on the CPU, the bits of a row do not depend on the number of rows.
    ///
    /// # Panics
    /// If `x` has another format than the weights: after the global average pool everything is float32.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        assert_eq!(x.dtype(), self.weight.val().dtype(), "the input of a linear layer has the format of its weights");
        let infers_on_cpu = !pass::is_training() && !x.is_autodiff() && ops::serves_on_cpu(&x);
        if infers_on_cpu || ops::serves(&x) && !ops::on_cpu(&x) {
            return self.as_convolution(x);
        }
        module::linear(x, self.weight.val().transpose(), Some(self.bias.val()))
    }

    /// The convolution of maps of one pixel. On the CPU it multiplies each row by itself: in a product of several rows, the order in
    /// which a row is added up would depend on the number of rows. On GPUs it shares the kernels of 1x1 convolutions, where Burn's
    /// product has one compiled for every size, and for every operation after it.
    fn as_convolution(&self, x: Tensor<2>) -> Tensor<2> {
        let ([batch, input], [output, _]) = (x.dims(), self.weight.dims());
        let places = Places { stride: 1, dilation: 1, before: [0; 2], out: [1; 2] };
        let weight = self.weight.val().reshape([output, input, 1, 1]);
        let y = ops::dense(x.reshape([batch, input, 1, 1]), weight, places);
        y.reshape([batch, output]) + self.bias.val().reshape([1, output])
    }
}

impl Describe for Linear {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let [output, fan] = self.weight.lazy_shape().dims();
        trace.push(Op::Linear, &[input], FeatureMap::vector(output), (output * fan + output) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Distribution, Tolerance};

    /// Sizes around those at which matrix products change the order of their sums: few columns, one row, small and large squares, and
    /// the heads of real networks.
    const SIDES: [(usize, usize); 8] = [(1, 1), (2, 3), (8, 32), (32, 8), (64, 64), (300, 70), (672, 28), (960, 1280)];

    #[test]
    fn outside_training_a_row_does_not_depend_on_the_rows_beside_it() {
        let device = Device::flex();
        for (input, output) in SIDES {
            let layer = crate::init::initialise(Linear::new(input, output, &device), 3);
            let x = Tensor::<2>::random([19, input], Distribution::Normal(0.0, 1.0), &device);
            let bits = |first: usize, count: usize| {
                let rows =
                    layer.forward(x.clone().narrow(0, first, count)).into_data().try_to_vec::<f32>().expect("floats");
                rows.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let all = bits(0, 19);
            for (first, count) in [(0, 1), (18, 1), (7, 2), (3, 3), (0, 8), (11, 8), (1, 16)] {
                let same = bits(first, count) == all[first * output..(first + count) * output];
                assert!(same, "{input} to {output}: rows {first} to {}", first + count);
            }
        }
    }

    #[test]
    fn row_by_row_a_layer_is_burns() {
        let device = Device::flex();
        for (input, output) in SIDES {
            let layer = crate::init::initialise(Linear::new(input, output, &device), 4);
            let layer = Linear { bias: layer.bias.map(|bias| bias + 0.5), ..layer };
            let x = Tensor::<2>::random([5, input], Distribution::Normal(0.0, 1.0), &device);
            let burns = module::linear(x.clone(), layer.weight.val().transpose(), Some(layer.bias.val()));
            layer.forward(x).into_data().assert_approx_eq::<f32>(&burns.into_data(), Tolerance::absolute(1e-4));
        }
    }
}
