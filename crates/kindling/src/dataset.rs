//! Data sets by name, or by the path of a folder, a manifest or shards.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use etcetera::BaseStrategy;
use kindling_data::{
    Dataset, Format, OnBadSample, Opened, Opening, Pages, PassedOver, SplitBy, open_images, open_path,
};
use kindling_scans::{Dicom, Nifti, Window};
use serde::{Deserialize, Serialize};

/// A data set that has a name.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What it costs to have.
    pub(crate) needs: &'static str,
}

/// Every data set with a name, in the order they are listed.
pub(crate) const NAMED: [Named; 4] = [
    Named {
        name: PHANTOMS,
        about: "synthetic 512x512 scans with a small lesion: none, round or spiculated",
        needs: "nothing: made on the fly",
    },
    Named {
        name: BRAIN_PLANES,
        about: "slices of real T1 MR volumes: sagittal, coronal or axial",
        needs: "scripts/fetch-brain-planes.sh, once",
    },
    Named {
        name: FASHION_MNIST,
        about: "28x28 grey pictures of clothes in ten classes",
        needs: "scripts/fetch-fashion-mnist.sh, once",
    },
    Named {
        name: "pathmnist",
        about: "and the eleven other 2-D sets of MedMNIST, also as pathmnist_64, _128, _224",
        needs: "the published .npz, put there by you",
    },
];

pub(crate) const PHANTOMS: &str = "phantoms";
pub(crate) const BRAIN_PLANES: &str = "brain-planes";
pub(crate) const FASHION_MNIST: &str = "fashion-mnist";

/// Seed of the phantoms themselves. Not the run's: two seeds of one experiment must see the same images.
const PHANTOM_SEED: u64 = 0;

/// How a data set is opened and split.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HowToOpen {
    /// What stays on one side of a split that is made here: none, group (the manifest's column, or DICOM's patient), folder
    /// (below the class) or folder:2 [default: group where the data knows groups, otherwise none]
    #[arg(long, value_name = "WHAT", help_heading = "What")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) split_by: Option<SplitBy>,
    /// Centre and width of the values of a DICOM image that are shown, as in 40,400 [default: the file's own window]
    #[arg(long, value_name = "CENTRE,WIDTH", help_heading = "What", allow_hyphen_values = true)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<Window>,
    /// Take every page of a TIFF and every frame of an animation (GIF, PNG, WebP) as a sample, those of a file on one side of a
    /// split, instead of the first alone
    #[arg(long, help_heading = "What")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) pages: bool,
}

impl HowToOpen {
    /// What is given here, and otherwise there.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            split_by: self.split_by.or(other.split_by),
            window: self.window.or(other.window),
            pages: self.pages || other.pages,
        }
    }

    /// The kinds of files that are understood besides pictures, and pictures where they are read in another way.
    pub(crate) fn formats(&self) -> Vec<Arc<dyn Format>> {
        let mut formats: Vec<Arc<dyn Format>> =
            vec![Arc::new(Dicom { window: self.window }), Arc::new(Nifti::default())];
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

fn open_any(name: &str, how: &HowToOpen, opening: Opening) -> Result<Opened> {
    let named = match name {
        PHANTOMS => Some(kindling_phantoms::dataset(PHANTOM_SEED)),
        BRAIN_PLANES => Some(kindling_brain_planes::dataset(&cache()?)?),
        FASHION_MNIST => Some(kindling_fashion_mnist::dataset(&cache()?)?),
        _ if kindling_medmnist::knows(name) => Some(kindling_medmnist::dataset(name, &cache()?)?),
        _ => None,
    };
    if let Some(dataset) = named {
        let flags =
            [("--split-by", how.split_by.is_some()), ("--window", how.window.is_some()), ("--pages", how.pages)];
        for (flag, given) in flags {
            if given {
                bail!("{flag} is for folders, manifests and shards; {name} brings its own");
            }
        }
        return Ok(Opened { dataset, split_by: None, problems: vec![], passed_over: PassedOver::default() });
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains(['/', '\\', '.']) {
        let known: Vec<&str> = NAMED.iter().map(|set| set.name).collect();
        bail!("there is no data set `{name}` and no such folder; known sets are {}", known.join(", "));
    }
    let opening = Opening { split_by: how.split_by, formats: how.formats(), cache: cache().ok(), ..opening };
    Ok(open_path(path, &opening)?)
}

/// As [`open_with`], for what needs no classes: every image of a folder counts, whatever folders it lies in.
pub(crate) fn open_unlabelled(name: &str, seed: u64) -> Result<Dataset> {
    let path = Path::new(name);
    if path.is_dir() && !NAMED.iter().any(|set| set.name == name) {
        let opening = Opening { formats: HowToOpen::default().formats(), ..Opening::new(seed) };
        return Ok(open_images(path, &opening)?);
    }
    Ok(open_with(name, seed, &HowToOpen::default())?.dataset)
}

/// The folder fetched data sets lie in: `KINDLING_DATA`, or `kindling` in the user's cache folder.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("KINDLING_DATA") {
        return Ok(PathBuf::from(folder));
    }
    let strategy = etcetera::choose_base_strategy().context("the user's cache folder; set KINDLING_DATA")?;
    Ok(strategy.cache_dir().join("kindling"))
}
