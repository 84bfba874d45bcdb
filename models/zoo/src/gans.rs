//! The GANs of the zoo: generators with their discriminators.

use burn::tensor::Device;
use kindling_gan::{DcganConfig, FastGanConfig, SelfSupervisedDiscriminator, Upsampling};
use kindling_layers::init::initialise_adversarial;
use kindling_layers::trace::{FeatureMap, Trace};

use crate::adversaries::{GanDiscriminator, GanGenerator};

/// A generator and its discriminator.
#[derive(Clone, Copy, Debug)]
pub struct GanEntry {
    /// What [`find_gan`] finds it by: the architecture and the side of its images, as `dcgan_64`.
    pub name: &'static str,
    /// Authors, year and address of the paper.
    pub paper: &'static str,
    /// The implementation that its numbers are compared with.
    pub reference: &'static str,
    /// What it is, in a few words for a list.
    pub about: &'static str,
    /// Side of the generated images, in pixels.
    pub image_size: usize,
    /// Length of a latent vector.
    pub latent: usize,
    kind: Kind,
}

/// What a GAN of the zoo is built for: its images and its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GanOptions {
    /// Channels of the images: 1 for scans, 3 for colour.
    pub channels: usize,
    /// The base width: the width of every layer is a multiple of it. 64 in both papers.
    pub features: usize,
    /// How DCGAN's generator upsamples; FastGAN always resizes.
    pub upsampling: Upsampling,
    /// Seed of the initial weights.
    pub seed: u64,
}

impl GanOptions {
    /// The width and the upsampling of the papers.
    pub fn new(channels: usize, seed: u64) -> Self {
        Self { channels, features: 64, upsampling: Upsampling::Transposed, seed }
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Dcgan,
    FastGan,
}

/// Every GAN, in the order it is listed.
pub const GANS: &[GanEntry] = &[
    GanEntry {
        name: "dcgan_64",
        paper: "Radford et al. 2015, https://arxiv.org/abs/1511.06434",
        reference: "pytorch/examples dcgan",
        about: "generator and discriminator of 64x64 images, transposed convolutions",
        image_size: DcganConfig::IMAGE_SIZE,
        latent: 100,
        kind: Kind::Dcgan,
    },
    GanEntry {
        name: "fastgan_512",
        paper: "Liu et al. 2021, https://arxiv.org/abs/2101.04775",
        reference: "the paper, and torch operations in models/gan/tests/golden/gan.py",
        about: "generator and discriminator of 512x512 images, skip-layer excitation",
        image_size: 512,
        latent: 256,
        kind: Kind::FastGan,
    },
];

/// A GAN by its name.
///
/// # Errors
/// A sentence that lists the GANs of the zoo.
pub fn find_gan(name: &str) -> Result<&'static GanEntry, String> {
    GANS.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<&str> = GANS.iter().map(|entry| entry.name).collect();
        format!("there is no GAN `{name}`; those of the zoo are {}", known.join(" and "))
    })
}

/// The layers of both networks.
#[derive(Clone, Debug)]
pub struct GanTraces {
    /// From a latent vector to an image.
    pub generator: Trace,
    /// From an image to scores.
    pub discriminator: Trace,
}

impl GanEntry {
    /// The generator with the initial weights of the options' seed.
    ///
    /// # Panics
    /// If the features of a FastGAN are not a multiple of 4.
    pub fn generator(&self, options: &GanOptions, device: &Device) -> GanGenerator {
        let network = match self.kind {
            Kind::Dcgan => GanGenerator::Dcgan(self.dcgan(options).generator(device)),
            Kind::FastGan => GanGenerator::FastGan(self.fastgan(options).generator(device)),
        };
        initialise_adversarial(network, options.seed, 0)
    }

    /// The discriminator with the initial weights of the options' seed; FastGAN's with its decoders.
    ///
    /// # Panics
    /// As [`GanEntry::generator`].
    pub fn discriminator(&self, options: &GanOptions, device: &Device) -> GanDiscriminator {
        let network = match self.kind {
            Kind::Dcgan => GanDiscriminator::Dcgan(self.dcgan(options).discriminator(device)),
            Kind::FastGan => {
                let config = self.fastgan(options);
                GanDiscriminator::FastGan(SelfSupervisedDiscriminator::new(
                    config.discriminator(device),
                    config.decoders(device),
                ))
            }
        };
        initialise_adversarial(network, options.seed, 1)
    }

    fn dcgan(&self, options: &GanOptions) -> DcganConfig {
        let &GanOptions { channels, features, upsampling, .. } = options;
        DcganConfig { latent: self.latent, features, channels, upsampling }
    }

    fn fastgan(&self, options: &GanOptions) -> FastGanConfig {
        let &GanOptions { channels, features, .. } = options;
        FastGanConfig { latent: self.latent, features, channels, image_size: self.image_size }
    }

    /// The layers of both networks for images of this many channels.
    pub fn traces(&self, channels: usize) -> GanTraces {
        let device = Device::flex();
        let latent = FeatureMap::vector(self.latent);
        let image = FeatureMap::square(channels, self.image_size);
        match self.kind {
            Kind::Dcgan => {
                let config = DcganConfig { latent: self.latent, channels, ..DcganConfig::default() };
                GanTraces {
                    generator: Trace::of(&config.generator(&device), latent),
                    discriminator: Trace::of(&config.discriminator(&device), image),
                }
            }
            Kind::FastGan => {
                let image_size = self.image_size;
                let config = FastGanConfig { latent: self.latent, channels, image_size, ..FastGanConfig::default() };
                GanTraces {
                    generator: Trace::of(&config.generator(&device), latent),
                    discriminator: Trace::of(&config.discriminator(&device), image),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters with 64 features and 3 channels: DCGAN's are those of PyTorch's example.
    #[test]
    fn gans_have_their_references_parameters() {
        let counts = |name: &str| {
            let entry = GANS.iter().find(|entry| entry.name == name).expect("a listed GAN");
            let traces = entry.traces(3);
            (traces.generator.params(), traces.discriminator.params())
        };
        assert_eq!(counts("dcgan_64"), (3_576_704, 2_765_568));
        assert_eq!(counts("fastgan_512").0, 29_174_200);
    }
}
