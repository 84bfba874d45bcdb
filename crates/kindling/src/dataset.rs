//! Data sets by name, or by the path of a folder, a manifest or shards.

use std::convert::Infallible;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use etcetera::BaseStrategy;
use kindling_data::{
    Asked, Dataset, Fold, Format, OnBadSample, Opened, Opening, Pages, PassedOver, SplitBy, SplitRule, Task, Usual,
    open_images, open_path, open_segmentation,
};
use kindling_runs::RunDir;
use kindling_scans::{Dicom, Nifti, Window};
use serde::{Deserialize, Deserializer, Serialize};

/// A data set that has a name.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What it costs to have.
    pub(crate) needs: &'static str,
    /// How a run on it trains, and how one that segments does.
    usual: [Usual; 2],
}

/// Every data set with a name, in the order they are listed.
pub(crate) const NAMED: [Named; 5] = [
    Named {
        name: PHANTOMS,
        about: "synthetic 512x512 scans with a small lesion: none, round or spiculated",
        needs: "nothing: made on the fly",
        usual: [kindling_phantoms::USUAL, kindling_phantoms::USUAL_WITH_MASKS],
    },
    Named {
        name: BRAIN_MRI_ORIENTATION,
        about: "slices of real T1 MR volumes: sagittal, coronal or axial",
        needs: "scripts/fetch-brain-mri-orientation.sh, once",
        usual: [kindling_brain_mri_orientation::USUAL, Usual::NOTHING],
    },
    Named {
        name: BRAIN_PARTS,
        about: "slices of real T1 MR volumes with masks of cerebrum and cerebellum",
        needs: "scripts/fetch-brain-parts.sh, once",
        usual: [kindling_brain_parts::USUAL; 2],
    },
    Named {
        name: FASHION_MNIST,
        about: "28x28 grey pictures of clothes in ten classes",
        needs: "scripts/fetch-fashion-mnist.sh, once",
        usual: [Usual::NOTHING; 2],
    },
    Named {
        name: "pathmnist",
        about: "and the eleven other 2-D sets of MedMNIST, also as pathmnist_64, _128, _224",
        needs: "the published .npz, put there by you",
        usual: [Usual::NOTHING; 2],
    },
];

pub(crate) const PHANTOMS: &str = "phantoms";
pub(crate) const BRAIN_MRI_ORIENTATION: &str = "brain-mri-orientation";
pub(crate) const BRAIN_PARTS: &str = "brain-parts";
pub(crate) const FASHION_MNIST: &str = "fashion-mnist";

/// Data sets under the names that earlier versions gave them, and today's. Configurations and habits keep the old ones.
const EARLIER_NAMES: [(&str, &str); 1] = [("brain-planes", BRAIN_MRI_ORIENTATION)];

/// Seed of the phantoms themselves. Not the run's: two seeds of one experiment must see the same images.
const PHANTOM_SEED: u64 = 0;

/// How a data set is opened and split.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HowToOpen {
    /// What stays on one side of a split that is made here: none, group (the manifest's column, or DICOM's patient), folder
    /// (below the class) or folder:2 [default: group where the data knows groups, otherwise none]
    #[arg(long, value_name = "WHAT", help_heading = "What")]
    #[serde(default, with = "kindling_given::auto")]
    pub(crate) split_by: Option<SplitBy>,
    /// Centre and width of the values of a DICOM image that are shown, as in 40,400 [default: the file's own window]
    #[arg(long, value_name = "CENTRE,WIDTH", help_heading = "What", allow_hyphen_values = true)]
    #[serde(default, with = "kindling_given::auto")]
    pub(crate) window: Option<Window>,
    /// Take every page of a TIFF and every frame of an animation (GIF, PNG, WebP) as a sample, those of a file on one side of a
    /// split, instead of the first alone
    #[arg(long, help_heading = "What")]
    #[serde(default)]
    pub(crate) pages: bool,
    /// One fold of a cross-validation, 1/5 to 5/5 or of another number of folds, 3 to 1000: of as many parts of what brings no splits,
    /// the first, second ... is test, the one after it val, and the rest train. Where the data brings folds, one of those, however few
    #[arg(long, value_name = "K/N", help_heading = "What")]
    #[serde(default, with = "kindling_given::none")]
    pub(crate) fold: Option<Fold>,
    /// What is asked about an image: classification (which class it is, or which classes it has, as the data says), multi-label (which
    /// classes it has), ordinal (which class of classes in order: grades), regression (a number, from a manifest) or segmentation
    /// (which class each pixel is; the data has a mask for each image) [default: what --target, --class-order or --model say,
    /// otherwise classification]
    #[arg(long, value_name = "TASK", value_enum, help_heading = "What")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<AskedTask>,
    /// The column of the manifest whose numbers --task regression learns [default: label]
    #[arg(long, value_name = "COLUMN", help_heading = "What")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
    /// The classes of --task ordinal from the least to the greatest, as in none,mild,severe [default: the order of numbers]
    #[arg(long, value_name = "CLASSES", value_delimiter = ',', help_heading = "What", conflicts_with = "target")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class_order: Option<Vec<String>>,
    /// How what brings no splits is split: by name today, and as earlier versions did where a configuration says nothing.
    #[arg(skip = SplitRule::Keyed)]
    #[serde(default, skip_serializing_if = "is_shuffled")]
    pub(crate) split_rule: SplitRule,
}

/// The column that is meant where none is named.
const LABEL: &str = "label";

/// What is asked about an image.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AskedTask {
    /// Which class it is, or which classes it has
    Classification,
    /// Which classes it has
    MultiLabel,
    /// Which class it is of classes in order
    Ordinal,
    /// Which number it has
    Regression,
    /// Which class each pixel is
    Segmentation,
}

/// What a data set with this name says of how a run on it trains, or one that segments; nothing of what has no name.
pub(crate) fn usual(name: &str, segments: bool) -> Usual {
    let named = NAMED.iter().find(|set| set.name == name);
    named.map_or(Usual::NOTHING, |set| set.usual[usize::from(segments)])
}

/// A usual setting of every data set that has one, for a help text: `4 for phantoms, 30 for brain-parts`.
pub(crate) fn told_of_usual<T: Display + PartialEq>(setting: impl Fn(&Usual) -> Option<T>) -> String {
    let of_set = |Named { name, usual: [all, masks], .. }: &Named| match (setting(all), setting(masks)) {
        (Some(value), of_masks) if of_masks.as_ref().is_none_or(|other| *other == value) => {
            Some(format!("{value} for {name}"))
        }
        (Some(value), Some(of_masks)) => Some(format!("{value} for {name}, {of_masks} for their masks")),
        (None, Some(of_masks)) => Some(format!("{of_masks} for the masks of {name}")),
        _ => None,
    };
    NAMED.iter().filter_map(of_set).collect::<Vec<_>>().join(", ")
}

/// Whether a rule is what a configuration means that says nothing.
pub(crate) fn is_shuffled(rule: &SplitRule) -> bool {
    *rule == SplitRule::Shuffled
}

/// The rule as it is written down once the data set is open: where it mattered.
pub(crate) fn rule_of(opened: &Opened, rule: SplitRule) -> SplitRule {
    if opened.split_here { rule } else { SplitRule::default() }
}

/// Today's name of a data set that had another one; everything else, such as a path, as it is.
pub(crate) fn todays_name(name: &str) -> String {
    EARLIER_NAMES.iter().find(|(earlier, _)| *earlier == name).map_or(name, |(_, today)| today).to_string()
}

/// As [`todays_name`], for what a flag is given.
pub(crate) fn parse_name(name: &str) -> Result<String, Infallible> {
    Ok(todays_name(name))
}

/// As [`todays_name`], for the configuration of a run.
pub(crate) fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|name| todays_name(&name))
}

impl HowToOpen {
    /// As it is where no flag says anything: what has no splits is split by name. (The `Default` is what a configuration means that
    /// says nothing, which an earlier version wrote.)
    pub(crate) fn unsaid() -> Self {
        Self { split_rule: SplitRule::Keyed, ..Self::default() }
    }

    /// As it is written down once the data set is open: what stayed together, and the rule where it mattered.
    pub(crate) fn resolved(self, opened: &Opened) -> Self {
        let task = self.task();
        Self { split_by: opened.split_by, split_rule: rule_of(opened, self.split_rule), task, ..self }
    }

    /// Whether each pixel has a class.
    pub(crate) fn segments(&self) -> bool {
        self.task == Some(AskedTask::Segmentation)
    }

    /// The task that is asked for, if it is not what the data says: that of `--task`, or what the other flags belong to.
    pub(crate) fn task(&self) -> Option<AskedTask> {
        let implied = match (&self.target, &self.class_order) {
            (Some(_), _) => Some(AskedTask::Regression),
            (None, Some(_)) => Some(AskedTask::Ordinal),
            (None, None) => None,
        };
        self.task.or(implied).filter(|task| *task != AskedTask::Classification)
    }

    /// Fails where flags belong to another task.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check_task(&self) -> Result<()> {
        let belongs = [
            ("--target", self.target.is_some(), AskedTask::Regression, "regression"),
            ("--class-order", self.class_order.is_some(), AskedTask::Ordinal, "ordinal"),
        ];
        for (flag, is_given, task, name) in belongs {
            if is_given && self.task.is_some_and(|given| given != task) {
                bail!("{flag} belongs to --task {name}");
            }
        }
        Ok(())
    }

    /// What is asked of files that bring no masks.
    fn asked(&self) -> Asked {
        match self.task() {
            Some(AskedTask::MultiLabel) => Asked::MultiLabel,
            Some(AskedTask::Ordinal) => Asked::Ordinal { order: self.class_order.clone() },
            Some(AskedTask::Regression) => {
                Asked::Regression { column: self.target.clone().unwrap_or_else(|| LABEL.to_string()) }
            }
            None | Some(AskedTask::Classification | AskedTask::Segmentation) => Asked::Unsaid,
        }
    }

    /// The kinds of files that are understood besides pictures, and pictures where they are read in another way.
    pub(crate) fn formats(&self) -> Vec<Arc<dyn Format>> {
        let mut formats: Vec<Arc<dyn Format>> =
            vec![Arc::new(Dicom::with_window(self.window)), Arc::new(Nifti::default())];
        if self.pages {
            formats.push(Arc::new(Pages));
        }
        formats
    }
}

/// Opens a data set by its name, or a folder, a manifest or shards by their path.
pub(crate) fn open_with(name: &str, seed: u64, how: &HowToOpen) -> Result<Opened> {
    open_to(name, seed, how, OnBadSample::Fail)
}

/// As [`open_with`], for a run that may skip what cannot be read.
pub(crate) fn open_to(name: &str, seed: u64, how: &HowToOpen, on_bad: OnBadSample) -> Result<Opened> {
    open_any(name, how, Opening { on_bad, ..Opening::new(seed) })
}

/// As [`open_with`], but goes on after what is wrong and lists it.
pub(crate) fn inspect(name: &str, seed: u64, how: &HowToOpen) -> Result<Opened> {
    open_any(name, how, Opening { keep_going: true, ..Opening::new(seed) })
}

/// Whether two names or paths are of the same data.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(todays_name);
    let full = |name: &str| Path::new(name).canonicalize().ok().filter(|_| !is_named(name));
    one == other || full(&one).is_some_and(|path| full(&other) == Some(path))
}

/// As [`open_with`], with everything else that an [`Opening`] says.
pub(crate) fn open_any(name: &str, how: &HowToOpen, opening: Opening) -> Result<Opened> {
    how.check_task()?;
    let name = todays_name(name);
    let name = name.as_str();
    let named = match name {
        PHANTOMS if how.segments() => Some(kindling_phantoms::segmentation_dataset(PHANTOM_SEED)),
        BRAIN_PARTS => Some(kindling_brain_parts::dataset(&cache()?)?),
        _ if how.segments() && is_named(name) => {
            bail!(
                "{name} has no masks; --task segmentation takes {PHANTOMS}, {BRAIN_PARTS}, folders of images and masks, or a manifest or \
                 shards with masks"
            )
        }
        PHANTOMS => Some(kindling_phantoms::dataset(PHANTOM_SEED)),
        BRAIN_MRI_ORIENTATION => Some(kindling_brain_mri_orientation::dataset(&cache()?)?),
        FASHION_MNIST => Some(kindling_fashion_mnist::dataset(&cache()?)?),
        _ if kindling_medmnist::knows(name) => Some(kindling_medmnist::dataset(name, &cache()?)?),
        _ => None,
    };
    if let Some(dataset) = named {
        let flags = [
            ("--split-by", how.split_by.is_some()),
            ("--window", how.window.is_some()),
            ("--pages", how.pages),
            ("--fold", how.fold.is_some()),
            ("--target", how.target.is_some()),
            ("--class-order", how.class_order.is_some()),
        ];
        for (flag, given) in flags {
            if given {
                bail!("{flag} is for folders, manifests and shards; {name} brings its own");
            }
        }
        return Ok(as_it_is(asked_of(dataset, how)?));
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains(['/', '\\', '.']) {
        let known: Vec<&str> = NAMED.iter().map(|set| set.name).collect();
        bail!("there is no data set `{name}` and no such folder; known sets are {}", known.join(", "));
    }
    let (split_by, rule, formats) = (how.split_by, how.split_rule, how.formats());
    let asked = how.asked();
    let opening = Opening { split_by, rule, fold: how.fold, formats, asked, cache: cache().ok(), ..opening };
    Ok(if how.segments() { open_segmentation(path, &opening)? } else { open_path(path, &opening)? })
}

/// A data set that has a name, with the task that is asked for.
fn asked_of(dataset: Dataset, how: &HowToOpen) -> Result<Dataset> {
    if dataset.task == Task::Segmentation && how.task.is_some_and(|task| task != AskedTask::Segmentation) {
        bail!("{}", only_segments(&dataset.name));
    }
    let task = match how.task() {
        Some(AskedTask::Ordinal) if dataset.task.is_single_label() => Task::Ordinal,
        Some(AskedTask::MultiLabel) if dataset.task == Task::MultiLabel => Task::MultiLabel,
        Some(AskedTask::Ordinal) => {
            bail!("the images of {} have any number of labels, and grades are one each", dataset.name)
        }
        Some(AskedTask::MultiLabel) => bail!("the images of {} have one class each", dataset.name),
        Some(AskedTask::Regression) => {
            bail!("{} has no numbers; --task regression takes a manifest with a column of them", dataset.name)
        }
        None | Some(AskedTask::Classification | AskedTask::Segmentation) => dataset.task,
    };
    Ok(Dataset { task, ..dataset })
}

/// What is said where another task is asked of a data set whose pixels have classes.
pub(crate) fn only_segments(name: &str) -> String {
    format!("{name} gives each pixel a class; leave --task out, or say --task segmentation")
}

/// Whether a folder has images and masks, by the names of what is in it.
pub(crate) fn looks_like_masks(name: &str) -> bool {
    let has = |folder: &str| Path::new(name).join(folder).is_dir();
    let beside = |images: &str, masks: &[&str]| has(images) && masks.iter().any(|masks| has(masks));
    beside("images", &["masks", "labels", "annotations"]) || beside("imagesTr", &["labelsTr"])
}

/// Whether a data set has this name; otherwise it is a path.
pub(crate) fn is_named(name: &str) -> bool {
    NAMED.iter().any(|set| set.name == name) || kindling_medmnist::knows(name)
}

/// The path of a data set from the root, links in it kept; none of one that has a name.
pub(crate) fn path_of(name: &str) -> Option<PathBuf> {
    if is_named(name) { None } else { std::path::absolute(name).ok() }
}

/// Where a run's data is: under its name, where it was when the run was started (`path`; runs of earlier versions have what was
/// typed alone), or `now`, if it has moved since.
///
/// # Errors
/// If it is not there.
pub(crate) fn moved(source: &str, path: Option<&Path>, run: &RunDir, now: Option<&Path>) -> Result<String> {
    let run = run.path().display();
    if is_named(source) {
        return match now {
            Some(_) => bail!("{run} is on {source}, which has a name and no place; leave --data-at out"),
            None => Ok(source.to_string()),
        };
    }
    let place = now.or(path).unwrap_or(Path::new(source));
    if place.exists() {
        return Ok(place.to_string_lossy().into_owned());
    }
    match now {
        Some(now) => bail!("--data-at {}: there is nothing there", now.display()),
        None => bail!(
            "the data of {run} was in {}, and nothing is there now; say where it is with --data-at PATH",
            place.display()
        ),
    }
}

/// As [`open_any`], for what needs no classes: every image of a folder counts, whatever folders it lies in.
pub(crate) fn open_unlabelled(name: &str, rule: SplitRule, opening: Opening) -> Result<Opened> {
    let how = HowToOpen { split_rule: rule, ..HowToOpen::default() };
    let name = todays_name(name);
    let path = Path::new(&name);
    if path.is_dir() && !NAMED.iter().any(|set| set.name == name) {
        return Ok(as_it_is(open_images(path, &Opening { formats: how.formats(), ..opening })?));
    }
    open_any(&name, &how, opening)
}

/// What brings its splits.
fn as_it_is(dataset: Dataset) -> Opened {
    Opened { dataset, split_by: None, split_here: false, problems: vec![], passed_over: PassedOver::default() }
}

/// The folder fetched data sets lie in: `KINDLING_DATA`, or `kindling` in the user's cache folder.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("KINDLING_DATA") {
        return Ok(PathBuf::from(folder));
    }
    let strategy = etcetera::choose_base_strategy().context("the user's cache folder; set KINDLING_DATA")?;
    Ok(strategy.cache_dir().join("kindling"))
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    #[test]
    fn data_sets_say_what_is_usual_for_them() {
        assert_eq!(
            told_of_usual(|usual| usual.epochs),
            "4 for phantoms, 3 for brain-mri-orientation, 30 for brain-parts"
        );
        assert_eq!(told_of_usual(|usual| usual.image_size), "256 for the masks of phantoms, 128 for brain-parts");
        let of_phantoms = [false, true].map(|segments| usual(PHANTOMS, segments).image_size);
        assert_eq!(of_phantoms, [None, Some(256)]);
        assert_eq!(usual("./phantoms", true), Usual::NOTHING, "a folder of that name is another data set");
    }

    #[test]
    fn earlier_names_in_configurations_become_those_of_today_and_paths_stay() {
        let read = |name: &'static str| {
            let text: StrDeserializer<'_, Error> = name.into_deserializer();
            read_name(text).unwrap()
        };
        assert_eq!(read("brain-planes"), BRAIN_MRI_ORIENTATION);
        for name in [BRAIN_MRI_ORIENTATION, PHANTOMS, "./brain-planes", "/scans/brain-planes"] {
            assert_eq!(read(name), name);
        }
    }
}
