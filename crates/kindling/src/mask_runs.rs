//! Masks as runs of equal classes: how they are kept where there are many, and how processes tell them each other.

use kindling_data::Mask;
use serde::{Deserialize, Serialize};

/// A mask: row by row, classes and how many pixels one after the other have each.
#[derive(Serialize, Deserialize)]
pub(crate) struct MaskRuns {
    width: usize,
    height: usize,
    runs: Vec<(u8, u32)>,
}

impl MaskRuns {
    pub(crate) fn of(mask: &Mask) -> Self {
        let runs = mask.classes.chunk_by(|one, other| one == other).map(|run| (run[0], run.len() as u32)).collect();
        Self { width: mask.width, height: mask.height, runs }
    }

    /// The mask that these are of.
    pub(crate) fn mask(&self) -> Mask {
        let mut mask = Mask::filled(self.width, self.height, 0);
        self.write(&mut mask.classes);
        mask
    }

    /// Writes the classes to a plane; pixels beyond it are left out, and those that the runs do not reach stay.
    pub(crate) fn write(&self, plane: &mut [u8]) {
        let mut rest = plane;
        for &(class, count) in &self.runs {
            let (run, after) = rest.split_at_mut((count as usize).min(rest.len()));
            run.fill(class);
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_told_and_understood_whatever_is_in_it() {
        for classes in [vec![], vec![7; 12], vec![0, 1, 0, 1, 0, 1, 1, 1, 255, 2, 2, 0]] {
            let mask = Mask { width: 4, height: classes.len() / 4, classes };
            let told = serde_json::to_string(&MaskRuns::of(&mask)).unwrap_or_default();
            let Ok(runs) = serde_json::from_str::<MaskRuns>(&told) else { panic!("{told}") };
            assert_eq!(runs.mask(), mask);
        }
    }
}
