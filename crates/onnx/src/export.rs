//! What a file says about its network.

use std::collections::BTreeMap;

/// Names and notes in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export<'a> {
    /// The graph's name.
    pub model_name: &'a str,
    /// The name of the input, `[batch, channels, height, width]`, or `[batch, channels]` if the input of the trace is a map of one pixel.
    pub input_name: &'a str,
    /// The name of the output, `[batch, channels]` if the output of the trace is a map of one pixel, otherwise
    /// `[batch, channels, height, width]`.
    pub output_name: &'a str,
    /// Notes for readers of the file: classes, preprocessing of the input, origin of the weights.
    pub metadata: BTreeMap<String, String>,
}

impl<'a> Export<'a> {
    /// From `images` to `logits`, without notes.
    pub fn classifier(model_name: &'a str) -> Self {
        Self { model_name, input_name: "images", output_name: "logits", metadata: BTreeMap::new() }
    }
}
