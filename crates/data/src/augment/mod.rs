//! Random changes of a training image, and the policies made of them.
//!
//! ```text
//! fitted image -> geometry (flip, rotate, scale, translate, shear, elastic) -> blur -> intensity (brightness,
//! contrast, gamma) -> noise -> cutout -> normalised -> mixed with another of its batch (mixup, cutmix)
//! ```
//!
//! Every change of every image has a stream of random numbers of its own, whose key is (seed, epoch, sample). So a
//! policy with one change more leaves the others as they were, and neither threads nor batches matter.

mod elastic;
mod geometry;
pub(crate) mod mix;
mod policy;
mod values;

use std::str::FromStr;
use std::sync::Arc;

use kindling_random::{Purpose, Rng, rng_stream};
use rand::RngExt;
use serde::{Deserialize, Serialize};

pub use policy::{Blur, Cutout, Elastic, Noise, Policy};

use crate::decode::{Image, Mask};
use crate::error::DataError;
use kindling_given::UnknownName;

/// What is done to a training image: a policy with a name, or one of the user's. Written `none`, `light`, `medium`,
/// `heavy`, or as the table of a [`Policy`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug, Default, strum::Display, strum::IntoStaticStr)]
#[serde(try_from = "Written", into = "Written")]
#[strum(serialize_all = "lowercase")]
pub enum Augment {
    /// Nothing.
    #[default]
    None,
    /// Horizontal flip; shift by up to 4 %, rotation by up to 10 degrees and scale by up to 10 %, about the centre,
    /// with zeros coming in at the edges; brightness by up to 0.05 and contrast by up to 10 %.
    Light,
    /// More of the same, a little shear, gamma, and now and then noise, blur and an elastic deformation.
    Medium,
    /// Much of everything, cutout, mixup and cutmix.
    Heavy,
    /// The user's own.
    Custom(Arc<Policy>),
}

/// How a policy stands in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Policy(Policy),
}

impl TryFrom<Written> for Augment {
    type Error = DataError;

    fn try_from(written: Written) -> Result<Self, DataError> {
        match written {
            Written::Name(name) => Ok(name.parse()?),
            Written::Policy(policy) => Self::custom(policy),
        }
    }
}

impl From<Augment> for Written {
    fn from(augment: Augment) -> Self {
        match augment {
            Augment::Custom(policy) => Self::Policy((*policy).clone()),
            named => Self::Name(named.name().to_owned()),
        }
    }
}

impl Augment {
    /// The policies that have a name.
    pub const NAMED: [Augment; 4] = [Augment::None, Augment::Light, Augment::Medium, Augment::Heavy];

    /// A policy of the user's.
    ///
    /// # Errors
    /// [`DataError::Policy`] with the first value that cannot be.
    pub fn custom(policy: Policy) -> Result<Self, DataError> {
        policy.check()?;
        Ok(Self::Custom(Arc::new(policy)))
    }

    /// Its name; `custom` for the user's own.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// What it consists of.
    pub fn policy(&self) -> Policy {
        match self {
            Augment::None => Policy::none(),
            Augment::Light => Policy::light(),
            Augment::Medium => Policy::medium(),
            Augment::Heavy => Policy::heavy(),
            Augment::Custom(policy) => (**policy).clone(),
        }
    }
}

impl FromStr for Augment {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let known = Self::NAMED.each_ref().map(Self::name);
        let found = Self::NAMED.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| UnknownName::new("augmentation", text, &known))
    }
}

/// Whose random numbers are drawn: one showing of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The run's seed.
    pub seed: u64,
    /// The epoch, from 0.
    pub epoch: u64,
    /// The sample's index in its source.
    pub sample: u64,
    /// 0 for a sample in its own place. A sample that is drawn several times in an epoch, or stands in for another, has
    /// other numbers each time.
    pub showing: u64,
}

/// The stream of each change. Numbers given out are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Change {
    /// Flip, translation, rotation, scale, brightness and contrast, in this order.
    Basic = 0,
    VerticalFlip = 1,
    Shear = 2,
    Elastic = 3,
    Gamma = 4,
    Noise = 5,
    Blur = 6,
    Cutout = 7,
}

/// How many streams a showing has.
const STREAMS: u64 = 16;

impl Draw {
    fn rng(&self, change: Change) -> Rng {
        let stream = self.showing.wrapping_mul(STREAMS).wrapping_add(change as u64);
        rng_stream(self.seed, Purpose::Augment, self.epoch, self.sample, stream)
    }
}

/// A number evenly from `-limit` to `limit`.
fn within(rng: &mut Rng, limit: f32) -> f32 {
    (rng.random::<f32>() * 2.0 - 1.0) * limit
}

impl Policy {
    /// The changed image, of the same shape, in `[0, 1]`. What mixes images is done later, with the whole batch.
    pub fn apply(&self, image: Image, draw: &Draw) -> Image {
        self.change(image, None, draw)
    }

    /// The image as [`Policy::apply`] changes it, bit for bit, and its mask moved with it: every pixel takes the class of the one that it
    /// comes from, and what comes in at the edges is background. Nothing else changes a mask, cutout neither: what a square hides is still
    /// there.
    ///
    /// # Panics
    /// If the two are not of one size.
    pub fn apply_with_mask(&self, image: Image, mask: Mask, draw: &Draw) -> (Image, Mask) {
        assert_eq!((image.width, image.height), (mask.width, mask.height), "a mask has the size of its image");
        let mut mask = mask;
        let image = self.change(image, Some(&mut mask), draw);
        (image, mask)
    }

    fn change(&self, image: Image, mask: Option<&mut Mask>, draw: &Draw) -> Image {
        let mut image = image;
        // Drawn even where nothing comes of it, so that each value has its place in the stream.
        let mut basic = draw.rng(Change::Basic);
        let flip = basic.random::<f32>() < self.flip;
        let translate = [within(&mut basic, self.translate), within(&mut basic, self.translate)];
        let angle = within(&mut basic, self.rotate).to_radians();
        let scale = 1.0 + within(&mut basic, self.scale);
        let brightness = within(&mut basic, self.brightness);
        let contrast = 1.0 + within(&mut basic, self.contrast);

        if self.moves() {
            let flip_down = draw.rng(Change::VerticalFlip).random::<f32>() < self.vertical_flip;
            let shear = within(&mut draw.rng(Change::Shear), self.shear).to_radians();
            let elastic = self.elastic.and_then(|elastic| elastic.draw(&mut draw.rng(Change::Elastic)));
            let affine = geometry::Affine::new(&image, flip, flip_down, translate, angle, scale, shear);
            image = geometry::warp(&image, &affine, elastic.as_ref());
            if let Some(mask) = mask {
                *mask = geometry::warp_mask(mask, &affine, elastic.as_ref());
            }
        }
        if let Some(sigma) = self.blur.and_then(|blur| blur.draw(&mut draw.rng(Change::Blur))) {
            values::blur(&mut image, sigma);
        }
        if self.brightness > 0.0 || self.contrast > 0.0 {
            values::stretch(&mut image, contrast, brightness);
        }
        if self.gamma > 0.0 {
            values::gamma(&mut image, within(&mut draw.rng(Change::Gamma), (1.0 + self.gamma).ln()).exp());
        }
        if let Some(noise) = self.noise {
            noise.apply(&mut image, &mut draw.rng(Change::Noise));
        }
        if let Some(cutout) = self.cutout {
            cutout.apply(&mut image, &mut draw.rng(Change::Cutout));
        }
        image
    }

    /// Whether pixels go elsewhere.
    fn moves(&self) -> bool {
        let limits = [self.flip, self.vertical_flip, self.translate, self.rotate, self.scale, self.shear];
        limits.iter().any(|limit| *limit > 0.0) || self.elastic.is_some()
    }
}

#[cfg(test)]
mod tests;
