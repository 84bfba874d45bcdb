//! Which class a number in a mask file stands for.

use std::collections::BTreeSet;
use std::path::Path;

use crate::decode::{IGNORED, Mask, MaskValues};
use crate::error::DataError;

/// The most classes: what is left of 256 numbers without [`IGNORED`].
const MOST_CLASSES: usize = IGNORED as usize;
/// A number that stands for nothing.
const UNKNOWN: u16 = u16::MAX;
/// The number that binary masks have instead of 1, and that others have for pixels to be ignored.
const WHITE: u16 = 255;
/// The name, among declared classes, of what counts for nothing: that of nnU-Net.
pub(crate) const IGNORE: &str = "ignore";
/// The name of class 0 where none is declared.
const BACKGROUND: &str = "background";
/// How many numbers a message lists.
const TOLD: usize = 12;

/// Which class a number in a mask file stands for. Class 0 is the number 0, whether that is declared or not, and the others follow in the
/// order of their numbers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Names of the classes in the order of their numbers; the background is the first.
    pub(crate) classes: Vec<String>,
    /// The class of each number; [`IGNORED`] and [`UNKNOWN`] are none.
    table: Vec<u16>,
}

impl Numbers {
    /// The classes of a declaration, each with its number.
    ///
    /// # Errors
    /// What is wrong with them, in words that follow the name of the file.
    pub(crate) fn declared(named: Vec<(String, u64)>) -> Result<Self, String> {
        let mut classes: Vec<(u16, String)> = Vec::new();
        let mut ignored = None;
        for (name, number) in named {
            let number = u16::try_from(number)
                .map_err(|_| format!("the class {name:?} has the number {number}; 65535 is the largest"))?;
            if let Some((_, other)) = classes.iter().find(|(known, other)| *known == number || *other == name) {
                return Err(format!("the classes {other:?} and {name:?} have the same name or number"));
            }
            match name.as_str() {
                IGNORE => ignored = Some(number),
                _ => classes.push((number, name)),
            }
        }
        if let Some(ignored) = ignored
            && let Some((_, name)) = classes.iter().find(|(number, _)| *number == ignored)
        {
            return Err(format!("the class {name:?} has the number of what is to be ignored"));
        }
        if ignored == Some(0) {
            return Err("the number 0 is to be ignored, but it is the background: padding has it too".to_owned());
        }
        if classes.iter().all(|(number, _)| *number != 0) {
            if classes.iter().any(|(_, name)| name == BACKGROUND) {
                return Err("\"background\" has a number that is not 0; the background is 0, as padding is".to_owned());
            }
            classes.push((0, BACKGROUND.to_owned()));
        }
        classes.sort();
        Self::of(classes, ignored)
    }

    /// The classes of masks without a declaration, from the numbers that occur in them. Training needs at least two.
    ///
    /// # Errors
    /// Why they cannot be told, in words that follow the name of the folder.
    pub(crate) fn found(numbers: &BTreeSet<u16>, learn: bool) -> Result<Self, String> {
        let others: Vec<u16> = numbers.iter().copied().filter(|number| *number != 0).collect();
        let told = || told(&mut numbers.iter().copied());
        let declare = "declare the classes in a labels.json beside the folders, as {\"background\": 0, \"tumour\": 1}";
        match others.as_slice() {
            [] if !learn => Ok(Self { classes: vec![BACKGROUND.to_owned()], table: vec![0] }),
            [] => Err("there is nothing in the masks: every pixel is 0, the background".to_owned()),
            [one] => Self::of(vec![(0, BACKGROUND.to_owned()), (*one, "foreground".to_owned())], None),
            many if many.len() > MOST_CLASSES - 1 => Err(format!(
                "the masks hold {} numbers ({}), more than the {MOST_CLASSES} classes there can be; were they saved with a lossy format, or \
                 resized with interpolation?",
                numbers.len(),
                told()
            )),
            // Both are common, and pixels of the one are no class.
            many if many.contains(&WHITE) => Err(format!(
                "the masks hold the numbers {}, and nobody says whether {WHITE} is a class or to be ignored; {declare}, with \"ignore\": \
                 {WHITE} if it is",
                told()
            )),
            many => {
                let class = |number: &u16| (*number, format!("class {number}"));
                Self::of([(0, BACKGROUND.to_owned())].into_iter().chain(many.iter().map(class)).collect(), None)
            }
        }
    }

    /// Classes in the order of their numbers.
    fn of(classes: Vec<(u16, String)>, ignored: Option<u16>) -> Result<Self, String> {
        if classes.len() > MOST_CLASSES {
            return Err(format!("there are {} classes; {MOST_CLASSES} are the most", classes.len()));
        }
        if classes.len() < 2 {
            return Err("there is no class beside the background".to_owned());
        }
        let last = classes.iter().map(|(number, _)| *number).chain(ignored).max().unwrap_or(0);
        let mut table = vec![UNKNOWN; usize::from(last) + 1];
        for ((number, _), class) in classes.iter().zip(0..) {
            table[usize::from(*number)] = class;
        }
        if let Some(ignored) = ignored {
            table[usize::from(ignored)] = u16::from(IGNORED);
        }
        Ok(Self { classes: classes.into_iter().map(|(_, name)| name).collect(), table })
    }

    /// The class of a number, or [`IGNORED`]; `None` if the number stands for nothing.
    pub(crate) fn class_of(&self, number: u16) -> Option<u8> {
        let class = *self.table.get(usize::from(number))?;
        u8::try_from(class).ok()
    }

    /// The mask that these numbers of the file `path` are.
    ///
    /// # Errors
    /// [`DataError::MaskNumber`] for a number that stands for nothing.
    pub(crate) fn mask_of(&self, path: &Path, values: MaskValues) -> Result<Mask, DataError> {
        let MaskValues { width, height, values } = values;
        let class = |number: u16| {
            self.class_of(number).ok_or_else(|| DataError::MaskNumber {
                path: path.to_owned(),
                number,
                known: told(&mut (0..=u16::MAX).filter(|number| self.class_of(*number).is_some())),
            })
        };
        Ok(Mask { width, height, classes: values.into_iter().map(class).collect::<Result<_, _>>()? })
    }
}

/// `0, 1, 2`, the first few.
fn told(numbers: &mut dyn Iterator<Item = u16>) -> String {
    let mut first: Vec<String> = numbers.take(TOLD + 1).map(|number| number.to_string()).collect();
    if first.len() > TOLD {
        first[TOLD] = "...".to_owned();
    }
    first.join(", ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn declared(named: &[(&str, u64)]) -> Result<Numbers, String> {
        Numbers::declared(named.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect())
    }

    fn found(numbers: &[u16]) -> Result<Numbers, String> {
        Numbers::found(&numbers.iter().copied().collect(), true)
    }

    #[test]
    fn declared_classes_follow_their_numbers_and_what_is_ignored_is_none() {
        let numbers = declared(&[("tumour", 7), ("ignore", 9), ("background", 0), ("organ", 3)]).unwrap();
        assert_eq!(numbers.classes, ["background", "organ", "tumour"]);
        assert_eq!(
            [0, 3, 7, 9, 1, 10].map(|n| numbers.class_of(n)),
            [Some(0), Some(1), Some(2), Some(IGNORED), None, None]
        );
        let white = declared(&[("cell", 255)]).unwrap();
        assert_eq!(
            (white.classes.join(" "), white.class_of(255), white.class_of(0)),
            ("background cell".into(), Some(1), Some(0))
        );
        let values = MaskValues { width: 2, height: 1, values: vec![7, 4] };
        let error = numbers.mask_of(Path::new("a.png"), values).unwrap_err().to_string();
        assert!(
            error.contains("\"a.png\"") && error.contains("the number 4") && error.contains("0, 3, 7, 9"),
            "{error}"
        );
    }

    #[test]
    fn declarations_that_contradict_themselves_are_refused() {
        for (named, says) in [
            (&[("a", 1), ("b", 1)][..], "same name or number"),
            (&[("a", 1), ("a", 2)], "same name or number"),
            (&[("a", 1), ("ignore", 1)], "same name or number"),
            (&[("ignore", 1), ("a", 1)], "to be ignored"),
            (&[("ignore", 0), ("a", 1)], "background"),
            (&[("background", 1), ("a", 2)], "is not 0"),
            (&[("background", 0), ("ignore", 1)], "no class beside"),
            (&[("a", 70_000)], "65535"),
        ] {
            let error = declared(named).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let many: Vec<(String, u64)> = (0..256).map(|number| (format!("c{number}"), number)).collect();
        assert!(Numbers::declared(many).unwrap_err().contains("255 are the most"));
    }

    #[test]
    fn numbers_that_nobody_declares_are_classes_where_that_is_clear() {
        assert_eq!(found(&[0, 255]).unwrap().classes, ["background", "foreground"]);
        assert_eq!(found(&[7]).unwrap().class_of(7), Some(1));
        let three = found(&[0, 2, 5]).unwrap();
        assert_eq!((three.classes.join(", "), three.class_of(5)), ("background, class 2, class 5".into(), Some(2)));
        assert_eq!(Numbers::found(&[0].into(), false).unwrap().classes, ["background"]);
        assert!(found(&[0]).unwrap_err().contains("nothing in the masks"));
        assert!(found(&[0, 1, 2, 255]).unwrap_err().contains("to be ignored"));
        assert!(found(&(0..300).collect::<Vec<u16>>()).unwrap_err().contains("lossy"));
    }
}
