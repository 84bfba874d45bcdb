//! Decides which slices of the only training subject are held back for validation, and in which order slices are.
//!
//! Neighbouring slices are nearly the same, so holding back single slices at random would measure memorisation. Blocks of slices are held
//! back instead, with a margin that belongs to no split, by position in millimetres. Pictures of the subject that are in the same space
//! lose the same anatomy. The blocks are symmetric about the mid-plane of the head (x = 0), so that the mirror image of a slice is held
//! back with it.

/// A block is centred at this distance from the origin, and every [`PERIOD_MM`] from there.
const CENTRE_MM: f64 = 24.0;
const PERIOD_MM: f64 = 48.0;
/// Half the thickness of a block.
const HALF_BLOCK_MM: f64 = 4.0;
/// Slices this close to a block belong to no part.
const MARGIN_MM: f64 = 4.0;

/// The part that a slice of the training subject belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Learnt from.
    Train,
    /// Held back.
    Val,
    /// Too similar to a held-back slice to be learnt from.
    Margin,
}

/// The part of a slice by its position along its plane's normal, mm.
pub fn part(position: f64) -> Part {
    let beyond = (position - CENTRE_MM).rem_euclid(PERIOD_MM);
    let distance = beyond.min(PERIOD_MM - beyond);
    if distance <= HALF_BLOCK_MM {
        Part::Val
    } else if distance <= HALF_BLOCK_MM + MARGIN_MM {
        Part::Margin
    } else {
        Part::Train
    }
}

/// Moves neighbours far apart, so that the first few slices, which previews show, are representative. Items are sorted by the fractional
/// part of multiples of the golden ratio.
pub fn spread<T>(items: Vec<T>) -> Vec<T> {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut keyed: Vec<_> = (0_u64..).map(|k| k.wrapping_mul(GOLDEN_RATIO)).zip(items).collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn spreading_loses_nothing_and_separates_neighbours() {
        let spread = spread((0..1000_i32).collect());
        assert_eq!(spread.iter().copied().collect::<BTreeSet<_>>().len(), 1000);
        assert!(spread.windows(2).all(|pair| (pair[0] - pair[1]).abs() > 100));
    }

    #[test]
    fn held_back_slices_come_in_blocks_with_a_margin() {
        let parts: Vec<Part> = (0..48).map(|mm| part(f64::from(mm))).collect();
        for (mm, part) in parts.iter().enumerate() {
            let wanted = match mm {
                20..=28 => Part::Val,
                16..=19 | 29..=32 => Part::Margin,
                _ => Part::Train,
            };
            assert_eq!(*part, wanted, "{mm} mm");
        }
    }

    #[test]
    fn no_training_slice_is_within_the_margin_of_a_held_back_one() {
        let positions: Vec<f64> = (-300..=300).map(|half| f64::from(half) / 2.0).collect();
        let of = |wanted: Part| positions.iter().filter(move |&&position| part(position) == wanted);
        let nearest = of(Part::Val)
            .flat_map(|val| of(Part::Train).map(move |train| (val - train).abs()))
            .fold(f64::MAX, f64::min);
        assert!(nearest > MARGIN_MM, "{nearest} mm");
    }

    #[test]
    fn a_held_back_slice_and_its_mirror_are_held_back_together() {
        for half in 0..200 {
            let position = f64::from(half) / 2.0;
            assert_eq!(part(position), part(-position), "{position} mm");
        }
    }
}
