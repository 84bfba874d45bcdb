//! Names of layers in other libraries.
//!
//! torchvision and timm build the same MobileNetV2, and write its weights under different keys. For each library that has a network,
//! the network's file maps its own layers to the library's names. Import and export of weights follow that map.

/// The library whose details a network follows. Libraries build the same network with different epsilons, momenta and paddings, and
/// their weights reproduce their outputs only with their own details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Library {
    /// torchvision, of PyTorch.
    Torchvision,
    /// timm, PyTorch Image Models.
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

/// The keys of a weights file, named after the library that writes them.
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
    /// `segmentation_models_pytorch`: `decoder.blocks.0.conv1.0.weight`.
    #[strum(to_string = "segmentation_models_pytorch")]
    Smp,
}

impl KeyStyle {
    /// Every style, in the order they are tried.
    pub const ALL: [Self; 4] = kindling_given::all();
}

/// The names of a layer that holds tensors, here and in a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerName {
    /// Path of the layer here.
    pub own: String,
    /// Path of the layer in the library.
    pub reference: String,
    /// Kind of the layer in the library.
    pub kind: LayerKind,
}

/// The kind of a layer in the library, which determines how its tensors are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// A convolution or linear layer, the same as here.
    Plain,
    /// A batch normalisation. Libraries also store the number of batches, as `num_batches_tracked`.
    Norm,
    /// A 1x1 convolution in the library and a linear layer here: its weight has two more axes of length one.
    Pointwise,
}

/// The layers of a network, here and in a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<LayerName>);

impl Names {
    fn add(&mut self, own: &str, reference: &str, kind: LayerKind) {
        self.0.push(LayerName { own: own.to_string(), reference: reference.to_string(), kind });
    }

    /// Adds a layer.
    pub fn push(&mut self, name: LayerName) {
        self.0.push(name);
    }

    /// Adds a convolution or linear layer.
    pub fn plain(&mut self, own: &str, reference: &str) {
        self.add(own, reference, LayerKind::Plain);
    }

    /// Adds a linear layer that is a 1x1 convolution in the library.
    pub fn pointwise(&mut self, own: &str, reference: &str) {
        self.add(own, reference, LayerKind::Pointwise);
    }

    /// Adds a batch normalisation.
    pub fn norm(&mut self, own: &str, reference: &str) {
        self.add(own, reference, LayerKind::Norm);
    }

    /// Adds a [`crate::ConvNorm`].
    pub fn conv_norm(&mut self, own: &str, conv: &str, norm: &str) {
        self.plain(&format!("{own}.conv"), conv);
        self.norm(&format!("{own}.norm"), norm);
    }

    /// Adds a [`crate::SqueezeExcite`] whose layers have the names `reduce` and `expand` in the library.
    pub fn squeeze_excite(&mut self, own: &str, reference: &str, [reduce, expand]: [&str; 2]) {
        self.pointwise(&format!("{own}.reduce"), &format!("{reference}.{reduce}"));
        self.pointwise(&format!("{own}.expand"), &format!("{reference}.{expand}"));
    }

    /// Adds a [`crate::SqueezeExcite`] with torchvision's names.
    pub fn torchvision_squeeze_excite(&mut self, own: &str, reference: &str) {
        self.squeeze_excite(own, reference, ["fc1", "fc2"]);
    }

    /// Adds a [`crate::SqueezeExcite`] with timm's names.
    pub fn timm_squeeze_excite(&mut self, own: &str, reference: &str) {
        self.squeeze_excite(own, reference, ["conv_reduce", "conv_expand"]);
    }

    /// The layers in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &LayerName> {
        self.0.iter()
    }
}

/// The convolutions of an inverted residual block, each with timm's names of the convolution and its normalisation. In timm, a block
/// without expansion is a `DepthwiseSeparableConv`, whose layers are numbered differently.
pub fn timm_inverted_residual(expands: bool) -> &'static [(&'static str, &'static str, &'static str)] {
    if expands {
        &[("expand", "conv_pw", "bn1"), ("depthwise", "conv_dw", "bn2"), ("project", "conv_pwl", "bn3")]
    } else {
        &[("depthwise", "conv_dw", "bn1"), ("project", "conv_pw", "bn2")]
    }
}
