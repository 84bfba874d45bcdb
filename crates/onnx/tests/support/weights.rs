//! Networks and images with numbers in which every mistake shows.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use kindling_layers::pass::{TrainingPass, training};
use kindling_layers::tensors::Tensors;
use kindling_layers::{init, parameters};
use kindling_random::{Purpose, rng};
use rand::RngExt;

/// A number in a range for each element; equal for equal `place`.
fn drawn(place: u64, shape: &[usize], range: std::ops::Range<f32>) -> TensorData {
    let mut rng = rng(7, Purpose::Init, 0, place);
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| rng.random_range(range.clone())).collect();
    TensorData::new(values, shape.to_vec())
}

/// `count` inputs in [-1, 1]; `shape` has any number of them.
pub(crate) fn inputs<const D: usize>(count: usize, mut shape: [usize; D]) -> Tensor<D> {
    shape[0] = count;
    Tensor::from_data(drawn(count as u64, &shape, -1.0..1.0), &Device::flex())
}

/// The network with drawn weights, scales and biases, and the statistics of what `forward` computes from inputs of such a
/// shape, so that every layer hands on numbers that depend on them; and its tensors.
pub(crate) fn filled<M: Module, const I: usize, const O: usize>(
    network: M,
    shape: [usize; I],
    forward: impl FnOnce(&M, Tensor<I>) -> Tensor<O>,
) -> (M, Tensors) {
    let network = init::initialise(network, 11);
    let mut tensors = parameters::read(&network).expect("the CPU hands out tensors");
    for (index, (name, data)) in tensors.iter_mut().enumerate() {
        let shape = data.shape().as_slice().to_vec();
        if let Some(range) = of_vector(name, &shape) {
            *data = drawn(index as u64 + 100, &shape, range);
        }
    }
    let network = parameters::write(network, tensors).expect("the same tensors");
    let (_, statistics) = training(TrainingPass::whole_batch(8), || forward(&network, inputs(8, shape)));
    let network = statistics.commit(network, 1.0);
    let tensors = parameters::read(&network).expect("the CPU hands out tensors");
    (network, tensors)
}

/// Tensors of these names and shapes.
pub(crate) fn drawn_tensors(shapes: &[(&str, &[usize])]) -> Tensors {
    let draw = |(index, &(name, shape)): (usize, &(&str, &[usize]))| {
        let range = of_vector(name, shape).unwrap_or(-0.5..0.5);
        (name.to_string(), drawn(index as u64 + 100, shape, range))
    };
    shapes.iter().enumerate().map(draw).collect()
}

/// Vectors keep ones and zeros when a network is initialised, which would hide what is left out or confused.
fn of_vector(name: &str, shape: &[usize]) -> Option<std::ops::Range<f32>> {
    match shape {
        [_] if name.ends_with("running_var") => Some(0.5..1.5),
        [_] if name.ends_with("weight") => Some(0.7..1.3),
        [_] => Some(-0.3..0.3),
        // Linear layers start near zero; a classifier and a gate should depend on what they read.
        [_, fan] => Some(-1.0 / (*fan as f32).sqrt()..1.0 / (*fan as f32).sqrt()),
        _ => None,
    }
}
