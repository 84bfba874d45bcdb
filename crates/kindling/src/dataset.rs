//! Data sets by name, or a folder of images.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use etcetera::BaseStrategy;
use kindling_data::{Dataset, open_folder, open_images};

/// A data set that has a name.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// What it costs to have.
    pub(crate) needs: &'static str,
}

/// Every data set with a name, in the order they are listed.
pub(crate) const NAMED: [Named; 3] = [
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
];

pub(crate) const PHANTOMS: &str = "phantoms";
pub(crate) const BRAIN_PLANES: &str = "brain-planes";
pub(crate) const FASHION_MNIST: &str = "fashion-mnist";

/// Seed of the phantoms themselves. Not the run's: two seeds of one experiment must see the same images.
const PHANTOM_SEED: u64 = 0;

/// Opens a data set by its name, or an image folder by its path. `seed` splits a folder that is not split yet.
pub(crate) fn open(name: &str, seed: u64) -> Result<Dataset> {
    match name {
        PHANTOMS => Ok(kindling_phantoms::dataset(PHANTOM_SEED)),
        BRAIN_PLANES => Ok(kindling_brain_planes::dataset(&cache()?)?),
        FASHION_MNIST => Ok(kindling_fashion_mnist::dataset(&cache()?)?),
        _ => {
            let path = Path::new(name);
            if !path.exists() && !name.contains(['/', '\\', '.']) {
                let known: Vec<&str> = NAMED.iter().map(|set| set.name).collect();
                bail!("there is no data set `{name}` and no such folder; known sets are {}", known.join(", "));
            }
            Ok(open_folder(path, seed)?)
        }
    }
}

/// As [`open`], for what needs no classes: every image of a folder counts, whatever folders it lies in.
pub(crate) fn open_unlabelled(name: &str, seed: u64) -> Result<Dataset> {
    let path = Path::new(name);
    if path.is_dir() && !NAMED.iter().any(|set| set.name == name) {
        return Ok(open_images(path)?);
    }
    open(name, seed)
}

/// The folder fetched data sets lie in: `KINDLING_DATA`, or `kindling` in the user's cache folder.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("KINDLING_DATA") {
        return Ok(PathBuf::from(folder));
    }
    let strategy = etcetera::choose_base_strategy().context("the user's cache folder; set KINDLING_DATA")?;
    Ok(strategy.cache_dir().join("kindling"))
}
