//! What papers share of the names that other libraries give to layers.

use kindling_layers::blocks::InvertedResidual;
use kindling_layers::names::{KeyStyle, Names};

use crate::network::Network;

/// The names of a network that only timm has.
pub(crate) fn timm_only(network: &Network, style: KeyStyle) -> Option<Names> {
    (style == KeyStyle::Timm).then(|| network.timm_names())
}

/// A part of a network whose layers are numbered steps of a sequence in torchvision.
pub(crate) struct Sequence<'a> {
    names: &'a mut Names,
    own: String,
    reference: String,
    step: usize,
}

impl<'a> Sequence<'a> {
    /// The part `own` here, which is the sequence `reference` there.
    pub(crate) fn new(names: &'a mut Names, own: String, reference: String) -> Self {
        Self { names, own, reference, step: 0 }
    }

    /// The same sequence after some steps that are not of this part.
    pub(crate) fn starting_at(self, step: usize) -> Self {
        Self { step, ..self }
    }

    fn next(&mut self) -> String {
        self.step += 1;
        format!("{}.{}", self.reference, self.step - 1)
    }

    /// Convolution, normalisation and activation as one step, a sequence itself.
    pub(crate) fn layer(&mut self, part: &str) {
        let step = self.next();
        self.names.conv_norm(&format!("{}.{part}", self.own), &format!("{step}.0"), &format!("{step}.1"));
    }

    /// Convolution and normalisation as a step each.
    pub(crate) fn two_steps(&mut self, part: &str) {
        let (conv, norm) = (self.next(), self.next());
        self.names.conv_norm(&format!("{}.{part}", self.own), &conv, &norm);
    }

    /// Convolution, normalisation and activation as a step each; an activation holds no tensors.
    pub(crate) fn three_steps(&mut self, part: &str) {
        self.two_steps(part);
        self.step += 1;
    }

    /// Squeeze-excite as one step.
    pub(crate) fn squeeze_excite(&mut self, part: &str) {
        let step = self.next();
        self.names.torchvision_squeeze_excite(&format!("{}.{part}", self.own), &step);
    }

    /// The layers of an inverted residual block as torchvision has had them since MobileNetV3.
    pub(crate) fn inverted_residual(&mut self, block: &InvertedResidual) {
        if block.expand.is_some() {
            self.layer("expand");
        }
        self.layer("depthwise");
        if block.squeeze_excite.is_some() {
            self.squeeze_excite("squeeze_excite");
        }
        self.layer("project");
    }
}
