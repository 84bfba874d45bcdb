//! What a policy consists of, and the policies that have a name.

use serde::{Deserialize, Serialize};

use crate::error::DataError;
use kindling_given::within;

/// How much of each change a training image gets. What is absent or 0 is not done; the defaults do nothing.
///
/// The defaults are medical: a scan has a side that is up, and often one that is left, so nothing is turned over or
/// upside down unless asked for. (The named policies do mirror left and right.)
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Probability of being mirrored left to right, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub flip: f32,
    /// Probability of being turned upside down by a mirror, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub vertical_flip: f32,
    /// Largest rotation either way, 0 to 180 degrees.
    #[serde(skip_serializing_if = "is_zero")]
    pub rotate: f32,
    /// Largest change of size, as a share of it, 0 to 0.9: 0.1 gives 90 to 110 %.
    #[serde(skip_serializing_if = "is_zero")]
    pub scale: f32,
    /// Largest shift either way, as a share of the side, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub translate: f32,
    /// Largest shear either way, 0 to 60 degrees.
    #[serde(skip_serializing_if = "is_zero")]
    pub shear: f32,
    /// Largest change of brightness either way, 0 to 1, of values in `[0, 1]`.
    #[serde(skip_serializing_if = "is_zero")]
    pub brightness: f32,
    /// Largest change of contrast about the mean, as a share, 0 to 1.
    #[serde(skip_serializing_if = "is_zero")]
    pub contrast: f32,
    /// Largest change of gamma, 0 to 10: 0.25 gives exponents from 1 / 1.25 to 1.25.
    #[serde(skip_serializing_if = "is_zero")]
    pub gamma: f32,
    /// Mixup (Zhang et al. 2018): the `alpha` of its beta distribution, 0 to 100. Both images' classes share the target.
    #[serde(skip_serializing_if = "is_zero")]
    pub mixup: f32,
    /// CutMix (Yun et al. 2019): the `alpha` of its beta distribution, 0 to 100. With mixup as well, each image gets
    /// either.
    #[serde(skip_serializing_if = "is_zero")]
    pub cutmix: f32,
    /// Probability that an image is mixed at all, 0 to 1, where there is mixup or cutmix; 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix_probability: Option<f32>,
    /// A smooth random deformation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Elastic>,
    /// Noise on every pixel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Gaussian blur.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blur: Option<Blur>,
    /// A square without content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutout: Option<Cutout>,
}

/// A smooth random deformation: cubic B-splines between random shifts of a coarse grid.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Elastic {
    /// Of being deformed, 0 to 1.
    pub probability: f32,
    /// Largest shift of a grid point, as a share of the side, 0 to 0.5.
    pub strength: f32,
    /// Cells of the grid along a side, 2 to 64: more make smaller waves.
    pub cells: usize,
}

/// Noise: close to normal, cut off at 3.5 deviations, another one for every channel.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Of having noise, 0 to 1.
    pub probability: f32,
    /// Largest standard deviation, 0 to 1, of values in `[0, 1]`; drawn evenly from 0 on.
    pub deviation: f32,
}

/// Gaussian blur.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Blur {
    /// Of being blurred, 0 to 1.
    pub probability: f32,
    /// Largest standard deviation in pixels, up to 16; drawn evenly from 0 on.
    pub sigma: f32,
}

/// A square of the image's mean (DeVries and Taylor 2017).
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct Cutout {
    /// Of having such a square, 0 to 1.
    pub probability: f32,
    /// Its side as a share of the image's, 0 to 1.
    pub size: f32,
}

impl Policy {
    /// Does nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// [`Augment::Light`](crate::Augment::Light).
    pub fn light() -> Self {
        Self {
            flip: 0.5,
            translate: 0.04,
            rotate: 10.0,
            scale: 0.1,
            brightness: 0.05,
            contrast: 0.1,
            ..Self::default()
        }
    }

    /// [`Augment::Medium`](crate::Augment::Medium).
    pub fn medium() -> Self {
        Self {
            flip: 0.5,
            translate: 0.06,
            rotate: 15.0,
            scale: 0.15,
            shear: 5.0,
            brightness: 0.1,
            contrast: 0.2,
            gamma: 0.2,
            elastic: Some(Elastic { probability: 0.2, strength: 0.015, cells: 6 }),
            noise: Some(Noise { probability: 0.3, deviation: 0.02 }),
            blur: Some(Blur { probability: 0.15, sigma: 1.0 }),
            ..Self::default()
        }
    }

    /// [`Augment::Heavy`](crate::Augment::Heavy).
    pub fn heavy() -> Self {
        Self {
            flip: 0.5,
            translate: 0.1,
            rotate: 25.0,
            scale: 0.25,
            shear: 10.0,
            brightness: 0.15,
            contrast: 0.3,
            gamma: 0.4,
            elastic: Some(Elastic { probability: 0.4, strength: 0.025, cells: 8 }),
            noise: Some(Noise { probability: 0.5, deviation: 0.04 }),
            blur: Some(Blur { probability: 0.25, sigma: 1.5 }),
            cutout: Some(Cutout { probability: 0.3, size: 0.25 }),
            mixup: 0.2,
            cutmix: 1.0,
            mix_probability: Some(0.5),
            ..Self::default()
        }
    }

    /// Whether images are mixed with others of their batch.
    pub fn mixes(&self) -> bool {
        self.mixup > 0.0 || self.cutmix > 0.0
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`DataError::Policy`] with the first value that cannot be.
    pub fn check(&self) -> Result<(), DataError> {
        let Self { elastic, noise, blur, cutout, .. } = self;
        let refused = |what| DataError::Policy { what };
        let values = [
            ("flip", Some(self.flip), 1.0),
            ("vertical_flip", Some(self.vertical_flip), 1.0),
            ("rotate", Some(self.rotate), 180.0),
            ("scale", Some(self.scale), 0.9),
            ("translate", Some(self.translate), 1.0),
            ("shear", Some(self.shear), 60.0),
            ("brightness", Some(self.brightness), 1.0),
            ("contrast", Some(self.contrast), 1.0),
            ("gamma", Some(self.gamma), 10.0),
            ("mixup", Some(self.mixup), 100.0),
            ("cutmix", Some(self.cutmix), 100.0),
            ("mix_probability", self.mix_probability, 1.0),
            ("elastic.probability", elastic.map(|elastic| elastic.probability), 1.0),
            ("elastic.strength", elastic.map(|elastic| elastic.strength), 0.5),
            ("noise.probability", noise.map(|noise| noise.probability), 1.0),
            ("noise.deviation", noise.map(|noise| noise.deviation), 1.0),
            ("blur.probability", blur.map(|blur| blur.probability), 1.0),
            ("blur.sigma", blur.map(|blur| blur.sigma), 16.0),
            ("cutout.probability", cutout.map(|cutout| cutout.probability), 1.0),
            ("cutout.size", cutout.map(|cutout| cutout.size), 1.0),
        ];
        for (name, value, most) in values {
            value.map_or(Ok(()), |value| within(name, value, 0.0..=most)).map_err(refused)?;
        }
        elastic.map_or(Ok(()), |elastic| within("elastic.cells", elastic.cells, 2..=64)).map_err(refused)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(value: &f32) -> bool {
    *value == 0.0
}
