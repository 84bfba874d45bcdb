//! What can be found wrong with a data set before a night is spent on it: files that cannot be read, images that are
//! there twice, groups and images on two sides of a split, classes that a split lacks, masks without anything in them.

mod masks;
mod outlines;
pub mod sheet;

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest, Sha256};

use self::masks::{MaskLook, lacking};
use crate::decode::{Depth, Image, depth_of};
use crate::error::DataError;
use crate::source::{Dataset, Source, Task, ValueSummary, guarded};
use crate::split::Split;

pub use self::masks::Masks;

/// What a check of a whole data set has found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the data set.
    pub name: String,
    /// Description of the data set, and how it was split.
    pub about: String,
    /// Names of the classes, in the order of their indices.
    pub classes: Vec<String>,
    /// Whether a sample has one class or any number.
    pub task: Task,
    /// Samples of each split.
    pub samples: BTreeMap<&'static str, usize>,
    /// Samples of each class in each split; of masks the number that it occurs in.
    pub by_class: BTreeMap<&'static str, Vec<usize>>,
    /// Groups of each split; empty where the data knows none.
    pub groups: BTreeMap<&'static str, usize>,
    /// How many images have a size: `width x height x channels`.
    pub sizes: BTreeMap<String, usize>,
    /// How many images need 8 bits, 16 bits or a float to hold their values exactly.
    pub depths: BTreeMap<&'static str, usize>,
    /// Mean of all pixels that could be read, by channel, in `[0, 1]`; three values if any image has colours.
    pub mean: Vec<f64>,
    /// Standard deviation of the same pixels, by channel.
    pub std: Vec<f64>,
    /// Samples that cannot be read, with the reason; what kept files from being listed comes first.
    pub unreadable: Vec<String>,
    /// Groups on two sides, one sentence each.
    pub leaks: Vec<String>,
    /// Classes that a split lacks, one sentence each.
    pub lacking: Vec<String>,
    /// Images that are there more than once.
    pub duplicates: Vec<Duplicate>,
    /// The numbers of each split, where samples have some.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<&'static str, ValueSummary>,
    /// What else was found about masks, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masks: Option<Masks>,
}

/// Samples with the very same pixels.
#[derive(Clone, Debug, Serialize)]
pub struct Duplicate {
    /// Their names, with their splits.
    pub samples: Vec<(String, Split)>,
    /// They are in different splits: the score will be too good.
    pub across_splits: bool,
    /// They are said to be of different classes, or have different numbers or masks: one of them is wrong.
    pub contradicting: bool,
}

impl Report {
    /// Whether nothing is wrong. Copies within a split that agree on their class are told, but are not wrong.
    pub fn is_sound(&self) -> bool {
        self.unreadable.is_empty()
            && self.leaks.is_empty()
            && self.lacking.is_empty()
            && self.duplicates.iter().all(|duplicate| !duplicate.across_splits && !duplicate.contradicting)
    }
}

/// What the check keeps of an image to compare it with others.
struct Look {
    hash: [u8; 32],
    size: (usize, usize, usize),
    depth: Depth,
    /// Sum and sum of squares of each channel.
    sums: Vec<(f64, f64)>,
    mask: Option<MaskLook>,
}

/// Reads every sample, on all cores, and compares them. `problems` is what opening the data set found
/// ([`Opened::problems`](crate::Opened::problems)); `progress` is called after every sample.
pub fn check(dataset: &Dataset, problems: &[DataError], progress: impl Fn() + Sync) -> Report {
    let all: Vec<(Split, usize)> =
        Split::ALL.into_iter().flat_map(|split| (0..dataset.source(split).len()).map(move |at| (split, at))).collect();
    let looks: Vec<Result<Look, String>> = all
        .par_iter()
        .map(|&(split, index)| {
            let look = look(dataset, split, index);
            progress();
            look.map_err(|error| error.to_string())
        })
        .collect();

    let (mut leaks, mut unreadable) = (Vec::new(), Vec::new());
    for problem in problems {
        match problem {
            DataError::Leak { .. } => leaks.push(problem.to_string()),
            _ => unreadable.push(problem.to_string()),
        }
    }
    let groups = groups_of(dataset, problems, &mut leaks);
    let (mut sizes, mut depths) = (BTreeMap::new(), BTreeMap::new());
    let mut same: HashMap<[u8; 32], Vec<usize>> = HashMap::new();
    let mut totals: Vec<(f64, f64, f64)> = Vec::new();
    let colours = looks.iter().flatten().any(|look| look.sums.len() > 1);
    for (at, look) in looks.iter().enumerate() {
        let look = match look {
            Ok(look) => look,
            Err(error) => {
                unreadable.push(error.clone());
                continue;
            }
        };
        let (width, height, channels) = look.size;
        *sizes.entry(format!("{width} x {height} x {channels}")).or_insert(0) += 1;
        *depths.entry(look.depth.name()).or_insert(0) += 1;
        same.entry(look.hash).or_default().push(at);
        totals.resize(if colours { 3 } else { 1 }, (0.0, 0.0, 0.0));
        for (channel, total) in totals.iter_mut().enumerate() {
            // Grey counts as equal colours.
            let (sum, squares) = look.sums[channel.min(look.sums.len() - 1)];
            *total = (total.0 + sum, total.1 + squares, total.2 + (width * height) as f64);
        }
    }
    let mut copies: Vec<Vec<usize>> = same.into_values().filter(|copies| copies.len() > 1).collect();
    copies.sort();
    let duplicates = copies.into_iter().map(|copies| duplicate_of(dataset, &all, &looks, &copies)).collect();
    let mean: Vec<f64> = totals.iter().map(|(sum, _, count)| sum / count).collect();
    let std =
        totals.iter().zip(&mean).map(|((_, squares, count), mean)| (squares / count - mean * mean).max(0.0).sqrt());
    let samples = Split::ALL.map(|split| (split.name(), dataset.source(split).len())).into();
    let (masks, by_class, lacking) = if dataset.task == Task::Segmentation {
        let found = all.iter().zip(&looks).filter_map(|(at, look)| Some((at.0, look.as_ref().ok()?.mask.as_ref()?)));
        let (masks, by_class) = Masks::of(found, dataset.classes.len());
        let lacking = lacking(&dataset.classes, &by_class, &samples);
        (Some(masks), by_class, lacking)
    } else {
        let by_class = Split::ALL.map(|split| (split.name(), dataset.class_counts(split))).into();
        (None, by_class, dataset.lacking())
    };
    let values = Split::ALL.into_iter().filter_map(|split| Some((split.name(), dataset.value_summary(split)?)));
    Report {
        name: dataset.name.clone(),
        about: dataset.about.clone(),
        classes: dataset.classes.clone(),
        task: dataset.task,
        samples,
        by_class,
        groups,
        sizes,
        depths,
        std: std.collect(),
        mean,
        unreadable,
        leaks,
        lacking,
        duplicates,
        values: values.collect(),
        masks,
    }
}

/// Reads a sample, with its mask where there are any.
fn look(dataset: &Dataset, split: Split, index: usize) -> Result<Look, DataError> {
    let source: &dyn Source = dataset.source(split).as_ref();
    guarded(source, index, || {
        let image = source.read(index)?;
        let mask = match dataset.task {
            Task::Segmentation => Some(MaskLook::of(source, index, &image, dataset.classes.len())?),
            _ => None,
        };
        Ok(Look { mask, ..look_at(&image) })
    })
}

fn look_at(image: &Image) -> Look {
    let mut hash = Sha256::new();
    hash.update(format!("{} {} {} ", image.width, image.height, image.channels));
    for values in image.pixels.chunks(4096) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        hash.update(&bytes);
    }
    let mut sums = vec![(0.0, 0.0); image.channels];
    for pixel in image.pixels.chunks_exact(image.channels) {
        for (sum, &value) in sums.iter_mut().zip(pixel) {
            *sum = (sum.0 + f64::from(value), sum.1 + f64::from(value) * f64::from(value));
        }
    }
    let size = (image.width, image.height, image.channels);
    Look { hash: hash.finalize().into(), size, depth: depth_of(image), sums, mask: None }
}

/// The number of groups of each split. Groups on two sides that opening did not find are added to the leaks.
fn groups_of(dataset: &Dataset, problems: &[DataError], leaks: &mut Vec<String>) -> BTreeMap<&'static str, usize> {
    let mut first: BTreeMap<String, (Split, String)> = BTreeMap::new();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut told: Vec<String> = problems
        .iter()
        .filter_map(|problem| if let DataError::Leak { group, .. } = problem { Some(group.clone()) } else { None })
        .collect();
    for split in Split::ALL {
        let source = dataset.source(split);
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..source.len() {
            let Some(group) = source.group(index) else { continue };
            let name = source.name_of(index);
            let (side, other) = first.entry(group.clone()).or_insert_with(|| (split, name.clone())).clone();
            if side != split && !told.contains(&group) {
                let (one, other) = ((other, side), (name, split));
                leaks.push(DataError::Leak { group: group.clone(), one, other }.to_string());
                told.push(group.clone());
            }
            seen.insert(group);
        }
        if !seen.is_empty() {
            counts.insert(split.name(), seen.len());
        }
    }
    counts
}

fn duplicate_of(
    dataset: &Dataset,
    all: &[(Split, usize)],
    looks: &[Result<Look, String>],
    copies: &[usize],
) -> Duplicate {
    let of = |at: &usize| (all[*at].0, dataset.source(all[*at].0), all[*at].1);
    // What a sample is said to be.
    let said = |at: &usize| {
        let (_, source, index) = of(at);
        let mask = looks[*at].as_ref().ok().and_then(|look| look.mask.as_ref());
        (source.labels(index), source.value(index), mask.map(|mask| mask.hash))
    };
    let first = said(&copies[0]);
    Duplicate {
        samples: copies.iter().map(of).map(|(split, source, index)| (source.name_of(index), split)).collect(),
        across_splits: copies.iter().any(|at| all[*at].0 != all[copies[0]].0),
        contradicting: copies.iter().any(|at| said(at) != first),
    }
}
