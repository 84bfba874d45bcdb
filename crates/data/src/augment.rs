//! Small random changes of a fitted image.

use std::fmt;
use std::str::FromStr;

use kindling_random::Rng;
use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::{DataError, Image};

/// Largest shift, as a share of the side.
const SHIFT: f32 = 0.04;
/// Largest rotation, in degrees.
const ROTATION: f32 = 10.0;
/// Largest change of scale.
const SCALE: f32 = 0.1;
/// Largest change of brightness, of values in `[0, 1]`.
const BRIGHTNESS: f32 = 0.05;
/// Largest change of contrast about the mean.
const CONTRAST: f32 = 0.1;

/// What is done to a training image. Written `none` and `light`.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
pub enum Augment {
    /// Nothing.
    #[default]
    None,
    /// Horizontal flip; shift by up to 4 %, rotation by up to 10 degrees and scale by up to 10 %, about the centre,
    /// with zeros coming in at the edges; brightness by up to 0.05 and contrast by up to 10 %.
    Light,
}

impl Augment {
    /// All policies.
    pub const ALL: [Augment; 2] = [Augment::None, Augment::Light];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Augment::None => "none",
            Augment::Light => "light",
        }
    }

    /// The changed image, of the same shape, in `[0, 1]`. A policy always draws the same number of values.
    pub fn apply(self, image: Image, rng: &mut Rng) -> Image {
        match self {
            Augment::None => image,
            Augment::Light => Change::draw(rng).apply(&image),
        }
    }
}

impl fmt::Display for Augment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Augment {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        Self::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(|| DataError::UnknownName {
            kind: "augmentation",
            given: text.to_owned(),
            known: "none, light",
        })
    }
}

/// One drawn change.
struct Change {
    flip: bool,
    /// Share of the width and the height.
    shift: [f32; 2],
    /// Radians.
    angle: f32,
    scale: f32,
    brightness: f32,
    contrast: f32,
}

impl Change {
    fn draw(rng: &mut Rng) -> Self {
        // Every value is drawn, whatever the others are.
        let flip = rng.random::<f32>() < 0.5;
        let mut within = |limit: f32| (rng.random::<f32>() * 2.0 - 1.0) * limit;
        Self {
            flip,
            shift: [within(SHIFT), within(SHIFT)],
            angle: within(ROTATION).to_radians(),
            scale: 1.0 + within(SCALE),
            brightness: within(BRIGHTNESS),
            contrast: 1.0 + within(CONTRAST),
        }
    }

    fn apply(&self, image: &Image) -> Image {
        let mut changed = self.warp(image);
        let mean = changed.pixels.iter().map(|&v| f64::from(v)).sum::<f64>() / changed.pixels.len().max(1) as f64;
        let mean = mean as f32;
        for value in &mut changed.pixels {
            *value = (mean + (*value - mean) * self.contrast + self.brightness).clamp(0.0, 1.0);
        }
        changed
    }

    /// Every pixel is fetched from where the inverse of the change puts it.
    fn warp(&self, image: &Image) -> Image {
        let (width, height) = (image.width as f32, image.height as f32);
        let centre = [(width - 1.0) / 2.0, (height - 1.0) / 2.0];
        let offset = [centre[0] + self.shift[0] * width, centre[1] + self.shift[1] * height];
        let (sin, cos) = (self.angle.sin() / self.scale, self.angle.cos() / self.scale);
        let mirror = if self.flip { -1.0 } else { 1.0 };

        let mut warped = Image::filled(image.width, image.height, image.channels, 0.0);
        let rows = warped.pixels.chunks_exact_mut((image.width * image.channels).max(1));
        for (y, row) in rows.enumerate() {
            let dy = y as f32 - offset[1];
            for (x, pixel) in row.chunks_exact_mut(image.channels).enumerate() {
                let dx = x as f32 - offset[0];
                let from_x = centre[0] + mirror * (cos * dx + sin * dy);
                let from_y = centre[1] + cos * dy - sin * dx;
                bilinear(image, from_x, from_y, pixel);
            }
        }
        warped
    }
}

/// The image between its pixels; outside it is zero.
fn bilinear(image: &Image, x: f32, y: f32, pixel: &mut [f32]) {
    let (left, top) = (x.floor(), y.floor());
    let (fx, fy) = (x - left, y - top);
    let (left, top) = (left as isize, top as isize);
    let (width, height) = (image.width as isize, image.height as isize);
    if left < -1 || top < -1 || left >= width || top >= height {
        return;
    }
    let weights = [(0, 0, (1.0 - fx) * (1.0 - fy)), (1, 0, fx * (1.0 - fy)), (0, 1, (1.0 - fx) * fy), (1, 1, fx * fy)];
    for (dx, dy, weight) in weights {
        let (x, y) = (left + dx, top + dy);
        if (0..width).contains(&x) && (0..height).contains(&y) {
            let start = (y * width + x) as usize * image.channels;
            for (value, from) in pixel.iter_mut().zip(&image.pixels[start..]) {
                *value += weight * from;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use kindling_random::{Purpose, rng};

    const STILL: Change =
        Change { flip: false, shift: [0.0; 2], angle: 0.0, scale: 1.0, brightness: 0.0, contrast: 1.0 };

    fn ramp(channels: usize) -> Image {
        let pixels = (0..32 * 24 * channels).map(|i| (i * 7 % 97) as f32 / 96.0).collect();
        Image { width: 32, height: 24, channels, pixels }
    }

    fn close(a: &Image, b: &Image) -> bool {
        a.pixels.iter().zip(&b.pixels).all(|(a, b)| (a - b).abs() < 1e-4)
    }

    #[test]
    fn no_change_changes_nothing() {
        assert_eq!(Augment::None.apply(ramp(3), &mut rng(1, Purpose::Augment, 0, 0)), ramp(3));
        assert!(close(&STILL.apply(&ramp(1)), &ramp(1)));
    }

    #[test]
    fn a_flip_mirrors_and_a_shift_brings_in_zeros() {
        let image = ramp(3);
        let flipped = Change { flip: true, ..STILL }.apply(&image);
        let shifted = Change { shift: [0.25, 0.0], ..STILL }.apply(&image);
        for (y, x) in (0..24).flat_map(|y| (0..32).map(move |x| (y, x))) {
            assert!((flipped.at(x, y, 1) - image.at(31 - x, y, 1)).abs() < 1e-4);
            let expected = if x < 8 { 0.0 } else { image.at(x - 8, y, 2) };
            assert!((shifted.at(x, y, 2) - expected).abs() < 1e-4);
        }
    }

    #[test]
    fn a_quarter_turn_turns_about_the_centre() {
        let image = Image { width: 24, height: 24, ..Image::filled(24, 24, 1, 0.0) };
        let mut dot = image;
        dot.pixels[3 * 24 + 20] = 1.0;
        let turned = Change { angle: std::f32::consts::FRAC_PI_2, ..STILL }.warp(&dot);
        assert!((turned.at(20, 20, 0) - 1.0).abs() < 1e-4, "from the top right to the bottom right");
    }

    #[test]
    fn light_keeps_shape_and_range_and_depends_on_the_key_alone() {
        let light = |sample| Augment::Light.apply(ramp(3), &mut rng(1, Purpose::Augment, 4, sample));
        let image = light(0);
        assert_eq!((image.width, image.height, image.channels), (32, 24, 3));
        assert!((0..50).all(|s| light(s).pixels.iter().all(|v| (0.0..=1.0).contains(v))));
        assert_eq!(image, light(0));
        assert_ne!(image, light(1));
    }

    #[test]
    fn light_draws_the_same_number_of_values_every_time() {
        for sample in 0..50 {
            let mut used = rng(1, Purpose::Augment, 0, sample);
            Augment::Light.apply(Image::filled(1 + sample as usize, 3, 1, 0.5), &mut used);
            let mut drawn = rng(1, Purpose::Augment, 0, sample);
            for _ in 0..7 {
                let _: f32 = drawn.random();
            }
            assert_eq!(used.random::<u64>(), drawn.random::<u64>());
        }
    }

    #[test]
    fn names_are_read_and_written_alike() {
        for policy in Augment::ALL {
            assert_eq!(policy.to_string().parse::<Augment>().unwrap(), policy);
            assert_eq!(serde_json::to_string(&policy).unwrap(), format!("\"{policy}\""));
        }
        let error = "wild".parse::<Augment>().unwrap_err().to_string();
        assert_eq!(error, "there is no augmentation \"wild\"; choose one of none, light");
    }
}
