//! What two networks that are trained against each other can do.

use burn::module::Module;
use burn::tensor::Tensor;

/// A network that makes images of latent vectors.
///
/// It may also say where it can be cut: then a trainer that lacks memory keeps the maps at the cuts only and computes
/// what lies between them again. A segment hands on several maps where later ones need an early one.
pub trait Generator: Module {
    /// Latent vectors `[batch, latent]` to images `[batch, channels, size, size]` in `[-1, 1]`.
    fn forward(&self, latent: Tensor<2>) -> Tensor<4>;

    /// How many segments there are; none if the network cannot be cut.
    fn segments(&self) -> usize {
        0
    }

    /// Runs segment `index`. The first takes the latent vectors as one map of one pixel, `[batch, latent, 1, 1]`; the
    /// last makes the images.
    fn run_segment(&self, _index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        maps
    }
}

/// A network that tells real images from fake ones.
pub trait Discriminator: Module {
    /// Images `[batch, channels, size, size]` in `[-1, 1]` to scores `[batch, places]`, positive where it believes them.
    fn forward(&self, images: Tensor<4>) -> Tensor<2>;

    /// Scores real images, and says how far the network is from what it should know of them besides: 0 is perfect.
    /// `choice` is any number, drawn for this batch: what part of the images is looked at closer.
    fn judge(&self, images: Tensor<4>, _choice: u64) -> Judgement {
        Judgement { scores: self.forward(images), reconstruction: None }
    }
}

/// What a [`Discriminator`] says about real images.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// `[batch, places]`.
    pub scores: Tensor<2>,
    /// How badly the images can be made again of what the network has seen in them: the mean over the batch, `[1]`.
    pub reconstruction: Option<Tensor<1>>,
}
