//! The generator's gradients with few of its maps kept, as the trainer has it for a classifier: forward keeps
//! what enters each segment, and backward runs a segment again with a graph, from the last to the first. A segment may
//! hand on several maps.

use burn::tensor::Tensor;
use kindling_layers::Generator;
use kindling_layers::pass::{self, BatchStatistics, TrainingPass};
use kindling_trainer::engine::GradientSum;

/// Images that were made without a graph, and what it takes to find their gradients all the same.
pub(crate) struct Made {
    /// On the plain device.
    pub(crate) images: Tensor<4>,
    pub(crate) statistics: BatchStatistics,
    inputs: Vec<Vec<Tensor<4>>>,
    pass: TrainingPass,
}

/// Makes images segment by segment. `plain` is the network without gradients.
pub(crate) fn forward<G: Generator>(plain: &G, latent: Tensor<2>, pass: TrainingPass) -> Made {
    let [batch, width] = latent.dims();
    let mut maps = vec![latent.reshape([batch, width, 1, 1])];
    let mut inputs = Vec::with_capacity(plain.segments());
    let mut statistics = BatchStatistics::default();
    for index in 0..plain.segments() {
        inputs.push(maps.clone());
        let (made, observed) = pass::training(pass.clone(), || plain.run_segment(index, maps));
        statistics.merge(observed);
        maps = made;
    }
    let images = maps.swap_remove(0);
    Made { images, statistics, inputs, pass }
}

impl Made {
    /// Adds the generator's gradients, given that of the images.
    pub(crate) fn backward<G: Generator>(mut self, model: &G, gradient: Tensor<4>, gradients: &mut GradientSum) {
        let mut of_outputs = vec![Some(gradient)];
        for index in (0..self.inputs.len()).rev() {
            let Some(inputs) = self.inputs.pop() else { break };
            // Nobody asks for the gradient of the latent vectors.
            let leaf = |map| if index > 0 { Tensor::from_inner(map).require_grad() } else { Tensor::from_inner(map) };
            let inputs: Vec<Tensor<4>> = inputs.into_iter().map(leaf).collect();
            let (outputs, _) = pass::training(self.pass.clone(), || model.run_segment(index, inputs.clone()));
            let weighed = outputs.into_iter().zip(of_outputs);
            let weighed = weighed.filter_map(|(output, gradient)| Some((output * Tensor::from_inner(gradient?)).sum()));
            let Some(sum) = weighed.reduce(|a, b| a + b) else { break };
            let mut found = sum.backward();
            of_outputs = inputs.iter().map(|input| input.grad_remove(&mut found)).collect();
            gradients.add(found, model);
        }
    }
}
