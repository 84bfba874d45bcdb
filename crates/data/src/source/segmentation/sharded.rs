//! Shards whose samples have masks.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::declared;
use super::pairs::{Found, entries_of, survey};
use crate::error::DataError;
use crate::source::assemble::{Listed, assemble};
use crate::source::mask_numbers::Numbers;
use crate::source::shards::{Shards, Stored, root_of, stored};
use crate::source::{Format, Opened, Opening, PassedOver, Task};

/// Opens shards in which each image `KEY.png` has its mask in `KEY.mask.png`.
pub(super) fn open(path: &Path, opening: &Opening) -> Result<Opened, DataError> {
    let shards = stored(path, opening)?;
    let Some(numbers) = numbers_of(&shards)? else {
        return Err(DataError::Shard { path: path.to_owned(), reason: "there are no samples in it".to_owned() });
    };
    let images: Arc<dyn Format> = Arc::new(Shards::of_images(&shards));
    let masks: Arc<dyn Format> = Arc::new(Shards::of_masks(&shards));
    let mut found = Vec::new();
    for shard in &shards {
        for (frame, sample) in shard.samples.iter().enumerate() {
            let entry = shard.entry(frame, sample, &images);
            found.push(Found { mask: entry.part.clone(), entry, masks: masks.clone() });
        }
    }
    let (root, mut problems) = (root_of(path).to_owned(), Vec::new());
    let (numbers, present) = match numbers {
        Declared::Yes(numbers) => {
            let present = present_in(&shards, &numbers)?;
            (numbers, present)
        }
        Declared::No => survey(&root, &found, opening, &mut problems)?,
    };
    let about = format!("{} shards with masks in {}", shards.len(), path.display());
    let (path, passed_over, task) = (path.to_owned(), PassedOver::default(), Task::Segmentation);
    let (entries, classes) = entries_of(found, present, numbers);
    assemble(Listed { path, root, about, classes, task, entries, problems, passed_over }, opening)
}

/// Whether shards say what the numbers in their masks are.
enum Declared {
    Yes(Numbers),
    No,
}

/// What all samples say of the numbers in their masks; none where there are no samples.
///
/// # Errors
/// [`DataError::Shard`] for a sample without a mask, for one that says something else than the first, and for what cannot be.
fn numbers_of(shards: &[Stored]) -> Result<Option<Declared>, DataError> {
    let mut first: Option<(&str, &Option<Map<String, Value>>)> = None;
    let mut declared = None;
    for shard in shards {
        for sample in &shard.samples {
            let key = &sample.key;
            let Some(mask) = &sample.mask else {
                let reason = format!(
                    "the sample {key:?} has no mask; --task segmentation takes a {key}.mask.png for each image"
                );
                return Err(shard.wrong(reason));
            };
            match first {
                None => {
                    first = Some((key, &mask.numbers));
                    let numbers = mask.numbers.as_ref().map(|named| declared::named(named).and_then(Numbers::declared));
                    let numbers = numbers.transpose().map_err(|reason| {
                        shard.wrong(format!("the `labels` of the sample {key:?} cannot be used: {reason}"))
                    })?;
                    declared = Some(numbers.map_or(Declared::No, Declared::Yes));
                }
                Some((_, numbers)) if *numbers == mask.numbers => {}
                Some((other, _)) => {
                    let reason = format!(
                        "the `labels` of the sample {key:?} are not those of {other:?}; give all samples the same names and numbers"
                    );
                    return Err(shard.wrong(reason));
                }
            }
        }
    }
    Ok(declared)
}

/// The classes in each mask, where samples say them.
///
/// # Errors
/// [`DataError::Shard`] for a name that is no class.
fn present_in(shards: &[Stored], numbers: &Numbers) -> Result<Vec<Vec<usize>>, DataError> {
    let mut present = Vec::new();
    for shard in shards {
        for sample in &shard.samples {
            let names = sample.mask.iter().filter_map(|mask| mask.present.as_ref()).flatten();
            let class = |name: &String| {
                let class = numbers.classes.iter().position(|class| class == name);
                let key = &sample.key;
                class.ok_or_else(|| {
                    shard.wrong(format!("the sample {key:?} shows {name:?}, which is none of its classes"))
                })
            };
            let mut classes = names.map(class).collect::<Result<Vec<usize>, _>>()?;
            classes.sort_unstable();
            classes.dedup();
            present.push(classes);
        }
    }
    Ok(present)
}
