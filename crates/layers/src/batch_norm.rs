//! Batch normalisation over fixed groups of samples.
//!
//! Statistics are taken over groups of consecutive samples of the global batch, so a micro-batch of any whole number
//! of groups computes the same function. With one group this is exactly PyTorch's `BatchNorm2d`: biased variance to
//! normalise, unbiased variance for the running statistic.
//!
//! Burn's own layer updates its running statistics inside `forward`, where every clone of the module shares them, and keeps the
//! biased variance. A step that fails half-way would already have changed them. Here, batch statistics are handed to the training
//! pass ([`crate::pass`]), and the running statistics change when the step is committed.

use burn::module::{Module, Param, ParamId};
use burn::tensor::{Device, Tensor, module};

use crate::map::Map;
use crate::pass;
use crate::precision::{self, full};
use crate::trace::{Describe, Op, Trace, Value};
use kindling_ops::{self as ops, Activation, Deferred, Normalisation, NormedConvolution, plain, reserve};

/// Configuration of a [`BatchNorm`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNormConfig {
    /// Added to the variance. PyTorch's default is 1e-5.
    pub epsilon: f64,
    /// Weight of a step's statistic in the running statistic. PyTorch's default is 0.1.
    pub momentum: f64,
}

impl Default for BatchNormConfig {
    fn default() -> Self {
        Self { epsilon: 1e-5, momentum: 0.1 }
    }
}

impl BatchNormConfig {
    /// Epsilon 1e-3 and timm's momentum of 0.1, for weights that come from TensorFlow.
    pub fn tensorflow() -> Self {
        Self { epsilon: 1e-3, momentum: 0.1 }
    }

    /// A layer for `channels` channels with scale 1, shift 0, running mean 0 and running variance 1.
    pub fn init(&self, channels: usize, device: &Device) -> BatchNorm {
        let constant = |value: f32| Tensor::<1>::full([channels], value, device);
        let state = |value: f32| Param::initialized(ParamId::new(), constant(value).set_require_grad(false));
        BatchNorm {
            weight: Param::from_tensor(constant(1.0)),
            bias: Param::from_tensor(constant(0.0)),
            running_mean: state(0.0),
            running_var: state(1.0),
            epsilon: self.epsilon,
            momentum: self.momentum,
        }
    }
}

/// Batch normalisation, `[batch, channels, height, width]` in and out.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// Scale, `[channels]`.
    pub weight: Param<Tensor<1>>,
    /// Shift, `[channels]`.
    pub bias: Param<Tensor<1>>,
    /// Running mean, `[channels]`: state, not a parameter.
    pub running_mean: Param<Tensor<1>>,
    /// Running unbiased variance, `[channels]`: state, not a parameter.
    pub running_var: Param<Tensor<1>>,
    epsilon: f64,
    momentum: f64,
}

impl BatchNorm {
    /// Normalises with batch statistics inside a training pass and with running statistics outside.
    ///
    /// # Panics
    /// If the groups of the current pass do not add up to the batch.
    pub fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        self.forward_then(x, Activation::Identity)
    }

    /// [`BatchNorm::forward`] followed by an activation, in one operation on devices that have one.
    ///
    /// # Panics
    /// As [`BatchNorm::forward`].
    pub fn forward_then(&self, x: Tensor<4>, activation: Activation) -> Tensor<4> {
        self.then(x, activation).whole()
    }

    /// [`BatchNorm::forward_then`], deferred to the next layer on devices that have operations for that.
    ///
    /// # Panics
    /// As [`BatchNorm::forward`].
    pub fn then(&self, x: Tensor<4>, activation: Activation) -> Map {
        precision::assert_fits(&self.weight.val(), &x);
        let pass = pass::current();
        let own = ops::serves(&x) && pass.as_ref().is_none_or(|pass| ops::serves_groups(&x, &pass.groups));
        if !own {
            reserve::like(&x, x.shape().num_elements());
        }
        match pass {
            Some(pass) => {
                let batch = x.dims()[0];
                let groups = pass.groups;
                assert_eq!(
                    groups.iter().sum::<usize>(),
                    batch,
                    "normalisation groups {groups:?} for a batch of {batch}"
                );
                if own {
                    self.train_with_own_operation(x, groups, activation).into()
                } else {
                    activation.forward(self.train_with_burns_operation(x, &groups)).into()
                }
            }
            // The gradient of our operation assumes that the statistics are those of the batch.
            None if own && !x.is_autodiff() => self.infer_with_own_operation(x, activation).into(),
            None => activation.forward(self.infer(x)).into(),
        }
    }

    /// The factor and the summand that inference applies to each channel, both `[channels]`.
    pub(crate) fn scale_and_shift(&self) -> (Tensor<1>, Tensor<1>) {
        let scale = self.weight.val() / self.running_var.val().add_scalar(self.epsilon).sqrt();
        let shift = self.bias.val() - self.running_mean.val() * scale.clone();
        (scale, shift)
    }

    fn infer(&self, x: Tensor<4>) -> Tensor<4> {
        let (mean, var) = (self.running_mean.val(), self.running_var.val());
        let like = x.clone();
        let y = module::batch_norm(full(x), self.weight.val(), self.bias.val(), mean, var, self.epsilon);
        precision::like(y, &like)
    }

    fn infer_with_own_operation(&self, x: Tensor<4>, activation: Activation) -> Deferred {
        let batch = x.dims()[0];
        self.deferred(x, self.running_statistics(), vec![batch], activation)
    }

    /// Running means and variances, `[2, 1, channels]`.
    fn running_statistics(&self) -> Tensor<3> {
        let (means, variances) = (self.running_mean.val(), self.running_var.val());
        let [channels] = means.dims();
        Tensor::cat(vec![means, variances], 0).reshape([2, 1, channels])
    }

    /// A convolution with this normalisation after it, as it infers.
    pub(crate) fn after(&self, filters: Tensor<4>, activation: Activation) -> NormedConvolution {
        let (weight, bias, statistics) = (self.weight.val(), self.bias.val(), self.running_statistics());
        NormedConvolution { filters, weight, bias, statistics, epsilon: self.epsilon, activation }
    }

    fn train_with_own_operation(&self, x: Tensor<4>, groups: Vec<usize>, activation: Activation) -> Deferred {
        let [.., height, width] = x.dims();
        let statistics = ops::statistics(plain(x.clone()), groups.clone());
        let [means, variances] = ops::sums_over_groups(&statistics, &groups, height * width);
        self.observe(means, variances, groups.len());
        self.deferred(x, statistics, groups, activation)
    }

    fn deferred(&self, x: Tensor<4>, statistics: Tensor<3>, groups: Vec<usize>, activation: Activation) -> Deferred {
        let how = Normalisation { groups, epsilon: self.epsilon, activation, rebuild: None };
        Deferred { x, weight: self.weight.val(), bias: self.bias.val(), statistics, how, gate: None }
    }

    /// Normalises each group with Burn's operation.
    fn train_with_burns_operation(&self, x: Tensor<4>, groups: &[usize]) -> Tensor<4> {
        let [batch, _, height, width] = x.dims();
        let mut start = 0;
        let mut outputs = Vec::with_capacity(groups.len());
        let mut sums: Option<(Tensor<1>, Tensor<1>)> = None;
        for &size in groups {
            let group = if size == batch { x.clone() } else { x.clone().narrow(0, start, size) };
            start += size;
            let normalised = module::batch_norm_train(full(group), self.weight.val(), self.bias.val(), self.epsilon);
            outputs.push(precision::like(normalised.output, &x));
            let mean = plain(normalised.mean);
            let var = plain(normalised.variance).mul_scalar(ops::bessel(size * height * width));
            sums = Some(match sums {
                Some((means, vars)) => (means + mean, vars + var),
                None => (mean, var),
            });
        }
        if let Some((means, vars)) = sums {
            self.observe(means, vars, groups.len());
        }
        if outputs.len() == 1 { outputs.swap_remove(0) } else { Tensor::cat(outputs, 0) }
    }

    /// Hands the sums over groups of mean and unbiased variance to the current pass.
    fn observe(&self, means: Tensor<1>, vars: Tensor<1>, groups: usize) {
        pass::observe(self.running_mean.id, means, groups, self.momentum);
        pass::observe(self.running_var.id, vars, groups, self.momentum);
    }
}

impl Describe for BatchNorm {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let params = 2 * input.map.channels as u64;
        trace.push(Op::BatchNorm { epsilon: self.epsilon }, &[input], input.map, params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{TrainingPass, training};
    use burn::tensor::{TensorData, Tolerance};

    const SHAPE: [usize; 4] = [5, 2, 3, 4];

    fn images(device: &Device) -> Tensor<4> {
        let count = SHAPE.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|i| ((i * 37 + 11) % 101) as f32 / 25.0 - 1.0).collect();
        Tensor::from_data(TensorData::new(values, SHAPE), device)
    }

    fn pass(groups: &[usize]) -> TrainingPass {
        let batch = groups.iter().sum();
        TrainingPass { groups: groups.to_vec(), ..TrainingPass::whole_batch(batch) }
    }

    fn assert_close<const D: usize>(a: Tensor<D>, b: Tensor<D>) {
        a.into_data().assert_approx_eq::<f32>(&b.into_data(), Tolerance::absolute(1e-5));
    }

    #[test]
    fn the_own_operation_and_burns_agree_on_output_and_statistics() {
        let device = Device::flex();
        let norm = BatchNormConfig::default().init(2, &device);
        let groups = vec![3, 2];
        let (own, own_statistics) = training(pass(&groups), || {
            norm.train_with_own_operation(images(&device), groups.clone(), Activation::Relu6).whole()
        });
        let (burns, burns_statistics) = training(pass(&groups), || {
            Activation::Relu6.forward(norm.train_with_burns_operation(images(&device), &groups))
        });
        assert_close(own, burns);
        let (own, burns) = (own_statistics.commit(norm.clone(), 0.0), burns_statistics.commit(norm, 0.0));
        assert_close(own.running_mean.val(), burns.running_mean.val());
        assert_close(own.running_var.val(), burns.running_var.val());
    }

    #[test]
    fn the_own_inference_and_burns_agree() {
        let device = Device::flex();
        let norm = BatchNormConfig::default().init(2, &device);
        let (_, statistics) = training(pass(&[5]), || norm.forward(images(&device)));
        let norm = statistics.commit(norm, 0.7);
        let own = norm.infer_with_own_operation(images(&device), Activation::HardSwish).whole();
        assert_close(own, Activation::HardSwish.forward(norm.infer(images(&device))));
    }

    #[test]
    fn a_micro_batch_of_whole_groups_computes_what_the_batch_computes() {
        let device = Device::flex();
        let norm = BatchNormConfig::default().init(2, &device);
        let (whole, whole_statistics) = training(pass(&[3, 2]), || norm.forward(images(&device)));
        let (first, mut statistics) = training(pass(&[3]), || norm.forward(images(&device).narrow(0, 0, 3)));
        let (second, rest) = training(pass(&[2]), || norm.forward(images(&device).narrow(0, 3, 2)));
        statistics.merge(rest);
        whole.into_data().assert_eq(&Tensor::cat(vec![first, second], 0).into_data(), true);
        let (a, b) = (whole_statistics.commit(norm.clone(), 0.0), statistics.commit(norm, 0.0));
        a.running_mean.val().into_data().assert_eq(&b.running_mean.val().into_data(), true);
        a.running_var.val().into_data().assert_eq(&b.running_var.val().into_data(), true);
    }

    /// By PyTorch's definition, in float64: `running = 0.9 running + 0.1 statistic`, the variance unbiased.
    #[test]
    fn running_statistics_follow_pytorchs_conventions_and_change_only_when_committed() {
        let device = Device::flex();
        let norm = BatchNormConfig::default().init(2, &device);
        let (_, statistics) = training(pass(&[5]), || norm.forward(images(&device)));
        assert_close(norm.running_mean.val(), Tensor::zeros([2], &device));
        let committed = statistics.commit(norm, 0.0);

        let values: Vec<f32> = images(&device).into_data().try_to_vec().unwrap();
        let plane = SHAPE[2] * SHAPE[3];
        for channel in 0..2 {
            let of_channel: Vec<f64> = (0..SHAPE[0])
                .flat_map(|sample| values[(sample * 2 + channel) * plane..][..plane].iter().map(|v| f64::from(*v)))
                .collect();
            let count = of_channel.len() as f64;
            let mean = of_channel.iter().sum::<f64>() / count;
            let var = of_channel.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let found = |tensor: &Param<Tensor<1>>| f64::from(tensor.val().try_into_vec_as::<f32>().unwrap()[channel]);
            assert!((found(&committed.running_mean) - 0.1 * mean).abs() < 1e-6);
            assert!((found(&committed.running_var) - (0.9 + 0.1 * var)).abs() < 1e-6);
        }
    }
}
