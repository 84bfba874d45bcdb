//! The tensors of a network's last layer by name: those that another number of classes replaces.

/// Those of a classifier.
pub(crate) const HEAD: [&str; 2] = ["head.classifier.weight", "head.classifier.bias"];
/// Those of a network for segmentation: U-Net's, those of the other decoders, those of Lite R-ASPP, which has two, and those of the
/// auxiliary classifier.
pub(crate) const SEGMENTATION_HEAD: [&str; 10] = [
    "head.weight",
    "head.bias",
    "decoder.head.weight",
    "decoder.head.bias",
    "decoder.low.weight",
    "decoder.low.bias",
    "decoder.high.weight",
    "decoder.high.bias",
    "auxiliary.head.weight",
    "auxiliary.head.bias",
];
