//! Generators and discriminators.
//!
//! - DCGAN at 64x64: "Unsupervised Representation Learning with Deep Convolutional Generative Adversarial Networks",
//!   Radford et al. 2015, <https://arxiv.org/abs/1511.06434>.
//! - FastGAN at 256x256 and 512x512: "Towards Faster and Stabilized GAN Training for High-fidelity Few-shot Image
//!   Synthesis", Liu et al. 2021, <https://arxiv.org/abs/2101.04775>.
//!
//! A generator makes images in `[-1, 1]` from latent vectors, a discriminator gives images scores that are positive
//! where it believes them: numbers for the hinge loss, without a sigmoid. Nothing here needs second derivatives.
//! `kindling_layers::init::initialise_adversarial` draws the initial weights.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod dcgan;
mod down;
pub mod fastgan;
mod glu;
mod skip_layer_excitation;
mod training;

pub use dcgan::{DcganConfig, DcganDiscriminator, DcganGenerator, Upsampling};
pub use down::DownConv;
pub use fastgan::{FastGanConfig, FastGanDecoders, FastGanDiscriminator, FastGanGenerator};
pub use glu::Glu;
pub use skip_layer_excitation::SkipLayerExcitation;
pub use training::SelfSupervisedDiscriminator;

use burn::tensor::Tensor;

/// A latent vector as a map of one pixel.
fn pixel(latent: Tensor<2>) -> Tensor<4> {
    let [batch, channels] = latent.dims();
    latent.reshape([batch, channels, 1, 1])
}
