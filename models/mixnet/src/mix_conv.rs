//! A convolution whose channels are divided among several.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use kindling_layers::names::Names;
use kindling_layers::trace::{Describe, FeatureMap, Op, Trace, Value};
use kindling_layers::{Activation, BatchNorm, BatchNormConfig, Conv, ConvConfig, Map, Padding};

/// Configuration of a [`MixConv`].
#[derive(Clone, Debug, PartialEq)]
pub struct MixConvConfig {
    /// Input channels.
    pub input: usize,
    /// Output channels.
    pub output: usize,
    /// Side of the kernel of each part.
    pub kernels: Vec<usize>,
    /// Stride of every part.
    pub stride: usize,
    /// One filter a channel instead of all of a part's channels to all.
    pub depthwise: bool,
    /// Zeros around the input.
    pub padding: Padding,
    /// Normalisation over all parts.
    pub norm: BatchNormConfig,
    /// Applied last.
    pub activation: Activation,
}

impl MixConvConfig {
    /// A block on `device`.
    pub fn init(&self, device: &Device) -> MixConv {
        let parts = self.kernels.len();
        let sizes = split(self.input, parts).into_iter().zip(split(self.output, parts));
        let part = |((input, output), &kernel)| {
            let (stride, depthwise, padding) = (self.stride, self.depthwise, self.padding);
            ConvConfig { depthwise, padding, ..ConvConfig::dense(input, output, kernel, stride) }.init(device)
        };
        MixConv {
            parts: sizes.zip(&self.kernels).map(part).collect(),
            norm: self.norm.init(self.output, device),
            inputs: split(self.input, parts),
            activation: self.activation,
        }
    }
}

/// `channels` in `parts` as even as possible, the first one with what is left over.
fn split(channels: usize, parts: usize) -> Vec<usize> {
    let even = channels / parts;
    (0..parts).map(|part| if part == 0 { channels - even * (parts - 1) } else { even }).collect()
}

/// Convolutions of parts of the channels, each with a kernel of its own, one normalisation over all of them, and an
/// activation (section 3.1: MDConv where depthwise).
#[derive(Module, Debug)]
pub struct MixConv {
    /// The convolution of each part.
    pub parts: Vec<Conv>,
    /// Over all channels.
    pub norm: BatchNorm,
    #[module(skip)]
    inputs: Vec<usize>,
    #[module(skip)]
    activation: Activation,
}

impl MixConv {
    /// `[batch, input, height, width]` to `[batch, output, ceil(height / stride), ceil(width / stride)]`.
    pub fn pass(&self, x: Map) -> Map {
        let x = match self.parts.as_slice() {
            [single] => single.read(x),
            parts => {
                let (x, mut start) = (x.whole(), 0);
                let mut part = |(conv, &channels): (&Conv, &usize)| {
                    let input = x.clone().narrow(1, start, channels);
                    start += channels;
                    conv.forward(input)
                };
                Tensor::cat(parts.iter().zip(&self.inputs).map(&mut part).collect(), 1)
            }
        };
        self.norm.then(x, self.activation)
    }

    /// Whether the input has to be whole, because parts are taken out of it.
    pub(crate) fn needs_whole(&self) -> bool {
        self.parts.len() > 1
    }

    /// timm's names: parts are numbered if there are several.
    pub(crate) fn timm_names(&self, own: &str, conv: &str, norm: &str, names: &mut Names) {
        for index in 0..self.parts.len() {
            let reference = if self.parts.len() == 1 { conv.to_string() } else { format!("{conv}.{index}") };
            names.plain(&format!("{own}.parts.{index}"), &reference);
        }
        names.norm(&format!("{own}.norm"), norm);
    }
}

impl Describe for MixConv {
    fn describe(&self, input: Value, trace: &mut Trace) -> Value {
        let mut start = 0;
        let mut outputs = Vec::new();
        for (index, (conv, &channels)) in self.parts.iter().zip(&self.inputs).enumerate() {
            outputs.push(trace.scope(format!("parts.{index}"), |trace| {
                let map = FeatureMap { channels, ..input.map };
                let part = match self.parts.len() {
                    1 => input,
                    _ => trace.apply("take", Op::Slice { start, end: start + channels }, &[input], map),
                };
                conv.describe(part, trace)
            }));
            start += channels;
        }
        let whole = match outputs.as_slice() {
            [single] => *single,
            parts => {
                let channels = parts.iter().map(|part| part.map.channels).sum();
                trace.apply("concat", Op::Concat, parts, FeatureMap { channels, ..parts[0].map })
            }
        };
        let normalised = trace.scope("norm", |trace| self.norm.describe(whole, trace));
        trace.activation(self.activation, normalised)
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn channels_are_divided_as_timm_divides_them() {
        assert_eq!(split(240, 3), [80, 80, 80]);
        assert_eq!(split(200, 3), [68, 66, 66]);
        assert_eq!(split(7, 1), [7]);
    }
}
