//! What PyTorch's example calls the layers: `main.N`, counting activations too.

use kindling_layers::names::Names;

use crate::dcgan::{DcganDiscriminator, DcganGenerator};

/// The names of the example's generator: convolution, normalisation and ReLU take three numbers a layer.
///
/// The example has transposed convolutions only; a generator with [`crate::Upsampling::Resize`] has its convolutions in
/// their places, with kernels of another shape.
pub fn dcgan_generator_names(network: &DcganGenerator) -> Names {
    let mut names = Names::default();
    let layers = network.layers.len();
    for index in 0..layers {
        names.conv_norm(&format!("layers.{index}"), &main(3 * index), &main(3 * index + 1));
    }
    names.plain("image", &main(3 * layers));
    names
}

/// The names of the example's discriminator: the same after a first layer without normalisation.
pub fn dcgan_discriminator_names(network: &DcganDiscriminator) -> Names {
    let mut names = Names::default();
    let layers = network.layers.len();
    names.plain("stem", &main(0));
    for index in 0..layers {
        names.conv_norm(&format!("layers.{index}"), &main(3 * index + 2), &main(3 * index + 3));
    }
    names.plain("score", &main(3 * layers + 2));
    names
}

fn main(number: usize) -> String {
    format!("main.{number}")
}
