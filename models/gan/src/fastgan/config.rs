//! What makes a FastGAN.

/// Configuration of a FastGAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastGanConfig {
    /// Numbers of a latent vector.
    pub latent: usize,
    /// Channels of the map at 128x128, a multiple of 4: smaller maps have more, larger ones fewer.
    pub features: usize,
    /// Channels of the images: 1 for scans, 3 for colour.
    pub channels: usize,
    /// Side of the images, one of [`FastGanConfig::IMAGE_SIZES`].
    pub image_size: usize,
}

/// 256 latent numbers, 64 features, colour, 512x512: the authors' training script, but for its image size of 1024.
impl Default for FastGanConfig {
    fn default() -> Self {
        Self { latent: 256, features: 64, channels: 3, image_size: 512 }
    }
}

impl FastGanConfig {
    /// The image sizes there are networks for.
    pub const IMAGE_SIZES: [usize; 2] = [256, 512];

    /// Channels of the widest maps; every other width is this one divided.
    pub(crate) fn widest(&self) -> usize {
        16 * self.features
    }

    pub(super) fn check(&self) {
        let &Self { features, image_size, .. } = self;
        assert!(features > 0 && features.is_multiple_of(4), "{features} features are no multiple of 4");
        assert!(Self::IMAGE_SIZES.contains(&image_size), "no FastGAN for images of {image_size} pixels a side");
    }
}
