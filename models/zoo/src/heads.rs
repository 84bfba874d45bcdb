//! The tensors of a network's last layer by name: those that another number of classes replaces.

/// Those of a classifier.
pub(crate) const HEAD: [&str; 2] = ["head.classifier.weight", "head.classifier.bias"];
/// Those of a network for segmentation.
pub(crate) const SEGMENTATION_HEAD: [&str; 2] = ["head.weight", "head.bias"];
