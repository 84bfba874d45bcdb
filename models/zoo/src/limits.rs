//! The most that a model of the zoo takes.

/// The largest image side. With larger images, a single feature map exceeds four gigabytes.
pub(crate) const MAX_IMAGE_SIZE: usize = 8192;
/// The most channels of images.
pub(crate) const MAX_CHANNELS: usize = 1024;
/// The most classes of a head; the largest published set has 21,841.
pub(crate) const MAX_CLASSES: usize = 100_000;
