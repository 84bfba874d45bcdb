//! The traits of two networks that are trained against each other.

use burn::module::Module;
use burn::tensor::Tensor;

/// A network that turns latent vectors into images.
///
/// It may also be divided into segments. A trainer that lacks memory then keeps only the maps between segments, and recomputes the
/// inside of a segment in the backward pass. A segment returns several maps if later segments need earlier ones.
pub trait Generator: Module {
    /// Latent vectors `[batch, latent]` to images `[batch, channels, size, size]` in `[-1, 1]`.
    fn forward(&self, latent: Tensor<2>) -> Tensor<4>;

    /// Number of segments; 0 if the network cannot be divided.
    fn segments(&self) -> usize {
        0
    }

    /// Runs segment `index`. The first takes the latent vectors as a map of one pixel, `[batch, latent, 1, 1]`; the last
    /// returns the images.
    fn run_segment(&self, _index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        maps
    }
}

/// A network that tells real images from fake ones.
pub trait Discriminator: Module {
    /// Images `[batch, channels, size, size]` in `[-1, 1]` to scores `[batch, places]`. A positive score means real.
    fn forward(&self, images: Tensor<4>) -> Tensor<2>;

    /// Scores real images, and measures what else the network should learn about them. `choice` is a random number drawn for
    /// this batch, which a network may use to choose a part of the images.
    fn judge(&self, images: Tensor<4>, _choice: u64) -> Judgement {
        Judgement { scores: self.forward(images), reconstruction: None }
    }
}

/// The result of a [`Discriminator`] for real images.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// `[batch, places]`.
    pub scores: Tensor<2>,
    /// The error of reconstructing the images from the network's features, as a mean over the batch, `[1]`; 0 is perfect.
    pub reconstruction: Option<Tensor<1>>,
}
