//! The generators with their discriminators.

use burn::tensor::Device;
use kindling_gan::{DcganConfig, FastGanConfig};
use kindling_layers::trace::{FeatureMap, Trace};

/// A generator and its discriminator.
#[derive(Clone, Copy, Debug)]
pub struct GanEntry {
    /// Its name.
    pub name: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// The implementation its numbers are compared with.
    pub reference: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Side of the images it makes.
    pub image_size: usize,
    /// Numbers of a latent vector.
    pub latent: usize,
    kind: Kind,
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

/// The layers of both networks.
#[derive(Clone, Debug)]
pub struct GanTraces {
    /// From a latent vector to an image.
    pub generator: Trace,
    /// From an image to scores.
    pub discriminator: Trace,
}

impl GanEntry {
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
