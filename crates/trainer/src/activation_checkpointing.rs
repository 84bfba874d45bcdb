//! Gradients of one micro-batch, with as many or as few feature maps kept as memory allows.
//!
//! This is activation checkpointing (Chen et al. 2016). Burn's own computes elementwise operations again only, which saves
//! nothing in a convolutional network. Here the forward pass runs without a gradient graph and keeps what enters each of the
//! network's segments; then, from the last segment to the first, a segment runs again with a graph, from its detached input,
//! and `sum(output * gradient)` is propagated back through it. The second run computes the very numbers of the first: dropout
//! draws by sample, normalisation takes the same groups, and its statistics are those of the first run.

use burn::module::Module;
use burn::tensor::Tensor;
use kindling_layers::Checkpointing;
use kindling_layers::pass::{self, BatchStatistics, TrainingPass};
use kindling_nvtx::range;
use kindling_ops::sum;

use crate::fault::Phase;
use crate::gradients::{GradientSum, backward};
use crate::sums::Sums;
use crate::trainable::Trainable;

/// Maps that a network's segments made without a graph, and what it takes to find the gradients all the same. A segment may take
/// and hand on several maps.
pub struct Segments {
    /// What the last segment made, on the plain device.
    pub maps: Vec<Tensor<4>>,
    /// The statistics of all segments' normalisation groups.
    pub statistics: BatchStatistics,
    /// What entered each segment.
    inputs: Vec<Vec<Tensor<4>>>,
    pass: TrainingPass,
}

impl Segments {
    /// Runs so many segments, from `maps` on. `run` runs one of them without gradients.
    pub fn forward(
        pass: TrainingPass,
        segments: usize,
        mut maps: Vec<Tensor<4>>,
        run: impl Fn(usize, Vec<Tensor<4>>) -> Vec<Tensor<4>>,
    ) -> Self {
        let mut inputs = Vec::with_capacity(segments);
        let mut statistics = BatchStatistics::default();
        for index in 0..segments {
            inputs.push(maps.clone());
            let (made, observed) = pass::training(pass.clone(), || run(index, maps));
            statistics.merge(observed);
            maps = made;
        }
        Self { maps, statistics, inputs, pass }
    }

    /// Adds the gradients of a model, given that of the last segment's only map. `run` runs one of its segments; those before
    /// `first` have no parameters that train.
    pub fn backward<M: Module>(
        self,
        model: &M,
        first: usize,
        gradient: Option<Tensor<4>>,
        run: impl Fn(usize, Vec<Tensor<4>>) -> Vec<Tensor<4>>,
        gradients: &mut GradientSum,
    ) {
        let Self { mut inputs, pass, .. } = self;
        let mut of_outputs = vec![gradient];
        for index in (first..inputs.len()).rev() {
            let Some(input) = inputs.pop() else { break };
            // Nobody asks for the gradient of what enters the network.
            let leaf = |map| if index > 0 { Tensor::from_inner(map).require_grad() } else { Tensor::from_inner(map) };
            let input: Vec<Tensor<4>> = input.into_iter().map(leaf).collect();
            let (outputs, _) = pass::training(pass.clone(), || run(index, input.clone()));
            let weighed = outputs.into_iter().zip(of_outputs);
            let weighed = weighed.filter_map(|(output, gradient)| Some(sum(output * Tensor::from_inner(gradient?))));
            let Some(together) = weighed.reduce(|a, b| a + b) else { break };
            let mut found = together.backward();
            of_outputs = input.iter().map(|map| map.grad_remove(&mut found)).collect();
            gradients.add(found, model);
        }
    }
}

/// What is computed.
pub(crate) struct Work {
    /// On the plain device, in the format of the feature maps.
    pub(crate) images: Tensor<4>,
    pub(crate) pass: TrainingPass,
    pub(crate) checkpointing: Checkpointing,
    /// The loss is multiplied by it for the backward pass.
    pub(crate) loss_scale: f64,
}

/// Computes the loss of a micro-batch, a function of the logits, and its scaled gradients. `reach` is told when forward and backward
/// begin, so that failures can be made to happen there.
pub(crate) fn gradients<M: Trainable<D>, const D: usize>(
    model: &M,
    work: Work,
    loss: impl FnOnce(Tensor<D>) -> Tensor<1>,
    mut reach: impl FnMut(Phase),
) -> Sums {
    let Work { images, pass, checkpointing, loss_scale } = work;
    let segments = model.segments(checkpointing);
    let mut gradients = GradientSum::default();
    reach(Phase::Forward);
    if segments == 0 {
        let images = Tensor::from_inner(images);
        let phase = range(|| "forward");
        let (loss, statistics) = pass::training(pass, || loss(model.logits(images)));
        drop(phase);
        reach(Phase::Backward);
        let _phase = range(|| "backward");
        gradients.add(backward(&loss, loss_scale), model);
        return Sums { gradients, statistics, numbers: vec![loss.inner()] };
    }

    let phase = range(|| "forward");
    let plain = model.valid();
    let run = |model: &M, index, maps| model.run_segment(checkpointing, index, maps);
    let mut made = Segments::forward(pass.clone(), segments, vec![images], |index, maps| run(&plain, index, maps));
    drop(plain);
    let last = Tensor::from_inner(made.maps.swap_remove(0)).require_grad();
    let (loss, observed) = pass::training(pass, || loss(model.finish(last.clone())));
    let mut statistics = std::mem::take(&mut made.statistics);
    statistics.merge(observed);
    drop(phase);
    reach(Phase::Backward);
    let _phase = range(|| "backward");

    // The head, then segment by segment.
    let mut found = backward(&loss, loss_scale);
    let gradient = last.grad_remove(&mut found);
    drop(last);
    gradients.add(found, model);
    let first = model.frozen_segments(checkpointing);
    made.backward(model, first, gradient, |index, maps| run(model, index, maps), &mut gradients);
    Sums { gradients, statistics, numbers: vec![loss.inner()] }
}
