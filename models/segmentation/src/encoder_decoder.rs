//! Networks whose decoder is one small part after an encoder.

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Tensor;
use kindling_classification::AnyBlock;
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, Trace, Value};
use kindling_layers::{Backbone, Checkpointing, Interpolation, Segmenter, describe_resized, precision, resized};

/// What makes logits of an encoder's feature maps.
pub trait Decoder: Module + ModuleDisplay {
    /// How logits are enlarged to the size of the images.
    const ENLARGED: Interpolation;

    /// Maps `[batch, channels, height, width]`, finest first, to logits `[batch, classes, height, width]` of any height and width.
    fn forward(&self, maps: Vec<Tensor<4>>) -> Tensor<4>;

    /// Describes [`Decoder::forward`].
    fn describe(&self, maps: &[Value], trace: &mut Trace) -> Value;

    /// Adds the names of its layers in the library that has the network.
    fn names(&self, names: &mut Names);
}

/// An encoder, and a decoder whose logits are enlarged to the size of the images.
#[derive(Module, Debug)]
pub struct EncoderDecoder<D: Decoder> {
    /// From images to feature maps.
    pub encoder: Backbone<AnyBlock>,
    /// From feature maps to logits.
    pub decoder: D,
}

impl<D: Decoder> Segmenter for EncoderDecoder<D> {
    /// Height and width may be any numbers.
    fn forward(&self, images: Tensor<4>) -> Tensor<4> {
        through_segments(self, images)
    }

    fn segments(&self, checkpointing: Checkpointing) -> usize {
        match checkpointing {
            Checkpointing::None => 0,
            level => self.encoder.segments(level) + 1,
        }
    }

    /// Between segments there are the images, whose size the last one needs, and maps of the encoder.
    fn run_segment(&self, checkpointing: Checkpointing, index: usize, maps: Vec<Tensor<4>>) -> Vec<Tensor<4>> {
        if index < self.encoder.segments(checkpointing) {
            return run_encoder(&self.encoder, checkpointing, index, maps);
        }
        let mut maps = maps.into_iter();
        let Some(images) = maps.next() else { return Vec::new() };
        let [.., height, width] = images.dims();
        let logits = precision::full(self.decoder.forward(maps.collect()));
        vec![resized(logits, [height, width], D::ENLARGED)]
    }

    fn finish(&self, logits: Tensor<4>) -> Tensor<4> {
        logits
    }
}

/// The forward pass of a network that can be divided: its segments one after the other.
pub(crate) fn through_segments(network: &impl Segmenter, images: Tensor<4>) -> Tensor<4> {
    let blocks = Checkpointing::Blocks;
    let mut maps =
        (0..network.segments(blocks)).fold(vec![images], |maps, index| network.run_segment(blocks, index, maps));
    network.finish(maps.swap_remove(0))
}

/// Runs segment `index` of an encoder, beside the images that it began with, which stay the first of all maps.
pub(crate) fn run_encoder(
    encoder: &Backbone<AnyBlock>,
    checkpointing: Checkpointing,
    index: usize,
    mut maps: Vec<Tensor<4>>,
) -> Vec<Tensor<4>> {
    let images = maps[0].clone();
    if index > 0 {
        maps.remove(0);
    }
    let mut made = encoder.run_segment(checkpointing, index, maps);
    made.insert(0, images);
    made
}

impl<D: Decoder> Describe for EncoderDecoder<D> {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let maps = trace.scope("encoder", |trace| self.encoder.describe_features(input, trace));
        let logits = trace.scope("decoder", |trace| self.decoder.describe(&maps, trace));
        let size = [input.map.height, input.map.width];
        trace.scope("enlarge", |trace| describe_resized(logits, size, D::ENLARGED, trace))
    }
}
