//! The networks as a trainer sees them.

use burn::module::Module;
use burn::tensor::Tensor;
use kindling_layers::precision::full;
use kindling_layers::{AveragePool, Discriminator, Generator, Judgement, mean};

use crate::dcgan::{DcganDiscriminator, DcganGenerator};
use crate::fastgan::{FastGanDecoders, FastGanDiscriminator, FastGanGenerator};

/// Side of the images that decoders make.
const DECODED: usize = 128;

impl Generator for DcganGenerator {
    fn forward(&self, latent: Tensor<2>) -> Tensor<4> {
        Self::forward(self, latent)
    }

    fn segments(&self) -> usize {
        Self::segments(self)
    }

    fn run_segment(&self, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        maps.into_iter().map(|x| Self::run_segment(self, index, x)).collect()
    }
}

impl Generator for FastGanGenerator {
    fn forward(&self, latent: Tensor<2>) -> Tensor<4> {
        Self::forward(self, latent)
    }

    fn segments(&self) -> usize {
        Self::segments(self)
    }

    fn run_segment(&self, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        Self::run_segment(self, index, maps)
    }
}

impl Discriminator for DcganDiscriminator {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        Self::forward(self, images)
    }
}

/// FastGAN's self-supervised discriminator, which is one with the decoders that it is trained with: on real images its maps
/// must hold what the images can be made again of (section 3.2). The paper measures the difference with a pretrained network;
/// here it is the mean absolute difference of the pixels.
#[derive(Module, Debug)]
pub struct SelfSupervisedDiscriminator {
    /// What gives the scores.
    pub discriminator: FastGanDiscriminator,
    /// What makes images of its maps.
    pub decoders: FastGanDecoders,
}

impl SelfSupervisedDiscriminator {
    /// A discriminator and decoders of the same configuration.
    pub fn new(discriminator: FastGanDiscriminator, decoders: FastGanDecoders) -> Self {
        Self { discriminator, decoders }
    }
}

impl Discriminator for SelfSupervisedDiscriminator {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        self.discriminator.forward(images)
    }

    fn judge(&self, images: Tensor<4>, choice: u64) -> Judgement {
        let features = self.discriminator.forward_features(images.clone());
        let quarter = (choice % 4) as usize;
        let [whole, part] = self.decoders.forward(&features, quarter);
        let half = images.dims()[2] / 2;
        let (row, column) = (quarter / 2, quarter % 2);
        let close = images.clone().narrow(2, row * half, half).narrow(3, column * half, half);
        let reconstruction = difference(whole, images) + difference(part, close);
        Judgement { scores: features.scores, reconstruction: Some(reconstruction) }
    }
}

/// The mean absolute difference of images that were made again and real ones, averaged to their size, `[1]`.
fn difference(made: Tensor<4>, real: Tensor<4>) -> Tensor<1> {
    let kernel = real.dims()[2] / DECODED;
    let real = if kernel > 1 { AveragePool { kernel }.forward(real) } else { real };
    mean((full(made) - full(real)).abs())
}

impl DcganGenerator {
    fn segments(&self) -> usize {
        self.layers.len() + 1
    }

    fn run_segment(&self, index: usize, x: Tensor<4>) -> Tensor<4> {
        match self.layers.get(index) {
            Some(layer) => layer.forward(x),
            None => kindling_layers::Activation::Tanh.forward(self.image.forward(x)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DcganConfig, FastGanConfig, pixel};
    use burn::tensor::{Device, TensorData};
    use kindling_layers::init::initialise_adversarial;
    use kindling_layers::pass::{TrainingPass, training};

    fn latent(batch: usize, width: usize) -> Tensor<2> {
        let values: Vec<f32> = (0..batch * width).map(|i| ((i * 37) % 23) as f32 / 11.0 - 1.0).collect();
        Tensor::from_data(TensorData::new(values, [batch, width]), &Device::flex())
    }

    fn segments_add_up(generator: &impl Generator, width: usize) {
        let (whole, _) = training(TrainingPass::whole_batch(2), || generator.forward(latent(2, width)));
        let maps = vec![pixel(latent(2, width))];
        let run = |maps, index| generator.run_segment(index, maps);
        let (parts, _) = training(TrainingPass::whole_batch(2), || (0..generator.segments()).fold(maps, run));
        assert_eq!(parts.len(), 1);
        whole.into_data().assert_eq(&parts[0].clone().into_data(), true);
    }

    #[test]
    fn the_segments_of_a_generator_compute_what_it_computes() {
        let device = Device::flex();
        let dcgan = DcganConfig { latent: 10, features: 4, channels: 1, ..DcganConfig::default() };
        segments_add_up(&initialise_adversarial(dcgan.generator(&device), 1, 0), 10);
        for image_size in FastGanConfig::IMAGE_SIZES {
            let fastgan = FastGanConfig { latent: 10, features: 4, channels: 1, image_size };
            segments_add_up(&initialise_adversarial(fastgan.generator(&device), 1, 0), 10);
        }
    }

    #[test]
    fn every_quarter_of_an_image_is_compared_with_itself() {
        let device = Device::flex();
        let config = FastGanConfig { latent: 10, features: 4, channels: 1, image_size: 256 };
        let discriminator = SelfSupervisedDiscriminator::new(config.discriminator(&device), config.decoders(&device));
        let discriminator = initialise_adversarial(discriminator, 1, 1);
        // Only the lower right quarter is not black: 0 after tanh is what an untrained decoder nearly says everywhere.
        let quarter = Tensor::<4>::ones([1, 1, 128, 128], &device).pad((128, 0, 128, 0), 0.0f32);
        let of = |choice| {
            let judged = discriminator.judge(quarter.clone(), choice);
            judged.reconstruction.expect("it is asked to").into_scalar::<f32>()
        };
        assert!((of(0) - 0.25).abs() < 0.05 && (of(3) - 1.25).abs() < 0.05, "{} {}", of(0), of(3));
        assert_eq!(of(7), of(3));
    }
}
