//! One trace serves everything that counts.
//!
//! Every block describes itself for an input shape: name, kind, output shape, parameters, multiply-adds. Tables,
//! parameter counts and (later) the memory planner are read from this one list.

/// The shape of one image's feature map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureMap {
    /// Channels.
    pub channels: usize,
    /// Height in pixels.
    pub height: usize,
    /// Width in pixels.
    pub width: usize,
}

impl FeatureMap {
    /// A square map.
    pub fn square(channels: usize, size: usize) -> Self {
        Self { channels, height: size, width: size }
    }

    /// Elements of one image.
    pub fn elements(&self) -> u64 {
        (self.channels * self.height * self.width) as u64
    }
}

/// One primitive layer of a trace, for one image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerTrace {
    /// Dotted path of the layer in the model, as in its weights file.
    pub name: String,
    /// What it is: `conv 3x3`, `depthwise 5x5`, `batch norm`, `linear`, ...
    pub kind: String,
    /// What it hands on.
    pub output: FeatureMap,
    /// Trainable parameters.
    pub params: u64,
    /// Multiply-adds of convolutions and linear layers.
    pub macs: u64,
    /// Elements of the outputs of convolutions and linear layers.
    pub activations: u64,
}

/// The layers of a model in the order they run, for one image of a given shape.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The primitive layers.
    pub layers: Vec<LayerTrace>,
    path: Vec<String>,
}

impl Trace {
    /// Runs `body` with `name` added to the path.
    pub fn scope<R>(&mut self, name: impl Into<String>, body: impl FnOnce(&mut Self) -> R) -> R {
        self.path.push(name.into());
        let result = body(self);
        self.path.pop();
        result
    }

    /// Adds a primitive layer at the current path.
    pub fn push(&mut self, kind: impl Into<String>, output: FeatureMap, params: u64, macs: u64, activations: u64) {
        let name = self.path.join(".");
        self.layers.push(LayerTrace { name, kind: kind.into(), output, params, macs, activations });
    }

    /// Trainable parameters of the model.
    pub fn params(&self) -> u64 {
        self.layers.iter().map(|layer| layer.params).sum()
    }

    /// Multiply-adds for one image.
    pub fn macs(&self) -> u64 {
        self.layers.iter().map(|layer| layer.macs).sum()
    }

    /// Elements of convolution and linear outputs for one image.
    pub fn activations(&self) -> u64 {
        self.layers.iter().map(|layer| layer.activations).sum()
    }
}

/// A block that can describe itself.
pub trait Describe {
    /// Adds this block's layers for an input of shape `input` and returns the shape of its output.
    fn describe(&self, input: FeatureMap, trace: &mut Trace) -> FeatureMap;
}
