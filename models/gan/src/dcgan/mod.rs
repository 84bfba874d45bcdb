//! DCGAN: images of 64x64 from five layers, and scores by their mirror image.
//!
//! The numbers are those of PyTorch's example (`examples/dcgan/main.py`), which follows the paper's figure 1 with half
//! its channels, but for one thing: the example's discriminator ends in a sigmoid, this one in the number before it.

mod discriminator;
mod generator;
mod names;

pub use discriminator::DcganDiscriminator;
pub use generator::{DcganGenerator, Up, UpConv};
pub use names::{dcgan_discriminator_names, dcgan_generator_names};

use burn::tensor::Device;

/// Configuration of a DCGAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcganConfig {
    /// Numbers of a latent vector.
    pub latent: usize,
    /// Channels of the generator's last feature map and the discriminator's first, at 32x32.
    pub features: usize,
    /// Channels of the images: 1 for scans, 3 for colour.
    pub channels: usize,
    /// How the generator doubles its maps.
    pub upsampling: Upsampling,
}

/// How a map is doubled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upsampling {
    /// A transposed 4x4 convolution with stride 2: the paper's.
    #[default]
    Transposed,
    /// Every pixel becomes four, then a 3x3 convolution: no checkerboards ("Deconvolution and Checkerboard Artifacts",
    /// Odena et al. 2016), and faster where transposed convolutions are slow.
    Resize,
}

/// 100 latent numbers, 64 features, colour: the paper's latent and PyTorch's example.
impl Default for DcganConfig {
    fn default() -> Self {
        Self { latent: 100, features: 64, channels: 3, upsampling: Upsampling::Transposed }
    }
}

impl DcganConfig {
    /// Side of the images.
    pub const IMAGE_SIZE: usize = 64;

    /// A generator on `device`, its convolutions zero until `kindling_layers::init` or a weights file fills them.
    pub fn generator(&self, device: &Device) -> DcganGenerator {
        DcganGenerator::new(self, device)
    }

    /// A discriminator on `device`, its convolutions zero until `kindling_layers::init` or a weights file fills them.
    pub fn discriminator(&self, device: &Device) -> DcganDiscriminator {
        DcganDiscriminator::new(self, device)
    }
}

/// Channels of the feature maps in units of `features`, from 4x4 to 32x32.
const WIDTHS: [usize; 4] = [8, 4, 2, 1];
