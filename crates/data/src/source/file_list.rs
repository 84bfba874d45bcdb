//! The list of a data set's samples: what a run was trained on, so that a changed data set is noticed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use kindling_files::csv::{Records, csv_line};
use rayon::prelude::*;

use super::{Dataset, Fingerprint};
use crate::split::Split;

/// The columns, in the order in which they are written.
const HEADER: [&str; 6] = ["split", "group", "label", "path", "size", "crc32_of_ends"];
/// How many names [`Changes`] shows of each kind of change.
const NAMES: usize = 3;

/// A sample in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSample {
    /// Train, val or test.
    pub split: Split,
    /// The group that it must not be parted from: the patient, usually.
    pub group: Option<String>,
    /// The names of its classes, or its number.
    pub labels: Vec<String>,
    /// Its name within its data set ([`Source::name_within`](crate::Source::name_within)), or where it is no file the name it has in
    /// messages ([`Source::name_of`](crate::Source::name_of)).
    pub name: String,
    /// Tells this version of its file from another; `None` if it is no file, or could not be read.
    pub fingerprint: Option<Fingerprint>,
}

/// The samples of a data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileList {
    /// Split by split, in the order of their sources.
    pub samples: Vec<ListedSample>,
}

/// The sides that samples were given before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    samples: HashMap<String, Split>,
    groups: HashMap<String, Split>,
}

impl Recorded {
    /// The side of a sample, or of the group it belongs to.
    pub(crate) fn side_of(&self, name: &str, group: Option<&str>) -> Option<Split> {
        // The group first: no group is ever parted.
        group.and_then(|group| self.groups.get(group)).or_else(|| self.samples.get(name)).copied()
    }
}

/// How a data set differs from a list. Names are sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// How many samples are the same as in the list.
    pub unchanged: usize,
    /// Names of samples that the list lacks.
    pub added: Vec<String>,
    /// Names of samples that are only in the list.
    pub missing: Vec<String>,
    /// Names of samples whose content, label or group has changed.
    pub changed: Vec<String>,
    /// Names of samples that are in another split.
    pub moved: Vec<String>,
}

impl Changes {
    /// Whether nothing differs.
    pub fn is_none(&self) -> bool {
        self.added.is_empty() && self.missing.is_empty() && self.changed.is_empty() && self.moved.is_empty()
    }
}

/// `37 unchanged, 2 added ("a/7.png", "b/9.png"), 1 missing ("a/0.png")`.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} unchanged", self.unchanged)?;
        let kinds = [
            (&self.added, "added"),
            (&self.missing, "missing"),
            (&self.changed, "changed"),
            (&self.moved, "moved to another split"),
        ];
        for (names, kind) in kinds.into_iter().filter(|(names, _)| !names.is_empty()) {
            let first: Vec<String> = names.iter().take(NAMES).map(|name| format!("{name:?}")).collect();
            let more = if names.len() > NAMES { ", ..." } else { "" };
            write!(f, ", {} {kind} ({}{more})", names.len(), first.join(", "))?;
        }
        Ok(())
    }
}

impl FileList {
    /// The list of a data set: reads both ends of every file, on all cores. Training images that stand in for another split are listed
    /// once.
    pub fn of(dataset: &Dataset) -> Self {
        let stands_in = |split| split != Split::Train && Arc::ptr_eq(dataset.source(split), &dataset.train);
        let all: Vec<(Split, usize)> = Split::ALL
            .into_iter()
            .filter(|&split| !stands_in(split))
            .flat_map(|split| (0..dataset.source(split).len()).map(move |index| (split, index)))
            .collect();
        let listed = |&(split, index): &(Split, usize)| {
            let source = dataset.source(split);
            ListedSample {
                split,
                group: source.group(index),
                labels: match source.value(index) {
                    Some(number) => vec![number.to_string()],
                    None => source.labels(index).into_iter().map(|label| dataset.classes[label].clone()).collect(),
                },
                name: source.name_within(index).unwrap_or_else(|| source.name_of(index)),
                fingerprint: source.fingerprint(index),
            }
        };
        Self { samples: all.par_iter().map(listed).collect() }
    }

    /// As CSV, with the columns `split,group,label,path,size,crc32_of_ends`. Of several labels there are `;` between them.
    pub fn to_csv(&self) -> String {
        let mut text = HEADER.join(",");
        text.push('\n');
        for sample in &self.samples {
            let size = sample.fingerprint.map_or(String::new(), |fingerprint| fingerprint.size.to_string());
            let ends = sample.fingerprint.map_or(String::new(), |fingerprint| fingerprint.to_string());
            let (group, label) = (sample.group.as_deref().unwrap_or(""), sample.labels.join(";"));
            let fields = [sample.split.name(), group, &label, &sample.name, &size, &ends];
            text.push_str(&csv_line(fields));
            text.push('\n');
        }
        text
    }

    /// Reads back what [`FileList::to_csv`] wrote.
    ///
    /// # Errors
    /// The line and what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, (u64, String)> {
        let mut records = Records::of(text);
        let (_, header) = records.next().unwrap_or(Ok((1, vec![])))?;
        if header != HEADER.map(|name| name.as_bytes().to_vec()) {
            return Err((1, format!("the columns are not {}", HEADER.join(","))));
        }
        let samples = records.map(|record| {
            let (line, record) = record?;
            let fields: Result<Vec<String>, _> = record.into_iter().map(String::from_utf8).collect();
            let fields = fields.map_err(|error| (line, error.to_string()))?;
            let [split, group, label, name, size, ends] = fields.as_slice() else {
                return Err((line, format!("{} values stand under {} columns", fields.len(), HEADER.len())));
            };
            let fingerprint = match size.is_empty() && ends.is_empty() {
                true => None,
                false => Some(format!("{size},{ends}").parse().map_err(|error| (line, error))?),
            };
            Ok(ListedSample {
                split: split.parse().map_err(|error: kindling_given::UnknownName| (line, error.to_string()))?,
                group: (!group.is_empty()).then(|| group.clone()),
                labels: label.split(';').filter(|label| !label.is_empty()).map(str::to_owned).collect(),
                name: name.clone(),
                fingerprint,
            })
        });
        Ok(Self { samples: samples.collect::<Result<_, _>>()? })
    }

    /// The sides of its samples, for [`Opening::recorded`](crate::Opening::recorded).
    pub fn recorded(&self) -> Recorded {
        let of = |sample: &ListedSample| (sample.name.clone(), sample.split);
        let groups = self.samples.iter().filter_map(|sample| Some((sample.group.clone()?, sample.split)));
        Recorded { samples: self.samples.iter().map(of).collect(), groups: groups.collect() }
    }

    /// The differences of `now` from this list. Samples of one name, as the slices of a volume have it, are compared in their order.
    pub fn changes(&self, now: &Self) -> Changes {
        let label = |sample: &ListedSample| sample.labels.join(";");
        let mut before: BTreeMap<&str, VecDeque<&ListedSample>> = BTreeMap::new();
        for sample in &self.samples {
            before.entry(sample.name.as_str()).or_default().push_back(sample);
        }
        let mut changes = Changes::default();
        for sample in &now.samples {
            match before.get_mut(sample.name.as_str()).and_then(VecDeque::pop_front) {
                None => changes.added.push(sample.name.clone()),
                Some(old)
                    if old.fingerprint != sample.fingerprint
                        || old.group != sample.group
                        || label(old) != label(sample) =>
                {
                    changes.changed.push(sample.name.clone());
                }
                Some(old) if old.split != sample.split => changes.moved.push(sample.name.clone()),
                Some(_) => changes.unchanged += 1,
            }
        }
        changes.missing = before.into_values().flatten().map(|sample| sample.name.clone()).collect();
        for names in [&mut changes.added, &mut changes.changed, &mut changes.moved] {
            names.sort();
        }
        changes
    }

    /// How many samples of another list have the same file as one of this list's training samples, under whatever name. `None` where
    /// the samples of either are no files, so that it is not known.
    pub fn trained_on(&self, other: &Self) -> Option<usize> {
        let has_files = |list: &Self| list.samples.iter().any(|sample| sample.fingerprint.is_some());
        if !has_files(self) || !has_files(other) {
            return None;
        }
        let trained = self.samples.iter().filter(|sample| sample.split == Split::Train);
        let known: HashSet<Fingerprint> = trained.filter_map(|sample| sample.fingerprint).collect();
        Some(other.samples.iter().filter(|sample| sample.fingerprint.is_some_and(|it| known.contains(&it))).count())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sample(name: &str, split: Split, ends: u32) -> ListedSample {
        let fingerprint = Some(Fingerprint { size: 7, ends });
        ListedSample { split, group: None, labels: vec!["a".into()], name: name.into(), fingerprint }
    }

    #[test]
    fn a_list_is_read_back_as_it_was_written_whatever_files_are_called() {
        let names = ["a/0.png", "with, comma.png", "with \"marks\".png", "two\nlines.png", " spaces ", "#7"];
        let samples = names.map(|name| sample(name, Split::Val, 0xabc));
        let mut list = FileList { samples: samples.into() };
        list.samples[0].group = Some("p,1".into());
        list.samples[1].labels = vec![];
        list.samples[2].labels = vec!["a".into(), "b".into()];
        list.samples[3].fingerprint = None;
        assert_eq!(FileList::parse(list.to_csv().as_bytes()).unwrap(), list);
        for (text, line) in [
            ("path,label\n", 1),
            ("", 1),
            ("split,group,label,path,size,crc32_of_ends\ntrain,,a,x,1,2,3\n", 2),
            ("split,group,label,path,size,crc32_of_ends\nTrain,,a,x,1,00000002\n", 2),
            ("split,group,label,path,size,crc32_of_ends\ntrain,,a,x,1,zz\n", 2),
        ] {
            assert_eq!(FileList::parse(text.as_bytes()).unwrap_err().0, line, "{text}");
        }
    }

    #[test]
    fn what_was_added_removed_changed_and_moved_is_told_with_names() {
        let then = [("a", 1), ("b", 2), ("c", 3), ("d", 4)].map(|(name, ends)| sample(name, Split::Train, ends));
        let then = FileList { samples: then.into() };
        assert!(then.changes(&then).is_none());
        let mut now = then.clone();
        now.samples.remove(0);
        now.samples[0].fingerprint = Some(Fingerprint { size: 8, ends: 2 });
        now.samples[1].split = Split::Test;
        now.samples.extend(["z", "y", "x", "w"].map(|name| sample(name, Split::Val, 9)));
        let changes = then.changes(&now);
        assert_eq!(
            changes.to_string(),
            "1 unchanged, 4 added (\"w\", \"x\", \"y\", ...), 1 missing (\"a\"), 1 changed (\"b\"), \
             1 moved to another split (\"c\")"
        );
        let mut relabelled = then.clone();
        relabelled.samples[3].labels = vec!["b".into()];
        assert_eq!(then.changes(&relabelled).changed, ["d"]);
        assert_eq!(then.trained_on(&now), Some(2), "c and d, wherever they are now");
        let mut no_files = then.clone();
        no_files.samples.iter_mut().for_each(|sample| sample.fingerprint = None);
        assert_eq!([then.trained_on(&no_files), no_files.trained_on(&then)], [None, None]);
    }

    #[test]
    fn the_slices_of_a_volume_are_compared_one_by_one_although_they_share_its_name() {
        let mut then = FileList { samples: vec![sample("scan.nii", Split::Train, 1); 3] };
        then.samples[1].labels = vec!["a".into(), "b".into()];
        let same = then.changes(&then);
        assert_eq!((same.is_none(), same.unchanged), (true, 3));
        let mut fewer = then.clone();
        fewer.samples.pop();
        assert_eq!(then.changes(&fewer).missing, ["scan.nii"]);
        assert_eq!(fewer.changes(&then).added, ["scan.nii"]);
    }

    #[test]
    fn a_group_keeps_its_side_for_samples_that_are_new() {
        let mut list = FileList { samples: vec![sample("p1/0", Split::Test, 1), sample("0", Split::Val, 1)] };
        list.samples[0].group = Some("p1".into());
        let recorded = list.recorded();
        assert_eq!(recorded.side_of("p1/9", Some("p1")), Some(Split::Test));
        assert_eq!(recorded.side_of("0", None), Some(Split::Val));
        assert_eq!(recorded.side_of("1", Some("p2")), None);
    }
}
