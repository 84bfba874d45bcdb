//! A small generator and a small discriminator; how far two states are apart.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_data::HostBatch;
use kindling_layers::{
    Activation, BatchNorm, BatchNormConfig, Conv2d, Conv2dConfig, ConvTranspose2d, ConvTranspose2dConfig,
    Discriminator, Generator, Judgement, NoiseInjection, Upsample, init,
};
use kindling_random::{Purpose, rng};
use rand::RngExt;

pub(crate) const LATENT: usize = 5;
pub(crate) const SIZE: usize = 16;

/// From a pixel to 4x4, and twice doubled with noise.
#[derive(Module, Debug)]
pub(crate) struct ToyGenerator {
    project: ConvTranspose2d,
    norm: BatchNorm,
    conv: Conv2d,
    noise: NoiseInjection,
    image: Conv2d,
}

impl ToyGenerator {
    pub(crate) fn new(device: &Device) -> Self {
        let project = ConvTranspose2dConfig { input: LATENT, output: 8, kernel: 4, stride: 1, padding: 0 };
        let toy = Self {
            project: project.init(device),
            norm: BatchNormConfig::default().init(8, device),
            conv: Conv2dConfig::new(8, 8, 3, 1).init(device),
            noise: NoiseInjection::new(0, device),
            image: Conv2dConfig::new(8, 1, 3, 1).init(device),
        };
        init::initialise(toy, 5)
    }
}

impl Generator for ToyGenerator {
    fn forward(&self, latent: Tensor<2>) -> Tensor<4> {
        let [batch, width] = latent.dims();
        let maps = vec![latent.reshape([batch, width, 1, 1])];
        (0..self.segments()).fold(maps, |maps, index| self.run_segment(index, maps)).swap_remove(0)
    }

    fn segments(&self) -> usize {
        3
    }

    /// The first map goes on to the last segment, past the second.
    fn run_segment(&self, index: usize, mut maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        let double = Upsample { factor: 2 };
        match index {
            0 => {
                let x = self.norm.forward_then(self.project.forward(maps.remove(0)), Activation::Relu);
                vec![double.forward(x)]
            }
            1 => {
                let x = maps.remove(0);
                let y = self.noise.forward(Activation::Silu.forward(self.conv.forward(x.clone())));
                vec![y, x]
            }
            _ => {
                let skipped = maps.pop().expect("a segment before handed it on");
                let x = double.forward(maps.remove(0) + skipped);
                vec![Activation::Tanh.forward(self.image.forward(x))]
            }
        }
    }
}

/// Two halvings, normalisation, and scores of places.
#[derive(Module, Debug)]
pub(crate) struct ToyDiscriminator {
    stem: Conv2d,
    down: Conv2d,
    norm: BatchNorm,
    score: Conv2d,
}

impl ToyDiscriminator {
    pub(crate) fn new(device: &Device) -> Self {
        let toy = Self {
            stem: Conv2dConfig::halving(1, 4).init(device),
            down: Conv2dConfig::halving(4, 8).init(device),
            norm: BatchNormConfig::default().init(8, device),
            score: Conv2dConfig::valid(8, 1, 3).init(device),
        };
        init::initialise(toy, 6)
    }
}

impl Discriminator for ToyDiscriminator {
    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = Activation::LeakyRelu.forward(self.stem.forward(images));
        let x = self.norm.forward_then(self.down.forward(x), Activation::LeakyRelu);
        self.score.forward(x).flatten(1, 3)
    }

    fn judge(&self, images: Tensor<4>, choice: u64) -> Judgement {
        let scores = self.forward(images);
        // Something that depends on the batch's own choice.
        let wanted = (choice % 3) as f64;
        let reconstruction = scores.clone().sub_scalar(wanted).square().mean();
        Judgement { scores, reconstruction: Some(reconstruction) }
    }
}

/// Bright squares of different sizes.
pub(crate) fn batch(size: usize, index: usize) -> HostBatch {
    let mut images = Vec::with_capacity(size * SIZE * SIZE);
    for row in 0..size {
        let mut rng = rng(3, Purpose::Display, 1, (index * size + row) as u64);
        let side = 3 + (rng.random::<f32>() * 8.0) as usize;
        for place in 0..SIZE * SIZE {
            let inside = place / SIZE < side && place % SIZE < side;
            images.push(if inside { 0.8 } else { -0.8 } + 0.1 * rng.random::<f32>());
        }
    }
    HostBatch {
        images,
        shape: [size, 1, SIZE, SIZE],
        labels: vec![0; size],
        samples: (0..size).map(|row| (index * size + row) as u64).collect(),
        index,
        ..HostBatch::default()
    }
}
