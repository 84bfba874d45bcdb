//! The layout of the Medical Segmentation Decathlon: `dataset.json` lists every image with its mask.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::folders::stem;
use super::layout::Layout;
use super::pairs::Pair;
use super::wrong;
use crate::error::DataError;
use crate::source::PassedOver;

#[derive(Deserialize)]
struct Listed {
    image: PathBuf,
    label: PathBuf,
}

/// What `training` of the file `about` lists. What it lists as `test` has no masks.
pub(super) fn find(dir: &Path, about: &Path, training: &Value) -> Result<Layout, DataError> {
    let listed: Vec<Listed> = Deserialize::deserialize(training)
        .map_err(|error| wrong(about, format!("`training` is not a list of `image` and `label`: {error}")))?;
    if listed.is_empty() {
        return Err(wrong(about, "`training` is empty".to_owned()));
    }
    let pairs = listed.into_iter().map(|Listed { image, label }| {
        let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Pair {
            image: present(dir, &image),
            mask: within(dir, &label),
            below: PathBuf::from(&name),
            case: stem(&name).to_owned(),
            group: None,
            weight: 1.0,
            split: None,
        }
    });
    let (pairs, passed_over) = (pairs.collect(), PassedOver::default());
    Ok(Layout { pairs, about: String::new(), problems: Vec::new(), passed_over })
}

/// A path of the list, which may begin with `./`.
fn within(dir: &Path, path: &Path) -> PathBuf {
    dir.join(path.strip_prefix(".").unwrap_or(path))
}

/// The file of an image. The first version of nnU-Net lists images without the number of their channel.
fn present(dir: &Path, image: &Path) -> PathBuf {
    let path = within(dir, image);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let ending = &name[stem(&name).len()..];
    let numbered = path.with_file_name(format!("{}_0000{ending}", stem(&name)));
    if !path.exists() && numbered.is_file() { numbered } else { path }
}
