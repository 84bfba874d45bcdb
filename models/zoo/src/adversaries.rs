//! One type for every generator of the zoo, and one for every discriminator.

use burn::module::Module;
use burn::tensor::Tensor;
use kindling_gan::{DcganDiscriminator, DcganGenerator, FastGanGenerator, SelfSupervisedDiscriminator};
use kindling_layers::trace::{Describe, FeatureMap, Trace, Value};
use kindling_layers::{Discriminator, Generator, Judgement};

/// A generator of the zoo. An enum rather than a trait object because Burn's modules are cloned, visited and mapped by type.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one a process
pub enum GanGenerator {
    /// DCGAN's.
    Dcgan(DcganGenerator),
    /// FastGAN's.
    FastGan(FastGanGenerator),
}

/// A discriminator of the zoo.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)] // one a process
pub enum GanDiscriminator {
    /// DCGAN's.
    Dcgan(DcganDiscriminator),
    /// FastGAN's, with its decoders.
    FastGan(SelfSupervisedDiscriminator),
}

impl GanGenerator {
    /// The layers for one latent vector of `latent` numbers.
    pub fn trace(&self, latent: usize) -> Trace {
        Trace::of(self, FeatureMap::vector(latent))
    }
}

impl Generator for GanGenerator {
    fn forward(&self, latent: Tensor<2>) -> Tensor<4> {
        match self {
            Self::Dcgan(network) => network.forward(latent),
            Self::FastGan(network) => network.forward(latent),
        }
    }

    fn segments(&self) -> usize {
        match self {
            Self::Dcgan(network) => Generator::segments(network),
            Self::FastGan(network) => Generator::segments(network),
        }
    }

    fn run_segment(&self, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        match self {
            Self::Dcgan(network) => Generator::run_segment(network, index, maps),
            Self::FastGan(network) => Generator::run_segment(network, index, maps),
        }
    }
}

impl Describe for GanGenerator {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        match self {
            Self::Dcgan(network) => network.describe(input, trace),
            Self::FastGan(network) => network.describe(input, trace),
        }
    }
}

impl Discriminator for GanDiscriminator {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        match self {
            Self::Dcgan(network) => network.forward(images),
            Self::FastGan(network) => Discriminator::forward(network, images),
        }
    }

    fn judge(&self, images: Tensor<4>, choice: u64) -> Judgement {
        match self {
            Self::Dcgan(network) => network.judge(images, choice),
            Self::FastGan(network) => network.judge(images, choice),
        }
    }
}
