//! Grad-CAM (Selvaraju et al. 2017, "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization"): which places
//! of an image speak for a class.

use burn::tensor::activation::relu;
use burn::tensor::{Int, Tensor};

use crate::{Checkpointing, Classifier};

/// Where images `[batch, in_channels, height, width]` speak for a class each, `classes` of shape `[batch]`: `[batch, h, w]` at the
/// size of the network's last map before the global average pool, 0 or more, in units of the logit.
///
/// `A` being that map, `y` the logit of the class and `a_k` the mean over all places of `dy / dA_k`, it is `relu(sum_k a_k A_k)`. The
/// model is without gradients, in inference mode; only what follows the map is computed with a graph.
///
/// A network that cannot be divided ([`Classifier::segments`]) has no last map, and what its images as a whole speak for is told of
/// them instead.
pub fn grad_cam<M: Classifier>(model: &M, images: Tensor<4>, classes: Tensor<1, Int>) -> Tensor<3> {
    let by = Checkpointing::Stages;
    let map = (0..model.segments(by)).fold(images, |x, segment| model.run_segment(by, segment, x));
    let read = Tensor::from_inner(map.clone()).require_grad();
    let logits = model.clone().train().finish(read.clone());
    let classes = Tensor::from_inner(classes.unsqueeze_dim::<2>(1));
    // Images do not see each other, so that the gradient of a sum is that of each.
    let gradients = kindling_ops::sum(logits.gather(1, classes)).backward();
    let Some(gradient) = read.grad(&gradients) else {
        // Nothing after the map depends on it.
        return (map.sum_dim(1) * 0.0).squeeze_dim(1);
    };
    let weights = gradient.mean_dim(3).mean_dim(2);
    relu((map * weights).sum_dim(1)).squeeze_dim(1)
}
