//! What other implementations call a network's layers.
//!
//! A network is one thing with several names: torchvision and timm build the same MobileNetV2 and write its weights
//! under different keys. A network's file lists, for each library that has it, which of the library's names belongs to
//! which of its own layers; import and export of weights follow the list.

/// The implementation whose details a network follows. Libraries build the same network with other epsilons, momenta and
/// paddings; their weights give their outputs only with their details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Library {
    /// torchvision.
    Torchvision,
    /// timm.
    Timm,
    /// timm's networks for weights that come from TensorFlow (`tf_...`): its paddings and its epsilon.
    #[strum(to_string = "timm")]
    TimmTensorFlow,
}

impl Library {
    /// The keys this library writes weights under.
    pub fn keys(self) -> KeyStyle {
        match self {
            Self::Torchvision => KeyStyle::Torchvision,
            Self::Timm | Self::TimmTensorFlow => KeyStyle::Timm,
        }
    }
}

/// A library whose keys a weights file can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum KeyStyle {
    /// torchvision: `features.0.0.weight`.
    Torchvision,
    /// timm: `conv_stem.weight`.
    Timm,
    /// The package `efficientnet_lite_pytorch`: `_conv_stem.weight`.
    #[strum(to_string = "efficientnet_pytorch")]
    EfficientNetPytorch,
}

impl KeyStyle {
    /// Every style, in the order they are tried.
    pub const ALL: [Self; 3] = kindling_given::all();
}

/// A layer that holds tensors, here and in a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerName {
    /// Its path here.
    pub own: String,
    /// Its path there.
    pub reference: String,
    /// What it is there.
    pub kind: LayerKind,
}

/// What a layer is in the library, where that decides how its tensors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// A convolution or linear layer, the same as here.
    Plain,
    /// A batch normalisation; the libraries also count its batches, in `num_batches_tracked`.
    Norm,
    /// A 1x1 convolution where we have a linear layer: its weight has two more axes, of length one.
    Pointwise,
}

/// The layers of a network, here and in a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<LayerName>);

impl Names {
    fn add(&mut self, own: &str, reference: &str, kind: LayerKind) {
        self.0.push(LayerName { own: own.to_string(), reference: reference.to_string(), kind });
    }

    /// A convolution or linear layer.
    pub fn plain(&mut self, own: &str, reference: &str) {
        self.add(own, reference, LayerKind::Plain);
    }

    /// A linear layer that is a 1x1 convolution there.
    pub fn pointwise(&mut self, own: &str, reference: &str) {
        self.add(own, reference, LayerKind::Pointwise);
    }

    /// A batch normalisation.
    pub fn norm(&mut self, own: &str, reference: &str) {
        self.add(own, reference, LayerKind::Norm);
    }

    /// A [`crate::ConvNorm`].
    pub fn conv_norm(&mut self, own: &str, conv: &str, norm: &str) {
        self.plain(&format!("{own}.conv"), conv);
        self.norm(&format!("{own}.norm"), norm);
    }

    /// A [`crate::SqueezeExcite`] whose layers are called `reduce` and `expand` there.
    pub fn squeeze_excite(&mut self, own: &str, reference: &str, [reduce, expand]: [&str; 2]) {
        self.pointwise(&format!("{own}.reduce"), &format!("{reference}.{reduce}"));
        self.pointwise(&format!("{own}.expand"), &format!("{reference}.{expand}"));
    }

    /// A [`crate::SqueezeExcite`] of torchvision.
    pub fn torchvision_squeeze_excite(&mut self, own: &str, reference: &str) {
        self.squeeze_excite(own, reference, ["fc1", "fc2"]);
    }

    /// A [`crate::SqueezeExcite`] of timm.
    pub fn timm_squeeze_excite(&mut self, own: &str, reference: &str) {
        self.squeeze_excite(own, reference, ["conv_reduce", "conv_expand"]);
    }

    /// The layers in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &LayerName> {
        self.0.iter()
    }
}

/// The convolutions of an inverted residual block with the names of convolution and normalisation in timm, which calls the
/// block without expansion `DepthwiseSeparableConv` and counts its layers otherwise.
pub fn timm_inverted_residual(expands: bool) -> &'static [(&'static str, &'static str, &'static str)] {
    if expands {
        &[("expand", "conv_pw", "bn1"), ("depthwise", "conv_dw", "bn2"), ("project", "conv_pwl", "bn3")]
    } else {
        &[("depthwise", "conv_dw", "bn1"), ("project", "conv_pw", "bn2")]
    }
}
