//! What can be found wrong with masks.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::decode::{Image, Mask};
use crate::error::DataError;
use crate::source::{Source, check_sizes};
use crate::split::Split;

/// What the check has found about masks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Masks {
    /// Masks of each split that are all background.
    pub without_foreground: BTreeMap<&'static str, usize>,
    /// The share of each class of all pixels that count.
    pub shares: Vec<f64>,
}

/// What the check keeps of a mask.
pub(super) struct MaskLook {
    /// Pixels of each class.
    pixels: Vec<u64>,
    pub(super) hash: [u8; 32],
}

impl MaskLook {
    /// Reads the mask of a sample.
    ///
    /// # Errors
    /// As [`Source::read_mask`], [`DataError::MaskSize`] and [`DataError::MaskClass`].
    pub(super) fn of(source: &dyn Source, index: usize, image: &Image, classes: usize) -> Result<Self, DataError> {
        let Mask { width, height, classes: mask } = source.read_mask(index)?;
        check_sizes(|| source.name_of(index), (image.width, image.height), (width, height))?;
        let mut counts = [0; 256];
        mask.iter().for_each(|class| counts[usize::from(*class)] += 1);
        if let Some(class) = (classes..255).find(|class| counts[*class] > 0) {
            return Err(DataError::MaskClass { name: source.name_of(index), class: class as u8, classes });
        }
        let pixels = counts.into_iter().take(classes).collect();
        Ok(Self { pixels, hash: Sha256::digest(&mask).into() })
    }
}

impl Masks {
    /// Sums masks up. Returns the images of each split that each class occurs in, too.
    pub(super) fn of<'a>(
        looks: impl Iterator<Item = (Split, &'a MaskLook)>,
        classes: usize,
    ) -> (Self, BTreeMap<&'static str, Vec<usize>>) {
        let mut by_class: BTreeMap<&'static str, Vec<usize>> =
            Split::ALL.map(|split| (split.name(), vec![0; classes])).into();
        let mut without_foreground: BTreeMap<&'static str, usize> = Split::ALL.map(|split| (split.name(), 0)).into();
        let mut totals = vec![0u64; classes];
        for (split, look) in looks {
            for (class, pixels) in look.pixels.iter().enumerate() {
                totals[class] += pixels;
                by_class.entry(split.name()).and_modify(|counts| counts[class] += usize::from(*pixels > 0));
            }
            let is_empty = look.pixels.iter().skip(1).all(|pixels| *pixels == 0);
            *without_foreground.entry(split.name()).or_default() += usize::from(is_empty);
        }
        let all = totals.iter().sum::<u64>().max(1) as f64;
        let shares = totals.into_iter().map(|pixels| pixels as f64 / all).collect();
        (Self { without_foreground, shares }, by_class)
    }
}

/// The classes that no mask of a split has, as one sentence each. Splits without samples lack nothing.
pub(super) fn lacking(
    classes: &[String],
    by_class: &BTreeMap<&'static str, Vec<usize>>,
    samples: &BTreeMap<&'static str, usize>,
) -> Vec<String> {
    let sentence = |(class, name): (usize, &String)| {
        let count = |split: Split| by_class.get(split.name()).map_or(0, |counts| counts[class]);
        let all: usize = Split::ALL.into_iter().map(count).sum();
        let has_samples = |split: &Split| samples.get(split.name()).is_some_and(|samples| *samples > 0);
        let empty = Split::ALL.into_iter().filter(has_samples).filter(|split| count(*split) == 0);
        let empty: Vec<&str> = empty.map(Split::name).collect();
        match (all, empty.is_empty()) {
            (_, true) => None,
            (0, _) => Some(format!("the class {name:?} occurs in no mask")),
            _ => Some(format!("the class {name:?} occurs in {all} masks, but in none of {}", empty.join(" and "))),
        }
    };
    classes.iter().enumerate().filter_map(sentence).collect()
}
