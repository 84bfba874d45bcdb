//! What the authors' implementation calls the layers.
//!
//! Its files also hold layers that this FastGAN does not have (see [`crate::fastgan`]), and spectral normalisation's
//! tensors instead of some weights.

use kindling_layers::names::Names;

use crate::fastgan::{FastGanDecoder, FastGanDecoders, FastGanDiscriminator, FastGanGenerator};

/// The names of the generator: blocks and excitations are called by the size of the map they make.
pub fn fastgan_generator_names(network: &FastGanGenerator) -> Names {
    let mut names = Names::default();
    names.plain("project", "init.init.0");
    names.norm("norm", "init.init.1");
    for (index, block) in network.blocks.iter().enumerate() {
        block.names(&format!("blocks.{index}"), &format!("feat_{}", 8 << index), &mut names);
    }
    for (index, excitation) in network.excitations.iter().enumerate() {
        excitation.names(&format!("excitations.{index}"), &format!("se_{}", 64 << index), &mut names);
    }
    names.plain("image", "to_big");
    names
}

/// The names of the discriminator: blocks are called by what they divide the size of a 512x512 image by.
pub fn fastgan_discriminator_names(network: &FastGanDiscriminator) -> Names {
    let mut names = Names::default();
    names.plain("stem", "down_from_big.0");
    for (index, block) in network.blocks.iter().enumerate() {
        block.names(&format!("blocks.{index}"), &format!("down_{}", 4 << index), &mut names);
    }
    for (index, excitation) in network.excitations.iter().enumerate() {
        let reference = format!("se_{}_{}", 2 << index, 16 << index);
        excitation.names(&format!("excitations.{index}"), &reference, &mut names);
    }
    names.conv_norm("widen", "rf_big.0", "rf_big.1");
    names.plain("score", "rf_big.3");
    names
}

/// The names of the decoders, which are part of the discriminator there.
pub fn fastgan_decoders_names(decoders: &FastGanDecoders) -> Names {
    let mut names = Names::default();
    decoder_names(&decoders.whole, "whole", "decoder_big", &mut names);
    decoder_names(&decoders.part, "part", "decoder_part", &mut names);
    names
}

fn decoder_names(decoder: &FastGanDecoder, own: &str, reference: &str, names: &mut Names) {
    for (index, block) in decoder.blocks.iter().enumerate() {
        block.names(&format!("{own}.blocks.{index}"), &format!("{reference}.main.{}", index + 1), names);
    }
    names.plain(&format!("{own}.image"), &format!("{reference}.main.{}", decoder.blocks.len() + 1));
}
