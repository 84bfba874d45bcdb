//! Names of layers in other libraries, as far as several papers share them.

use kindling_layers::blocks::InvertedResidual;
use kindling_layers::names::{KeyStyle, Names};

use crate::network::Network;

/// Names the layers of a network; `None` if the library has the family, but not this member.
pub type Naming = fn(&Network) -> Option<Names>;

/// Names of the layers of a family's networks in each library.
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
    /// For a family that only timm has, in its `EfficientNet`, `MobileNetV3` or a class with the same names of layers.
    pub(crate) const TIMM: Self =
        Self { timm: |network| Some(network.timm_names()), torchvision: None, efficientnet_pytorch: None };

    /// The names of a network's layers in a library, if it has this network.
    pub fn of(&self, network: &Network, style: KeyStyle) -> Option<Names> {
        let naming = match style {
            KeyStyle::Timm => Some(self.timm),
            KeyStyle::Torchvision => self.torchvision,
            KeyStyle::EfficientNetPytorch => self.efficientnet_pytorch,
            KeyStyle::Smp => None,
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
    /// The part with the path `own` here, which is the sequence `reference` in the library.
    pub(crate) fn new(names: &'a mut Names, own: String, reference: String) -> Self {
        Self { names, own, reference, step: 0 }
    }

    /// The same sequence, beginning at a later step.
    pub(crate) fn starting_at(self, step: usize) -> Self {
        Self { step, ..self }
    }

    fn next(&mut self) -> String {
        self.step += 1;
        format!("{}.{}", self.reference, self.step - 1)
    }

    /// Adds convolution, normalisation and activation that are one step, which is a sequence itself.
    pub(crate) fn layer(&mut self, part: &str) {
        let step = self.next();
        self.names.conv_norm(&format!("{}.{part}", self.own), &format!("{step}.0"), &format!("{step}.1"));
    }

    /// Adds convolution and normalisation that are separate steps.
    pub(crate) fn two_steps(&mut self, part: &str) {
        let (conv, norm) = (self.next(), self.next());
        self.names.conv_norm(&format!("{}.{part}", self.own), &conv, &norm);
    }

    /// Adds convolution and normalisation, and skips an activation, that are separate steps.
    pub(crate) fn three_steps(&mut self, part: &str) {
        self.two_steps(part);
        self.step += 1;
    }

    /// Adds a squeeze-excite block that is one step.
    pub(crate) fn squeeze_excite(&mut self, part: &str) {
        let step = self.next();
        self.names.torchvision_squeeze_excite(&format!("{}.{part}", self.own), &step);
    }

    /// Adds the layers of an inverted residual block in the order that torchvision uses since MobileNetV3.
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
