//! Images with their masks, from files to what is split and read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::names::Names;
use super::wrong;
use crate::error::DataError;
use crate::source::assemble::{Entry, Listed, assemble};
use crate::source::entry_mask::EntryMask;
use crate::source::mask_numbers::Numbers;
use crate::source::{Format, OnBadSample, Opened, Opening, Part, PassedOver, Purpose, Task, caught};
use crate::split::Split;

/// A file with its mask, and what is said about all its images.
pub(super) struct Pair {
    pub(super) image: PathBuf,
    pub(super) mask: PathBuf,
    /// Path of the image from the folder in which `--split-by folder` counts levels.
    pub(super) below: PathBuf,
    /// Name of the case: the group of its images, if there are several and nothing else names a group.
    pub(super) case: String,
    pub(super) group: Option<String>,
    pub(super) weight: f32,
    pub(super) split: Option<Split>,
}

/// A data set of pairs, before anything is split.
pub(super) struct Paired {
    /// The folder or manifest that was opened.
    pub(super) path: PathBuf,
    /// The folder that names of samples begin in.
    pub(super) root: PathBuf,
    /// A description of the data set, without a full stop at its end.
    pub(super) about: String,
    pub(super) pairs: Vec<Pair>,
    /// What was declared; otherwise all masks are read to find it.
    pub(super) numbers: Option<Numbers>,
    pub(super) problems: Vec<DataError>,
    pub(super) passed_over: PassedOver,
}

/// An image and its mask whose numbers are not known yet.
pub(super) struct Found {
    pub(super) entry: Entry,
    pub(super) mask: Part,
    pub(super) masks: Arc<dyn Format>,
}

/// Lists the images and masks of all files, finds the classes, and splits. `name_error` says more about what is wrong with a pair.
pub(super) fn open(
    paired: Paired,
    opening: &Opening,
    name_error: impl Fn(usize, DataError) -> DataError,
) -> Result<Opened, DataError> {
    let Paired { path, root, about, pairs, numbers, mut problems, mut passed_over } = paired;
    let mut found = Vec::with_capacity(pairs.len());
    let lists: Vec<Result<Vec<Found>, DataError>> = pairs.par_iter().map(|pair| list(pair, opening)).collect();
    for (index, (pair, list)) in pairs.iter().zip(lists).enumerate() {
        match list {
            Ok(list) => found.extend(list),
            Err(error) if opening.keep_going => problems.push(name_error(index, error)),
            Err(_) if opening.on_bad == OnBadSample::Skip => found.extend(unread(pair, opening)),
            Err(error) => return Err(name_error(index, error)),
        }
        passed_over.images(opening.format_of(&pair.image).map_or(0, |format| format.passed_over(&pair.image)));
    }
    let names = Names::of(&pairs.iter().map(|pair| &pair.mask).collect(), opening)?;
    let (numbers, present) = match numbers {
        Some(numbers) => {
            names.check(&numbers)?;
            (numbers, vec![Vec::new(); found.len()])
        }
        None => {
            let (mut numbers, present) = survey(&root, &found, opening, &mut problems)?;
            names.name(&mut numbers);
            (numbers, present)
        }
    };
    let (entries, classes) = entries_of(found, present, numbers);
    assemble(Listed { path, root, about, classes, task: Task::Segmentation, entries, problems, passed_over }, opening)
}

/// Images with their masks, which classes are in each, and the names of all classes.
pub(super) fn entries_of(found: Vec<Found>, present: Vec<Vec<usize>>, numbers: Numbers) -> (Vec<Entry>, Vec<String>) {
    let (classes, numbers) = (numbers.classes.clone(), Arc::new(numbers));
    let entries = found.into_iter().zip(present).map(|(found, labels)| {
        let mask = EntryMask { part: found.mask, format: found.masks, numbers: numbers.clone() };
        Entry { labels, mask: Some(mask), ..found.entry }
    });
    (entries.collect(), classes)
}

/// The formats of both files of a pair.
fn formats(pair: &Pair, opening: &Opening) -> Result<[Arc<dyn Format>; 2], DataError> {
    let of = |path: &Path| {
        if !path.is_file() {
            let cause = std::io::ErrorKind::NotFound.into();
            return Err(DataError::Io { path: path.to_owned(), cause });
        }
        opening.format_of(path).ok_or_else(|| wrong(path, "it is of no kind that is understood".to_owned()))
    };
    Ok([of(&pair.image)?, of(&pair.mask)?])
}

/// The images of a pair, each with its mask.
fn list(pair: &Pair, opening: &Opening) -> Result<Vec<Found>, DataError> {
    let [images, masks] = formats(pair, opening)?;
    let name = || pair.image.display().to_string();
    let parts = caught(name, || images.list_with_masks(&pair.image, &pair.mask, masks.as_ref()))?;
    let several = parts.len() > 1;
    let found = |(image, mask): (Part, Part)| {
        // What a file calls itself for want of a patient says where it lies, and splits must not depend on that.
        let said = image.group.filter(|group| *group != name());
        let group = pair.group.clone().or(said).or_else(|| several.then(|| pair.case.clone()));
        Found { entry: entry(pair, Part { group, ..image }, images.clone()), mask, masks: masks.clone() }
    };
    Ok(parts.into_iter().map(found).collect())
}

fn entry(pair: &Pair, part: Part, format: Arc<dyn Format>) -> Entry {
    let (below, weight, split) = (pair.below.clone(), pair.weight, pair.split);
    Entry { part, format, below, labels: Vec::new(), mask: None, value: None, weight, split }
}

/// A pair that cannot be listed, as one image whose reading fails when its turn comes; `None` if no format claims its files.
fn unread(pair: &Pair, opening: &Opening) -> Option<Found> {
    let [images, masks] = [&pair.image, &pair.mask].map(|path| opening.format_of(path));
    let part = |path: &Path| Part { path: path.to_owned(), frame: None, channels: 1, group: pair.group.clone() };
    Some(Found { entry: entry(pair, part(&pair.image), images?), mask: part(&pair.mask), masks: masks? })
}

/// Reads all masks for their numbers, on all cores. Returns what these stand for, and the classes of each mask.
pub(super) fn survey(
    root: &Path,
    found: &[Found],
    opening: &Opening,
    problems: &mut Vec<DataError>,
) -> Result<(Numbers, Vec<Vec<usize>>), DataError> {
    let numbers_of = |found: &Found| {
        let values = caught(|| found.mask.name(), || found.masks.read_mask_values(&found.mask))?.values;
        let mut seen = vec![false; 1 << 16];
        values.iter().for_each(|value| seen[usize::from(*value)] = true);
        Ok((0..=u16::MAX).filter(|number| seen[usize::from(*number)]).collect::<Vec<u16>>())
    };
    let lists: Vec<Result<Vec<u16>, DataError>> = found.par_iter().map(numbers_of).collect();
    let mut all = Vec::with_capacity(lists.len());
    for list in lists {
        match list {
            Ok(list) => all.push(list),
            Err(error) if opening.keep_going => {
                problems.push(error);
                all.push(Vec::new());
            }
            Err(_) if opening.on_bad == OnBadSample::Skip => all.push(Vec::new()),
            Err(error) => return Err(error),
        }
    }
    let distinct: BTreeSet<u16> = all.iter().flatten().copied().collect();
    let numbers = Numbers::found(&distinct, opening.purpose == Purpose::Learn).map_err(|reason| wrong(root, reason))?;
    let classes =
        |list: Vec<u16>| list.into_iter().filter_map(|number| numbers.class_of(number)).map(usize::from).collect();
    let present = all.into_iter().map(classes).collect();
    Ok((numbers, present))
}
