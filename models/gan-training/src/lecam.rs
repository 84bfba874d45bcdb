//! The regulariser for discriminators that see few images ("Regularizing Generative Adversarial Networks under Limited
//! Data", Tseng et al. 2021): scores of real images are held near those that fake ones used to have, and the other way
//! round. It needs first derivatives only.

use burn::tensor::{Tensor, activation};

/// What the anchors keep of themselves in a step: the authors'.
const DECAY: f64 = 0.99;

/// The running means of the scores of real and of fake images: state, committed with the networks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeCam {
    /// Of real images.
    pub real: f64,
    /// Of fake images.
    pub fake: f64,
}

impl LeCam {
    /// What real images add to the loss, a value a score: `relu(score - fake anchor)^2`.
    pub fn of_real(&self, scores: Tensor<2>) -> Tensor<2> {
        activation::relu(scores.sub_scalar(self.fake)).square()
    }

    /// What fake images add to the loss, a value a score: `relu(real anchor - score)^2`.
    pub fn of_fake(&self, scores: Tensor<2>) -> Tensor<2> {
        activation::relu(scores.neg().add_scalar(self.real)).square()
    }

    /// The anchors after a step in which scores had these means. The first step's means are the first anchors.
    pub fn after(known: Option<Self>, real: f64, fake: f64) -> Self {
        let Some(known) = known else { return Self { real, fake } };
        let follow = |anchor: f64, mean: f64| DECAY * anchor + (1.0 - DECAY) * mean;
        Self { real: follow(known.real, real), fake: follow(known.fake, fake) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    #[test]
    fn scores_beyond_the_other_sides_anchor_cost_their_square() {
        let anchors = LeCam { real: 0.5, fake: -0.25 };
        let scores = || Tensor::<2>::from_floats([[-1.0, 0.0, 1.0]], &Device::flex());
        anchors.of_real(scores()).into_data().assert_eq(&[[0.0f32, 0.0625, 1.5625]].into(), true);
        anchors.of_fake(scores()).into_data().assert_eq(&[[2.25f32, 0.25, 0.0]].into(), true);
    }

    #[test]
    fn anchors_begin_with_the_first_means_and_follow_slowly() {
        let first = LeCam::after(None, 2.0, -1.0);
        assert_eq!(first, LeCam { real: 2.0, fake: -1.0 });
        let second = LeCam::after(Some(first), 0.0, 0.0);
        assert!((second.real - 1.98).abs() < 1e-12 && (second.fake + 0.99).abs() < 1e-12);
    }
}
