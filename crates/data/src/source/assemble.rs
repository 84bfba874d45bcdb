//! From listed images to a data set: groups, splits, and the refusal of what leaks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::entry_mask::EntryMask;
use super::{
    Dataset, Fingerprint, Format, OnBadSample, Opened, Opening, Part, PassedOver, Purpose, Slice, Source, Task, caught,
    check_sizes,
};
use crate::augment::Augment;
use crate::decode::{Image, Mask, Preprocess};
use crate::error::DataError;
use crate::split::{
    FEWEST_FOLDS, Fold, Member, Split, SplitBy, SplitRule, TooHighUp, fold_split, group_key, keyed_group_split,
    keyed_split, sample_key, shuffled_group_split, shuffled_split,
};

/// An image of a data set, with its classes, mask or number, its weight and its split.
pub(crate) struct Entry {
    pub(crate) part: Part,
    pub(crate) format: Arc<dyn Format>,
    /// Its path below the class or the manifest: where folder levels are counted.
    pub(crate) below: PathBuf,
    /// Indices of classes, sorted, without repetition. Of a mask those that are known to occur in it; splits ignore them.
    pub(crate) labels: Vec<usize>,
    pub(crate) mask: Option<EntryMask>,
    /// The number to predict, in a regression.
    pub(crate) value: Option<f64>,
    pub(crate) weight: f32,
    pub(crate) split: Option<Split>,
}

impl Entry {
    /// The name within its data set: its path from there with `/` between folders and, of several images in a file, the
    /// number, or in a shard the key. The same wherever the data set lies.
    fn name_within(&self, root: &Path) -> String {
        match self.part.frame {
            Some(_) if self.format.is_sequential() => {
                format!("{}#{}", path_within(&self.part.path, root), self.below.display())
            }
            _ => part_within(&self.part, root),
        }
    }
}

/// The name of an image within its data set: the path of its file and, of several in it, the number.
pub(crate) fn part_within(part: &Part, root: &Path) -> String {
    let path = path_within(&part.path, root);
    match part.frame {
        None => path,
        Some(frame) => format!("{path}#{frame}"),
    }
}

/// A path from the folder of its data set, with `/` between folders.
fn path_within(path: &Path, root: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// Everything about a data set but its splits.
pub(crate) struct Listed {
    /// The folder or manifest that was opened.
    pub(crate) path: PathBuf,
    /// The folder that names of samples begin in.
    pub(crate) root: PathBuf,
    /// A description of the data set, without a full stop at its end.
    pub(crate) about: String,
    pub(crate) classes: Vec<String>,
    pub(crate) task: Task,
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<DataError>,
    pub(crate) passed_over: PassedOver,
}

impl Listed {
    /// The classes that a split is to spread evenly: those of the sample. Masks are all alike.
    fn strata(&self, index: usize) -> &[usize] {
        if self.task == Task::Segmentation { &[0] } else { &self.entries[index].labels }
    }
}

/// A file whose images are still to be listed, with the labels, group, weight and split that all of them get.
pub(crate) struct Named {
    pub(crate) path: PathBuf,
    pub(crate) below: PathBuf,
    pub(crate) format: Arc<dyn Format>,
    pub(crate) labels: Vec<usize>,
    pub(crate) value: Option<f64>,
    pub(crate) group: Option<String>,
    pub(crate) weight: f32,
    pub(crate) split: Option<Split>,
}

/// Lists the images of many files, on all cores. In the order of the files; problems too. Images that are passed over are added.
pub(crate) fn list_all(
    files: Vec<Named>,
    opening: &Opening,
    passed_over: &mut PassedOver,
    name_error: impl Fn(usize, DataError) -> DataError,
) -> Result<(Vec<Entry>, Vec<DataError>), DataError> {
    let lists: Vec<_> = files
        .par_iter()
        .map(|file| {
            let list = || Ok((file.format.list(&file.path)?, file.format.passed_over(&file.path)));
            caught(|| file.path.display().to_string(), list)
        })
        .collect();
    let (mut entries, mut problems) = (Vec::with_capacity(files.len()), Vec::new());
    for (index, (file, list)) in files.into_iter().zip(lists).enumerate() {
        let unread = || Part { path: file.path.clone(), frame: None, channels: 1, group: None };
        let list = list.map(|(parts, images)| {
            passed_over.images(images);
            parts
        });
        let list = match opening.on_bad {
            OnBadSample::Skip if !opening.keep_going => list.or_else(|_| Ok(vec![unread()])),
            _ => list,
        };
        match list {
            Ok(parts) => entries.extend(parts.into_iter().map(|mut part| {
                part.group = file.group.clone().or(part.group);
                Entry {
                    part,
                    format: file.format.clone(),
                    below: file.below.clone(),
                    labels: file.labels.clone(),
                    mask: None,
                    value: file.value,
                    weight: file.weight,
                    split: file.split,
                }
            })),
            Err(error) if opening.keep_going => problems.push(name_error(index, error)),
            Err(error) => return Err(name_error(index, error)),
        }
    }
    Ok((entries, problems))
}

/// Splits and checks. Entries that bring a split keep it; if some do, all do, and what is missing is split off from train.
pub(crate) fn assemble(mut listed: Listed, opening: &Opening) -> Result<Opened, DataError> {
    let known = listed.entries.iter().any(|entry| entry.part.group.is_some());
    let given: Vec<Split> =
        Split::ALL.into_iter().filter(|split| listed.entries.iter().any(|entry| entry.split == Some(*split))).collect();
    let split_by = opening.split_by.unwrap_or(if known { SplitBy::Group } else { SplitBy::None });
    if split_by == SplitBy::Group && !known && !listed.entries.is_empty() {
        return Err(DataError::NoGroups { path: listed.path });
    }
    for entry in &mut listed.entries {
        entry.part.group = split_by
            .group_of(&entry.below, entry.part.group.as_deref())
            .map_err(|TooHighUp| DataError::NoGroup { name: entry.below.display().to_string(), split_by })?;
    }
    let mut missing: Vec<Split> =
        [Split::Val, Split::Test].into_iter().filter(|split| !given.contains(split)).collect();
    let scored = opening.purpose != Purpose::Learn;
    match opening.purpose {
        Purpose::ScoreAll => missing.clear(),
        Purpose::ScoreSplit if !given.is_empty() => missing.clear(),
        _ => {}
    }
    if let (Some(fold), false) = (opening.fold, given.is_empty()) {
        return Err(DataError::FoldOfSplits { path: listed.path, fold });
    }
    if let Some(fold) = opening.fold.filter(|fold| fold.of() < FEWEST_FOLDS) {
        return Err(DataError::TooFewFolds { path: listed.path, fold });
    }
    if !missing.is_empty() {
        divide(&mut listed, &missing, split_by, opening)?;
    }
    if !scored && listed.task != Task::Segmentation {
        check_train(&listed)?;
    }
    let leaks = if split_by == SplitBy::None || scored { vec![] } else { leaks_of(&listed.entries) };
    for leak in leaks {
        match opening.keep_going {
            true => listed.problems.push(leak),
            false => return Err(leak),
        }
    }

    let channels = listed.entries.iter().map(|entry| entry.part.channels).max().unwrap_or(1);
    let mut parts: [Vec<Entry>; 3] = Default::default();
    let otherwise = if opening.purpose == Purpose::ScoreAll { Split::Test } else { Split::Train };
    for entry in listed.entries {
        parts[entry.split.unwrap_or(otherwise) as usize].push(entry);
    }
    let root: Arc<Path> = listed.root.into();
    let [train, val, test] = parts.map(|entries| Arc::new(Files { entries, root: root.clone() }) as Arc<dyn Source>);
    let about = match (missing.is_empty(), given.is_empty()) {
        (true, true) => format!("{}; not split.", listed.about),
        _ => format!("{}; {}.", listed.about, told(&missing, split_by, listed.task, opening)),
    };
    let dataset = Dataset {
        name: name_of(&listed.path),
        about,
        classes: listed.classes,
        task: listed.task,
        channels,
        train,
        val,
        test,
        normalisation: None,
        augment: Augment::Light,
    };
    let split_here = !missing.is_empty();
    let split_by = (split_here || opening.split_by.is_some()).then_some(split_by);
    Ok(Opened { dataset, split_by, split_here, problems: listed.problems, passed_over: listed.passed_over })
}

/// Gives the samples of train, or all samples where none has a split, to train and the splits that are missing. Those whose
/// sides are recorded keep them.
fn divide(listed: &mut Listed, missing: &[Split], split_by: SplitBy, opening: &Opening) -> Result<(), DataError> {
    let open: Vec<usize> = (0..listed.entries.len())
        .filter(|&index| matches!(listed.entries[index].split, None | Some(Split::Train)))
        .collect();
    let parted = split_by == SplitBy::None;
    let group_of = |entry: &'_ Entry| entry.part.group.clone().filter(|_| !parted);
    let by_name = opening.rule == SplitRule::Keyed || opening.recorded.is_some();
    let (mut keys, mut kept) = (vec![0; listed.entries.len()], vec![None; listed.entries.len()]);
    if by_name {
        let named: Vec<(u128, Option<Split>)> = open
            .par_iter()
            .map(|&index| {
                let entry = &listed.entries[index];
                let (name, group) = (entry.name_within(&listed.root), group_of(entry));
                let kept = opening.recorded.as_ref().and_then(|recorded| recorded.side_of(&name, group.as_deref()));
                let key = match &group {
                    Some(group) => group_key(opening.seed, group),
                    None => sample_key(opening.seed, &name),
                };
                (key, kept)
            })
            .collect();
        open.iter().zip(named).for_each(|(&index, named)| (keys[index], kept[index]) = named);
    }
    if parted && listed.task != Task::MultiLabel && opening.fold.is_none() {
        divide_classes(listed, missing, &open, &keys, opening)?;
    } else {
        divide_groups(listed, missing, &open, &keys, split_by, opening)?;
    }
    for index in open {
        let entry = &mut listed.entries[index];
        entry.split = kept[index].or(entry.split);
    }
    Ok(())
}

/// [`divide`] class by class, every sample alone.
fn divide_classes(
    listed: &mut Listed,
    missing: &[Split],
    open: &[usize],
    keys: &[u128],
    opening: &Opening,
) -> Result<(), DataError> {
    let mut by_class: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &index in open {
        by_class.entry(listed.strata(index)[0]).or_default().push(index);
    }
    for (label, samples) in by_class {
        let (found, needed) = (samples.len(), 1 + missing.len());
        if found < needed {
            let (class, dir) = (listed.classes[label].clone(), listed.path.clone());
            let few = match listed.task {
                Task::Segmentation | Task::Regression => DataError::TooFewImages { dir, found, needed },
                _ => DataError::TooFewSamples { class, dir, found, needed },
            };
            match (opening.keep_going, &opening.recorded) {
                (true, _) => listed.problems.push(few),
                // Most of them, or all, have their sides.
                (false, Some(_)) => {}
                (false, None) => return Err(few),
            }
            continue;
        }
        let given: Vec<(usize, Split)> = match opening.rule {
            SplitRule::Keyed => keyed_split(samples.iter().map(|&index| (keys[index], index)).collect(), missing),
            SplitRule::Shuffled => shuffled_split(samples, missing, opening.seed, label as u64)
                .into_iter()
                .flat_map(|(split, samples)| samples.into_iter().map(move |index| (index, split)))
                .collect(),
        };
        given.into_iter().for_each(|(index, split)| listed.entries[index].split = Some(split));
    }
    Ok(())
}

/// [`divide`] group by group, and where samples have several classes.
fn divide_groups(
    listed: &mut Listed,
    missing: &[Split],
    open: &[usize],
    keys: &[u128],
    split_by: SplitBy,
    opening: &Opening,
) -> Result<(), DataError> {
    let members: Vec<Member> = open
        .iter()
        .map(|&index| {
            let entry = &listed.entries[index];
            let group = if split_by == SplitBy::None { None } else { entry.part.group.as_deref() };
            Member { labels: listed.strata(index), group, key: keys[index] }
        })
        .collect();
    let (classes, seed) = (listed.classes.len(), opening.seed);
    let given = match (opening.fold, opening.rule) {
        (Some(fold), _) => fold_split(&members, classes, fold, seed),
        (None, SplitRule::Keyed) => keyed_group_split(&members, classes, missing, seed),
        (None, SplitRule::Shuffled) => shuffled_group_split(&members, classes, missing, seed),
    };
    let needed = opening.fold.map_or(1 + missing.len(), Fold::of);
    match given {
        Some(given) => {
            open.iter().zip(given).for_each(|(&index, split)| listed.entries[index].split = Some(split));
            Ok(())
        }
        None if opening.recorded.is_some() => Ok(()),
        None if opening.fold.is_some() && split_by == SplitBy::None => {
            Err(DataError::TooFewForFolds { path: listed.path.clone(), needed })
        }
        None => Err(DataError::TooFewGroups { path: listed.path.clone(), needed, split_by }),
    }
}

/// Every class must have a sample to learn it from.
fn check_train(listed: &Listed) -> Result<(), DataError> {
    let mut learnt = vec![false; listed.classes.len()];
    for entry in listed.entries.iter().filter(|entry| matches!(entry.split, None | Some(Split::Train))) {
        entry.labels.iter().for_each(|&label| learnt[label] = true);
    }
    match learnt.iter().position(|learnt| !learnt) {
        Some(label) if listed.problems.is_empty() => {
            Err(DataError::NothingToLearn { class: listed.classes[label].clone(), path: listed.path.clone() })
        }
        _ => Ok(()),
    }
}

/// The first pair of samples of every group that is on two sides.
fn leaks_of(entries: &[Entry]) -> Vec<DataError> {
    let mut first: BTreeMap<&str, (Option<Split>, &Entry)> = BTreeMap::new();
    let mut leaks: BTreeMap<&str, DataError> = BTreeMap::new();
    for entry in entries {
        let Some(group) = entry.part.group.as_deref() else { continue };
        let (split, other) = first.entry(group).or_insert((entry.split, entry));
        if *split != entry.split {
            leaks.entry(group).or_insert_with(|| DataError::Leak {
                group: group.to_owned(),
                one: (other.part.name(), split.unwrap_or(Split::Train)),
                other: (entry.part.name(), entry.split.unwrap_or(Split::Train)),
            });
        }
    }
    leaks.into_values().collect()
}

fn told(missing: &[Split], split_by: SplitBy, task: Task, opening: &Opening) -> String {
    let Opening { fold, seed, .. } = opening;
    let (alone, evenly) = match task {
        Task::Segmentation | Task::Regression => ("image by image", ""),
        _ => ("class by class", ", stratified"),
    };
    let how = match split_by {
        SplitBy::None => alone.to_owned(),
        SplitBy::Group => format!("no group on two sides{evenly}"),
        SplitBy::Folder(level) => format!("no folder of level {level} on two sides{evenly}"),
    };
    if let Some(fold) = fold {
        return format!("fold {fold} of a cross-validation with seed {seed}, {how}");
    }
    match missing {
        [] => "split as it says itself".to_owned(),
        [one] => format!("{one} split off from train with seed {seed}, {how}"),
        _ => format!("val and test split off with seed {seed}, {how}"),
    }
}

/// The last part of a path, or all of it.
fn name_of(path: &Path) -> String {
    let name = path.canonicalize().ok().and_then(|full| Some(full.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| path.display().to_string())
}

/// Images in files, with their labels.
struct Files {
    entries: Vec<Entry>,
    root: Arc<Path>,
}

impl Files {
    fn entry(&self, index: usize) -> Result<&Entry, DataError> {
        self.entries.get(index).ok_or(DataError::OutOfRange { index, len: self.entries.len() })
    }
}

impl Source for Files {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn label(&self, index: usize) -> usize {
        self.entries[index].labels.first().copied().unwrap_or(0)
    }

    fn labels(&self, index: usize) -> Vec<usize> {
        self.entries[index].labels.clone()
    }

    fn value(&self, index: usize) -> Option<f64> {
        self.entries[index].value
    }

    fn group(&self, index: usize) -> Option<String> {
        self.entries[index].part.group.clone()
    }

    fn weight(&self, index: usize) -> f32 {
        self.entries[index].weight
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let entry = self.entry(index)?;
        entry.format.read(&entry.part)
    }

    fn read_fitted(&self, index: usize, preprocess: &Preprocess) -> Result<Image, DataError> {
        let entry = self.entry(index)?;
        entry.format.read_fitted(&entry.part, preprocess)
    }

    fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
        let entry = self.entry(index)?;
        let mask = entry.mask.as_ref().ok_or_else(|| DataError::NoMask { name: entry.part.name() })?;
        mask.read()
    }

    fn read_with_mask(&self, index: usize, preprocess: &Preprocess) -> Result<(Image, Mask), DataError> {
        let entry = self.entry(index)?;
        let mask = self.read_mask(index)?;
        let check = |size| check_sizes(|| entry.part.name(), size, (mask.width, mask.height));
        let image = match entry.format.size(&entry.part)? {
            Some(size) => {
                check(size)?;
                entry.format.read_fitted(&entry.part, preprocess)?
            }
            None => {
                let image = entry.format.read(&entry.part)?;
                check((image.width, image.height))?;
                preprocess.fit_owned(image)
            }
        };
        Ok((image, preprocess.fit_mask(&mask)))
    }

    fn name_of(&self, index: usize) -> String {
        self.entries[index].part.name()
    }

    fn name_within(&self, index: usize) -> Option<String> {
        Some(self.entries[index].name_within(&self.root))
    }

    fn fingerprint(&self, index: usize) -> Option<Fingerprint> {
        let entry = &self.entries[index];
        let image = entry.format.fingerprint(&entry.part).ok()?;
        match &entry.mask {
            None => Some(image),
            Some(mask) => Some(image.with(mask.format.fingerprint(&mask.part).ok()?)),
        }
    }

    fn slice(&self, index: usize) -> Result<Option<Slice>, DataError> {
        let part = &self.entry(index)?.part;
        let slice = self.entries[index].format.slice(part)?;
        let named = |slice: Slice| {
            let volume = slice.volume.unwrap_or_else(|| path_within(&part.path, &self.root));
            Slice { volume: Some(volume), ..slice }
        };
        Ok(slice.map(named))
    }

    fn stretches(&self) -> Vec<usize> {
        if !self.entries.iter().all(|entry| entry.format.is_sequential()) {
            return Vec::new();
        }
        let same = |one: &Entry, other: &Entry| one.part.path == other.part.path;
        self.entries.chunk_by(same).map(<[Entry]>::len).collect()
    }

    fn file(&self, index: usize) -> Option<&Path> {
        let part = &self.entries[index].part;
        part.frame.is_none().then_some(&*part.path)
    }
}
