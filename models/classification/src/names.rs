//! What other libraries call layers, as far as papers share it.

use kindling_layers::blocks::InvertedResidual;
use kindling_layers::names::{KeyStyle, Names};

use crate::network::Network;

/// Names the layers of a network; `None` if the library has the family, but not this member.
pub type Naming = fn(&Network) -> Option<Names>;

/// What libraries call the layers of a family's networks.
#[derive(Clone, Copy, Debug)]
pub struct LayerNames {
    /// timm, which has every classifier of the zoo.
    pub timm: Naming,
    /// torchvision, if it has the family.
    pub torchvision: Option<Naming>,
    /// The package `efficientnet_lite_pytorch`, if it has the family.
    pub efficientnet_pytorch: Option<Naming>,
}

impl LayerNames {
    /// A family that only timm has, in its `EfficientNet`, `MobileNetV3` or a class that names layers alike.
    pub(crate) const TIMM: Self =
        Self { timm: |network| Some(network.timm_names()), torchvision: None, efficientnet_pytorch: None };

    /// The names of a network's layers in a style, if the library has this network.
    pub fn of(&self, network: &Network, style: KeyStyle) -> Option<Names> {
        let naming = match style {
            KeyStyle::Timm => Some(self.timm),
            KeyStyle::Torchvision => self.torchvision,
            KeyStyle::EfficientNetPytorch => self.efficientnet_pytorch,
        };
        naming?(network)
    }
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
