//! Changes of images that a gradient passes through ("Differentiable Augmentation for Data-Efficient GAN Training", Zhao
//! et al. 2020): the discriminator sees real and fake images only changed, so that few images last, and the generator
//! still learns to make unchanged ones.

use std::fmt;
use std::str::FromStr;

use burn::tensor::{Int, Tensor, TensorData};
use kindling_random::{Purpose, rng_stream};
use rand::RngExt;
use serde::{Deserialize, Serialize};

/// The largest shift, as a share of the side.
const SHIFT: f64 = 0.125;
/// The side of the square that is cut out, as a share of the side.
const CUTOUT: f64 = 0.5;

/// Which changes are made. Written `none`, or names with commas between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DiffAugment {
    /// Brightness by up to 0.5 either way, saturation times 0 to 2, contrast times 0.5 to 1.5.
    pub colour: bool,
    /// A shift by up to an eighth of the side either way, zeros coming in.
    pub translation: bool,
    /// A square of half the side becomes zero.
    pub cutout: bool,
}

/// The change of one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Added to every value.
    pub brightness: f32,
    /// Distance of the channels from their mean, times this.
    pub saturation: f32,
    /// Distance of every value from the image's mean, times this.
    pub contrast: f32,
    /// Pixels down and to the right.
    pub shift: [i64; 2],
    /// Row and column of the middle of the square that is cut out.
    pub cutout: Option<[i64; 2]>,
}

impl Change {
    /// The change that leaves an image alone.
    pub const NONE: Self = Self { brightness: 0.0, saturation: 1.0, contrast: 1.0, shift: [0; 2], cutout: None };
}

impl DiffAugment {
    /// Images stay as they are.
    pub const NONE: Self = Self { colour: false, translation: false, cutout: false };
    /// Colour, translation and cutout, as in the paper.
    pub const ALL: Self = Self { colour: true, translation: true, cutout: true };

    /// The changes of some rows of an iteration; `stream` tells kinds of images apart. Every value is drawn, whatever is
    /// made of it.
    pub(crate) fn draw(
        self,
        seed: u64,
        iteration: u64,
        rows: std::ops::Range<usize>,
        stream: u64,
        size: usize,
    ) -> Vec<Change> {
        let of_row = |row: usize| {
            let mut rng = rng_stream(seed, Purpose::DiffAugment, iteration, row as u64, stream);
            let [brightness, saturation, contrast] = [(); 3].map(|()| rng.random::<f32>());
            // A whole number of `0..count` each, drawn without `rand`'s own way to them, which may change.
            let mut below = |count: usize| ((u128::from(rng.random::<u64>()) * count as u128) >> 64) as i64;
            let most = (SHIFT * size as f64 + 0.5).floor() as usize;
            let shift = [(); 2].map(|()| below(2 * most + 1) - most as i64);
            let side = cutout_side(size);
            let middle = [(); 2].map(|()| below(size + 1 - side % 2));
            let mut change = Change::NONE;
            if self.colour {
                (change.brightness, change.saturation, change.contrast) =
                    (brightness - 0.5, 2.0 * saturation, contrast + 0.5);
            }
            if self.translation {
                change.shift = shift;
            }
            if self.cutout {
                change.cutout = Some(middle);
            }
            change
        };
        rows.map(of_row).collect()
    }

    /// Changed images, `[batch, channels, height, width]` in and out; one change an image.
    ///
    /// # Panics
    /// If there are more or fewer changes than images.
    pub fn apply(self, images: Tensor<4>, changes: &[Change]) -> Tensor<4> {
        assert_eq!(images.dims()[0], changes.len(), "a change for every image");
        let images = if self.colour { colour(images, changes) } else { images };
        if self.translation || self.cutout { place(images, changes, self.translation) } else { images }
    }

    fn names(self) -> Vec<&'static str> {
        let all = [(self.colour, "colour"), (self.translation, "translation"), (self.cutout, "cutout")];
        all.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect()
    }
}

/// Side of the square that is cut out of images of `size` pixels.
fn cutout_side(size: usize) -> usize {
    (CUTOUT * size as f64 + 0.5).floor() as usize
}

fn colour(images: Tensor<4>, changes: &[Change]) -> Tensor<4> {
    let of = |value: fn(&Change) -> f32| {
        let values: Vec<f32> = changes.iter().map(value).collect();
        let data = TensorData::new(values, [changes.len(), 1, 1, 1]);
        Tensor::<4>::from_data(data, (&images.device(), images.dtype()))
    };
    let (brightness, saturation, contrast) =
        (of(|change| change.brightness), of(|change| change.saturation), of(|change| change.contrast));
    let x = images + brightness;
    let x = match x.dims()[1] {
        // One channel is its own mean.
        1 => x,
        _ => {
            let mean = x.clone().mean_dim(1);
            (x - mean.clone()) * saturation + mean
        }
    };
    let mean = x.clone().mean_dim(1).mean_dim(2).mean_dim(3);
    (x - mean.clone()) * contrast + mean
}

/// Shifts and cuts: every pixel is taken from where it was, and what comes from outside or lies in the square is zero.
fn place(images: Tensor<4>, changes: &[Change], shifted: bool) -> Tensor<4> {
    let [batch, channels, height, width] = images.dims();
    let device = images.device();
    let pixels = height * width;
    let mut sources: Vec<i64> = Vec::with_capacity(if shifted { batch * channels * pixels } else { 0 });
    let mut kept: Vec<f32> = Vec::with_capacity(batch * pixels);
    let half = cutout_side(height.min(width)) as i64;
    for change in changes {
        let begin = sources.len();
        for y in 0..height as i64 {
            for x in 0..width as i64 {
                let from = [y - change.shift[0], x - change.shift[1]];
                let inside = (0..height as i64).contains(&from[0]) && (0..width as i64).contains(&from[1]);
                let cut = change.cutout.is_some_and(|[row, column]| {
                    let (top, left) = (row - half / 2, column - half / 2);
                    (top..top + half).contains(&y) && (left..left + half).contains(&x)
                });
                kept.push(if inside && !cut { 1.0 } else { 0.0 });
                if shifted {
                    sources.push(if inside { from[0] * width as i64 + from[1] } else { 0 });
                }
            }
        }
        if shifted {
            for _ in 1..channels {
                sources.extend_from_within(begin..begin + pixels);
            }
        }
    }
    let kept = TensorData::new(kept, [batch, 1, height, width]);
    let kept = Tensor::<4>::from_data(kept, (&device, images.dtype()));
    let images = if shifted {
        let sources = TensorData::new(sources, [batch, channels, pixels]);
        let sources = Tensor::<3, Int>::from_data(sources, &device);
        images.reshape([batch, channels, pixels]).gather(2, sources).reshape([batch, channels, height, width])
    } else {
        images
    };
    images * kept
}

impl fmt::Display for DiffAugment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.names() {
            names if names.is_empty() => f.write_str("none"),
            names => f.write_str(&names.join(",")),
        }
    }
}

impl FromStr for DiffAugment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut found = Self::NONE;
        if text == "none" {
            return Ok(found);
        }
        for name in text.split(',') {
            match name.trim() {
                "colour" => found.colour = true,
                "translation" => found.translation = true,
                "cutout" => found.cutout = true,
                other => return Err(format!("`{other}` is none of colour, translation and cutout")),
            }
        }
        Ok(found)
    }
}

impl TryFrom<String> for DiffAugment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DiffAugment> for String {
    fn from(augment: DiffAugment) -> Self {
        augment.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_belongs_to_its_image_and_stays_within_its_limits() {
        let draw = |rows| DiffAugment::ALL.draw(1, 2, rows, 0, 64);
        let whole = draw(0..200);
        assert_eq!(whole, [draw(0..3), draw(3..200)].concat());
        assert_ne!(whole, DiffAugment::ALL.draw(1, 2, 0..200, 1, 64));
        assert!(whole.iter().all(|change| change.shift.iter().all(|shift| shift.abs() <= 8)));
        assert!(whole.iter().any(|change| change.shift[0] == 8) && whole.iter().any(|change| change.shift[0] == -8));
        assert!(whole.iter().all(|change| (0.0..2.0).contains(&change.saturation)));
        assert!(DiffAugment::NONE.draw(1, 2, 0..9, 0, 64).iter().all(|change| *change == Change::NONE));
    }

    #[test]
    fn policies_read_as_they_are_written() {
        for text in ["none", "colour,translation,cutout", "cutout", "colour,cutout"] {
            assert_eq!(text.parse::<DiffAugment>().expect("a policy").to_string(), text);
        }
        assert!("color".parse::<DiffAugment>().is_err());
    }
}
