//! The class of every pixel of an image, and its way to the square that a model is fed and back.

use super::Preprocess;

/// A pixel that counts for nothing: neither learnt from nor scored.
pub const IGNORED: u8 = 255;

/// The class of every pixel of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Rows from the top, pixels from the left: `height * width` indices into [`Dataset::classes`](crate::Dataset::classes), of which
    /// 0 is the background, or [`IGNORED`].
    pub classes: Vec<u8>,
}

impl Mask {
    /// A mask whose pixels are all of one class.
    pub fn filled(width: usize, height: usize, class: u8) -> Self {
        Self { width, height, classes: vec![class; width * height] }
    }

    /// The class of a pixel. Panics outside the mask.
    pub fn at(&self, x: usize, y: usize) -> u8 {
        self.classes[y * self.width + x]
    }

    /// The classes that occur, sorted, [`IGNORED`] not among them.
    pub fn present(&self) -> Vec<usize> {
        let mut there = [false; 256];
        self.classes.iter().for_each(|&class| there[usize::from(class)] = true);
        (0..usize::from(IGNORED)).filter(|&class| there[class]).collect()
    }

    /// The mask at another size; a pixel has the class of the one that its centre lies in.
    pub(crate) fn scaled(&self, width: usize, height: usize) -> Self {
        let from =
            |to: usize, of: usize| -> Vec<Option<usize>> { (0..to).map(|at| Some(nearest(at, to, of))).collect() };
        self.picked(&from(width, self.width), &from(height, self.height))
    }

    /// A mask of this size whose pixel `(x, y)` is `(columns[x], rows[y])` of this one, and background where there is none.
    pub(crate) fn picked(&self, columns: &[Option<usize>], rows: &[Option<usize>]) -> Self {
        let mut picked = Self::filled(columns.len(), rows.len(), 0);
        for (line, row) in picked.classes.chunks_exact_mut(columns.len().max(1)).zip(rows) {
            let Some(from) = row.and_then(|y| self.classes.get(y * self.width..(y + 1) * self.width)) else { continue };
            for (class, column) in line.iter_mut().zip(columns) {
                *class = column.and_then(|x| from.get(x)).copied().unwrap_or(0);
            }
        }
        picked
    }
}

impl Preprocess {
    /// The mask as `size` x `size` pixels, each above the same place as in [`Preprocess::fit`] of its image. A pixel takes the class of
    /// the one that its centre lies in: no class is made between two others. Padding is background, as it is black in the image.
    pub fn fit_mask(&self, mask: &Mask) -> Mask {
        let (width, height) = self.scaled(mask.width, mask.height);
        let from = |side: usize, scaled: usize| -> Vec<Option<usize>> {
            let start = self.start(scaled);
            let place = |at: usize| (at as isize - start).try_into().ok().filter(|place| *place < scaled);
            (0..self.size).map(|at| place(at).map(|place| nearest(place, scaled, side))).collect()
        };
        mask.picked(&from(mask.width, width), &from(mask.height, height))
    }

    /// The way back from [`Preprocess::fit_mask`] to an image of `width` x `height` pixels. What was cropped away is background; where the
    /// image was not made smaller and nothing was cropped, the mask is what it was before it was fitted.
    pub fn unfit_mask(&self, fitted: &Mask, width: usize, height: usize) -> Mask {
        let (scaled_width, scaled_height) = self.scaled(width, height);
        let from = |side: usize, scaled: usize, fitted: usize| -> Vec<Option<usize>> {
            let start = self.start(scaled);
            let place = |at: usize| (nearest(at, side, scaled) as isize + start).try_into().ok();
            (0..side).map(|at| place(at).filter(|place| *place < fitted)).collect()
        };
        fitted.picked(&from(width, scaled_width, fitted.width), &from(height, scaled_height, fitted.height))
    }
}

/// The pixel, of `to` along a side, that the centre of pixel `at` of `of` lies in. In whole numbers: no rounding can move it.
fn nearest(at: usize, of: usize, to: usize) -> usize {
    (2 * at + 1) * to / (2 * of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Fit, Image, Normalisation};

    fn fits(size: usize) -> [Preprocess; 3] {
        let padded = Preprocess::padded(size, 1, Normalisation::identity(1));
        [Fit::Pad, Fit::Crop(size), Fit::Crop(size + size / 3)].map(|fit| Preprocess { fit, ..padded.clone() })
    }

    /// A mask in which neighbours differ.
    fn noisy(width: usize, height: usize) -> Mask {
        let class = |at: usize| [0, 1, 2, 7, IGNORED][(at * 7 + at / 5 + at / width) % 5];
        Mask { width, height, classes: (0..width * height).map(class).collect() }
    }

    /// A rectangle of class 1 in the background.
    fn rectangle(width: usize, height: usize) -> Mask {
        let inside = |x: usize, y: usize| x >= width / 5 && x < width * 3 / 5 && y >= height / 3 && y < height * 5 / 6;
        let classes = (0..width * height).map(|at| u8::from(inside(at % width, at / width))).collect();
        Mask { width, height, classes }
    }

    #[test]
    fn a_mask_comes_back_as_it_was_where_nothing_was_lost() {
        for (width, height) in [(64, 64), (20, 10), (64, 33), (7, 64), (1, 1), (1, 50), (63, 61)] {
            let mask = noisy(width, height);
            let [padded, ..] = fits(64);
            assert_eq!(padded.unfit_mask(&padded.fit_mask(&mask), width, height), mask, "{width} x {height}");
        }
    }

    #[test]
    fn what_was_cropped_away_comes_back_as_background() {
        let crop = &fits(32)[1];
        let mask = Mask::filled(64, 32, 3);
        let back = crop.unfit_mask(&crop.fit_mask(&mask), 64, 32);
        for (at, class) in back.classes.iter().enumerate() {
            assert_eq!(*class, if (16..48).contains(&(at % 64)) { 3 } else { 0 }, "pixel {at}");
        }
    }

    #[test]
    fn a_mask_lies_where_its_image_does() {
        // Where a rectangle is seen at least half, in its image, is where it is in its mask, but for the pixels of its edge.
        for (width, height) in [(64, 64), (200, 130), (131, 257), (40, 23), (500, 64), (33, 90)] {
            let mask = rectangle(width, height);
            let pixels = mask.classes.iter().map(|&class| f32::from(class)).collect();
            let image = Image { width, height, channels: 1, pixels };
            for fit in fits(64) {
                let (fitted, seen) = (fit.fit_mask(&mask), fit.fit(&image));
                assert_eq!((fitted.width, fitted.height), (seen.width, seen.height));
                let alike = |at: usize| u8::from(seen.pixels[at] >= 0.5) == fitted.classes[at];
                let is_edge = |at: usize| {
                    let (x, y) = (at % 64, at / 64);
                    let around = |at: usize| at.saturating_sub(1)..(at + 2).min(64);
                    around(y).any(|y| around(x).any(|x| fitted.at(x, y) != fitted.classes[at]))
                };
                let wrong = (0..64 * 64).find(|&at| !alike(at) && !is_edge(at));
                assert_eq!(wrong, None, "{width} x {height} {:?}", fit.fit);
                assert!(fitted.present() == [0, 1], "{width} x {height} {:?}", fit.fit);
            }
        }
    }

    #[test]
    fn fitting_a_mask_of_the_right_size_changes_nothing_and_otherwise_makes_no_class() {
        let [padded, cropped, _] = fits(40);
        assert_eq!(padded.fit_mask(&noisy(40, 40)), noisy(40, 40));
        for (width, height) in [(17, 60), (300, 2), (1, 1), (1, 900)] {
            let mask = noisy(width, height);
            for fit in [&padded, &cropped] {
                let fitted = fit.fit_mask(&mask);
                assert_eq!(fitted.classes.len(), 40 * 40);
                assert!(fitted.classes.iter().all(|class| *class == 0 || mask.classes.contains(class)));
            }
        }
    }

    #[test]
    fn padding_is_background() {
        let fitted = fits(64)[0].fit_mask(&Mask::filled(20, 10, 9));
        for (y, row) in fitted.classes.chunks_exact(64).enumerate() {
            let expected = if (16..48).contains(&y) { 9 } else { 0 };
            assert!(row.iter().all(|class| *class == expected), "row {y}");
        }
    }

    #[test]
    fn what_is_ignored_is_no_class() {
        assert_eq!(noisy(5, 5).present(), [0, 1, 2, 7]);
        assert_eq!(Mask::filled(2, 2, IGNORED).present(), [] as [usize; 0]);
    }
}
