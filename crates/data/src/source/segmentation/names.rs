//! Names that masks give their own numbers, such as the labels of segments: what two files say must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::wrong;
use crate::error::DataError;
use crate::source::Opening;
use crate::source::mask_numbers::Numbers;

/// The names of numbers, and the file that named each first.
#[derive(Default)]
pub(super) struct Names(BTreeMap<u16, (String, PathBuf)>);

impl Names {
    /// Those of all these masks. Files that cannot be read name nothing; that is told where they are listed.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] where two files call the same number differently: then it would be two classes.
    pub(super) fn of(masks: &BTreeSet<&PathBuf>, opening: &Opening) -> Result<Self, DataError> {
        let mut names = Self::default();
        for mask in masks.iter().copied().filter(|mask| mask.is_file()) {
            let links = opening.format_of(mask).and_then(|format| format.mask_links(mask).ok().flatten());
            for (number, name) in links.unwrap_or_default().names.into_iter().filter(|(_, name)| !name.is_empty()) {
                match names.0.get(&number) {
                    None => drop(names.0.insert(number, (name, mask.clone()))),
                    Some((known, _)) if *known == name => {}
                    Some((known, first)) => {
                        let reason = format!(
                            "it calls its segment {number} {name:?}, and in {first:?} that is {known:?}; give the segments of all masks the \
                             same numbers"
                        );
                        return Err(wrong(mask, reason));
                    }
                }
            }
        }
        Ok(names)
    }

    /// Fails if a name is that of a declared class of another number.
    ///
    /// # Errors
    /// [`DataError::Segmentation`] with the first mask that says so.
    pub(super) fn check(&self, declared: &Numbers) -> Result<(), DataError> {
        for (number, (name, mask)) in &self.0 {
            let class = declared.classes.iter().position(|class| class.eq_ignore_ascii_case(name));
            if class.is_some_and(|class| declared.class_of(*number).map(usize::from) != Some(class)) {
                let reason =
                    format!("it calls its segment {number} {name:?}, and that class is declared with another number");
                return Err(wrong(mask, reason));
            }
        }
        Ok(())
    }

    /// Classes that nobody declared, with their names where each of them has its own.
    pub(super) fn name(&self, numbers: &mut Numbers) {
        let named: Vec<(usize, &String)> = self
            .0
            .iter()
            .filter_map(|(number, (name, _))| Some((usize::from(numbers.class_of(*number)?), name)))
            .filter(|(class, _)| *class > 0)
            .collect();
        let mut classes = numbers.classes.clone();
        named.into_iter().for_each(|(class, name)| classes[class].clone_from(name));
        if classes.iter().collect::<BTreeSet<_>>().len() == classes.len() {
            numbers.classes = classes;
        }
    }
}
