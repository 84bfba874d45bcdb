//! Networks whose decoder is one small part after an encoder.

use burn::module::Module;
use burn::tensor::Tensor;
use kindling_classification::AnyBlock;
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_layers::{Backbone, Checkpointing, Segmenter, describe_resized, pass, precision, resized};

use crate::decoder::Decoder;
use crate::fcn::Fcn;

/// An encoder, and a decoder whose logits are enlarged to the size of the images.
#[derive(Module, Debug)]
pub struct EncoderDecoder<D: Decoder> {
    /// From images to feature maps.
    pub encoder: Backbone<AnyBlock>,
    /// From feature maps to logits.
    pub decoder: D,
    /// torchvision's auxiliary classifier, which makes logits of the first map that is read. It only runs in a training pass, and its
    /// logits then lie behind those of the decoder.
    pub auxiliary: Option<Fcn>,
}

impl<D: Decoder> EncoderDecoder<D> {
    /// Adds the names of all layers but the encoder's in the library that has the network.
    pub(crate) fn decoder_names(&self, names: &mut Names) {
        self.decoder.names(names);
        if let Some(auxiliary) = &self.auxiliary {
            auxiliary.names_in("auxiliary", "aux_classifier", names);
        }
    }
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
        let enlarged = |logits: Tensor<4>| resized(precision::full(logits), [height, width], D::ENLARGED);
        let maps: Vec<Tensor<4>> = maps.collect();
        let auxiliary = self.auxiliary.as_ref().filter(|_| pass::is_training()).zip(maps.first().cloned());
        let logits = enlarged(self.decoder.forward(maps));
        match auxiliary {
            Some((auxiliary, map)) => vec![Tensor::cat(vec![logits, enlarged(auxiliary.forward(vec![map]))], 1)],
            None => vec![logits],
        }
    }

    fn finish(&self, logits: Tensor<4>) -> Tensor<4> {
        logits
    }
}

/// The forward pass of a network that can be divided: its segments one after the other.
pub(crate) fn through_segments(network: &impl Segmenter, images: Tensor<4>) -> Tensor<4> {
    let stages = Checkpointing::Stages;
    let mut maps =
        (0..network.segments(stages)).fold(vec![images], |maps, index| network.run_segment(stages, index, maps));
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
    /// What runs in training: with the auxiliary classifier, if there is one.
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let maps = trace.scope("encoder", |trace| self.encoder.describe_features(input, trace));
        let logits = trace.scope("decoder", |trace| self.decoder.describe(&maps, trace));
        let size = [input.map.height, input.map.width];
        let logits = trace.scope("enlarge", |trace| describe_resized(logits, size, D::ENLARGED, trace));
        let Some((auxiliary, map)) = self.auxiliary.as_ref().zip(maps.first()) else { return logits };
        trace.scope("auxiliary", |trace| {
            let x = auxiliary.describe(&[*map], trace);
            let x = trace.scope("enlarge", |trace| describe_resized(x, size, D::ENLARGED, trace));
            let channels = logits.map.channels + x.map.channels;
            trace.apply("concat", Op::Concat, &[logits, x], FeatureMap { channels, ..logits.map })
        })
    }
}
