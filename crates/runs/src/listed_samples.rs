//! What `data.csv` says about a data set, counted: images, patients and classes of each split.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::RunError;
use crate::csv::{Records, read_text};

/// The samples that a run was trained on and scored with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedSamples {
    /// The splits, in the order of their first sample.
    pub splits: Vec<SplitCounts>,
    /// Groups (patients, usually) with samples in more than one split.
    pub groups_in_several_splits: usize,
}

/// How many samples, groups and samples of each class a split has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitCounts {
    /// `train`, `val` or `test`.
    pub split: String,
    /// Samples, those that cannot be read included.
    pub samples: usize,
    /// Their groups; a sample without one counts as one.
    pub groups: usize,
    /// Samples of each class. One of several classes counts in each.
    pub classes: BTreeMap<String, usize>,
}

impl ListedSamples {
    /// Reads a list.
    ///
    /// # Errors
    /// [`RunError::Malformed`] with the line, [`RunError::Io`].
    pub fn read(path: &Path) -> Result<Self, RunError> {
        read_text(path, Self::parse)
    }

    fn parse(text: &[u8]) -> Result<Self, String> {
        let mut records = Records::of(text);
        let header = records.header()?;
        let place = |name: &str| {
            let found = header.iter().position(|have| have == name);
            found.ok_or_else(|| format!("the first line names no column `{name}`"))
        };
        let (split, group, label) = (place("split")?, place("group")?, place("label")?);
        let mut found = Self::default();
        let mut splits_of: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for record in records {
            let (line, fields) = record?;
            let (Some(split), Some(group), Some(label)) = (fields.get(split), fields.get(group), fields.get(label))
            else {
                return Err(format!("line {line} has {} values under {} columns", fields.len(), header.len()));
            };
            let place = found.place_of(split);
            let counts = &mut found.splits[place];
            counts.samples += 1;
            counts.groups += usize::from(group.is_empty());
            for class in label.split(';').filter(|class| !class.is_empty()) {
                *counts.classes.entry(class.to_owned()).or_default() += 1;
            }
            if !group.is_empty() && splits_of.entry(group.clone()).or_default().insert(place) {
                counts.groups += 1;
            }
        }
        found.groups_in_several_splits = splits_of.values().filter(|splits| splits.len() > 1).count();
        Ok(found)
    }

    /// Where a split stands; it is added if it is not there yet.
    fn place_of(&mut self, split: &str) -> usize {
        self.splits.iter().position(|known| known.split == split).unwrap_or_else(|| {
            self.splits.push(SplitCounts { split: split.to_owned(), ..SplitCounts::default() });
            self.splits.len() - 1
        })
    }

    /// The counts of `train`, `val` or `test`; `None` if the list has no sample of it.
    pub fn split(&self, name: &str) -> Option<&SplitCounts> {
        self.splits.iter().find(|split| split.split == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_patients_and_classes_are_counted_by_split() {
        let text = b"split,group,label,path,size,crc32_of_ends\n\
            train,p1,a,1.png,,\ntrain,p1,a;b,2.png,,\ntrain,,b,3.png,,\ntest,p2,,4.png,,\ntest,p1,a,5.png,,\n";
        let found = ListedSamples::parse(text).unwrap();
        let (train, test) = (found.split("train").unwrap(), found.split("test").unwrap());
        assert_eq!((train.samples, train.groups), (3, 2), "a sample without a group is one of its own");
        assert_eq!(train.classes, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 2)]));
        assert_eq!((test.samples, test.groups, test.classes["a"]), (2, 2, 1), "a sample may have no class");
        assert_eq!(found.groups_in_several_splits, 1);
        assert_eq!(found.split("val"), None);
    }

    #[test]
    fn a_list_that_is_none_is_refused_with_its_fault() {
        for (text, expected) in [
            ("", "no column `split`"),
            ("split,group\n", "no column `label`"),
            ("split,group,label\ntrain,p\n", "line"),
        ] {
            let reason = ListedSamples::parse(text.as_bytes()).unwrap_err();
            assert!(reason.contains(expected), "{text:?}: {reason}");
        }
    }
}
