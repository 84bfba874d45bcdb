//! Gradients of one micro-batch, with as many or as few feature maps kept as memory allows.
//!
//! This is activation checkpointing (Chen et al. 2016). Burn's own computes elementwise operations again only, which saves
//! nothing in a convolutional network. Here the forward pass runs without a gradient graph and keeps what enters each of the
//! network's segments; then, from the last segment to the first, a segment runs again with a graph, from its detached input,
//! and `sum(output * gradient)` is propagated back through it. The second run computes the very numbers of the first: dropout draws by sample, normalisation takes the
//! same groups, and its statistics are those of the first run.

use burn::tensor::Tensor;
use kindling_layers::pass::{self, BatchStatistics, TrainingPass};
use kindling_layers::{Checkpointing, Classifier};
use kindling_nvtx::range;

use crate::fault::Phase;
use crate::gradients::{GradientSum, backward};

/// What a micro-batch leaves besides its gradients.
pub(crate) struct Left {
    /// Its part of the loss, `[1]`, on the plain device.
    pub(crate) loss: Tensor<1>,
    pub(crate) statistics: BatchStatistics,
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

/// Computes the loss of a micro-batch, a function of the logits, and adds its scaled gradients to `gradients`. `reach` is told
/// when forward and backward begin, so that failures can be made to happen there.
pub(crate) fn gradients<M: Classifier>(
    model: &M,
    work: Work,
    loss: impl FnOnce(Tensor<2>) -> Tensor<1>,
    gradients: &mut GradientSum,
    mut reach: impl FnMut(Phase),
) -> Left {
    let Work { images, pass, checkpointing, loss_scale } = work;
    let segments = model.segments(checkpointing);
    reach(Phase::Forward);
    if segments == 0 {
        let images = Tensor::from_inner(images);
        let phase = range(|| "forward");
        let (loss, statistics) = pass::training(pass, || loss(model.forward(images)));
        drop(phase);
        reach(Phase::Backward);
        let _phase = range(|| "backward");
        gradients.add(backward(&loss, loss_scale), model);
        return Left { loss: loss.inner(), statistics };
    }

    // Forward: keep each segment's input.
    let phase = range(|| "forward");
    let plain = model.valid();
    let mut statistics = BatchStatistics::default();
    let mut inputs = Vec::with_capacity(segments);
    let mut x = images;
    for index in 0..segments {
        inputs.push(x.clone());
        let (y, observed) = pass::training(pass.clone(), || plain.run_segment(checkpointing, index, x));
        statistics.merge(observed);
        x = y;
    }
    let last = Tensor::from_inner(x).require_grad();
    let (loss, observed) = pass::training(pass.clone(), || loss(model.finish(last.clone())));
    statistics.merge(observed);
    drop(phase);
    reach(Phase::Backward);
    let _phase = range(|| "backward");

    // Backward: the head, then segment by segment.
    let mut found = backward(&loss, loss_scale);
    let mut gradient = last.grad_remove(&mut found);
    gradients.add(found, model);
    for index in (model.frozen_segments(checkpointing)..inputs.len()).rev() {
        let (Some(of_output), Some(input)) = (gradient.take(), inputs.pop()) else { break };
        let input = Tensor::from_inner(input);
        // Nobody asks for the gradient of the images.
        let input = if index > 0 { input.require_grad() } else { input };
        let (output, _) = pass::training(pass.clone(), || model.run_segment(checkpointing, index, input.clone()));
        let mut found = (output * Tensor::from_inner(of_output)).sum().backward();
        gradient = input.grad_remove(&mut found);
        gradients.add(found, model);
    }
    Left { loss: loss.inner(), statistics }
}
