//! Images whose pixels have classes: folders of images and masks, tables, shards, and the layouts of nnU-Net and the Medical Segmentation
//! Decathlon.

mod dataset_json;
mod decathlon;
mod declared;
mod folders;
mod layout;
mod linked;
mod matched;
mod names;
mod nnunet;
mod pairs;
mod sharded;
mod splits_final;
mod table;

use std::path::Path;

use super::{Opened, Opening, shards};
use crate::error::DataError;

/// Opens images with masks ([`Task::Segmentation`](crate::Task::Segmentation)):
///
/// - a folder with `images/` and `masks/` (or `labels/`, `annotations/`), in which a mask has the path of its image but for the ending,
///   and may have `_mask`, `_seg` or `_label` after its name; with `train/`, `val/` and `test/` above or below these, which are its splits;
/// - a manifest (`.csv`, `.jsonl`) with the columns `path` and `mask`;
/// - a folder with nnU-Net's `dataset.json`, whose `splits_final.json` is its split: the first fold, or that of [`Opening::fold`];
/// - a folder with the `dataset.json` of the Medical Segmentation Decathlon;
/// - shards ([`shards`](crate::shards)) in which a sample `KEY` has its mask in `KEY.mask.png`.
///
/// A mask is a PNG, TIFF or BMP of one number a pixel, or what else [`Opening::formats`] has: a volume, or a file that says itself which images
/// its masks are of ([`Format::mask_links`](crate::Format::mask_links)), which may have any name. Number 0 is class 0, the
/// background. The others are declared by `dataset.json`, or by a `labels.json` (`{"background": 0, "tumour": 1}`) or `classes.txt` (a name
/// a line, from number 0 on) beside the folders or the manifest; the name `ignore` makes a number [`IGNORED`](crate::IGNORED). Where
/// nothing declares them all masks are read to find them, which also finds what classes each has ([`Source::labels`](crate::Source::labels)).
/// Splits are drawn as those of other data ([`open_folder`](crate::open_folder)), but not class by class.
///
/// # Errors
/// Any [`DataError`] of files, masks and splits, with the path.
pub fn open_segmentation(path: &Path, opening: &Opening) -> Result<Opened, DataError> {
    if path.is_dir() {
        return match path.join(dataset_json::NAME).is_file() {
            true => dataset_json::open(path, opening),
            // Beside folders of images, tar files are copies of something.
            false if !folders::are_in(path) && shards::are_in(path) => sharded::open(path, opening),
            false => folders::open(path, opening),
        };
    }
    let ends_with = |endings: &[&str]| {
        endings.iter().any(|known| path.extension().is_some_and(|have| have.eq_ignore_ascii_case(known)))
    };
    match path.exists() {
        true if ends_with(&["csv", "jsonl", "ndjson"]) => table::open(path, opening),
        true if ends_with(&["tar"]) => sharded::open(path, opening),
        _ => Err(DataError::NoSegmentation { path: path.to_owned() }),
    }
}

/// Something wrong with a file or a folder of a segmentation.
fn wrong(path: &Path, reason: String) -> DataError {
    DataError::Segmentation { path: path.to_owned(), reason }
}
