//! The raw layout of nnU-Net: `imagesTr/CASE_0000.ext`, where the number is that of a channel, and `labelsTr/CASE.ext`; the same with `Ts`
//! for what is tested.

use std::path::{Path, PathBuf};

use super::layout::Layout;
use super::matched::{Keyed, Sides, matched};
use super::pairs::Pair;
use super::wrong;
use crate::error::DataError;
use crate::source::folder::entries;
use crate::source::{Opening, PassedOver};
use crate::split::Split;

/// The digits of a channel's number.
const DIGITS: usize = 4;

/// The cases of the folders, of files that end in `ending`; `about` is the file that should say it.
pub(super) fn find(dir: &Path, about: &Path, ending: Option<&str>, opening: &Opening) -> Result<Layout, DataError> {
    let Some(ending) = ending.filter(|ending| ending.starts_with('.')) else {
        let reason =
            "it has neither `file_ending` (nnU-Net), as in \".png\", nor `training` (Medical Segmentation Decathlon)";
        return Err(wrong(about, reason.to_owned()));
    };
    let mut layout =
        Layout { pairs: Vec::new(), about: String::new(), problems: Vec::new(), passed_over: PassedOver::default() };
    for (images, masks, split) in [("imagesTr", "labelsTr", None), ("imagesTs", "labelsTs", Some(Split::Test))] {
        let (images, masks) = (dir.join(images), dir.join(masks));
        match (split, images.is_dir(), masks.is_dir()) {
            (None, false, _) => return Err(wrong(dir, "there is no imagesTr/ in it".to_owned())),
            (None, _, false) => return Err(DataError::NoMasksFolder { dir: masks }),
            (Some(_), true, false) => layout.about.push_str("; imagesTs/ is left out, as there is no labelsTs/"),
            (Some(_), false, _) => {}
            _ => add(&mut layout, &Sides { images: &images, masks: &masks }, split, ending, opening)?,
        }
    }
    Ok(layout)
}

/// Adds the cases of a folder of images and one of masks.
fn add(
    layout: &mut Layout,
    sides: &Sides<'_>,
    split: Option<Split>,
    ending: &str,
    opening: &Opening,
) -> Result<(), DataError> {
    let images = cases(&named(sides.images, ending, &mut layout.passed_over)?, ending)?;
    let masks = named(sides.masks, ending, &mut layout.passed_over)?;
    if images.is_empty() {
        return Err(wrong(sides.images, format!("there is no file in it that ends in {ending:?}")));
    }
    let found = matched(images, masks, &[], sides, opening.keep_going, &mut layout.problems)?;
    layout.pairs.extend(found.into_iter().map(|(case, image, mask)| Pair {
        below: PathBuf::from(image.file_name().unwrap_or_default()),
        image,
        mask,
        case,
        group: None,
        weight: 1.0,
        split,
    }));
    Ok(())
}

/// The files of a folder by their names without the ending, sorted. Others are passed over.
fn named(dir: &Path, ending: &str, passed_over: &mut PassedOver) -> Result<Keyed, DataError> {
    let mut files = Keyed::new();
    for path in entries(dir)?.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match name.strip_suffix(ending) {
            Some(name) => files.push((name.to_owned(), path)),
            None => passed_over.file(&path),
        }
    }
    files.sort();
    Ok(files)
}

/// The images by their cases. An image is one file here.
fn cases(files: &Keyed, ending: &str) -> Result<Keyed, DataError> {
    let mut cases: Keyed = Vec::with_capacity(files.len());
    for (name, path) in files {
        let channel = name.rsplit_once('_').filter(|(case, number)| {
            !case.is_empty() && number.len() == DIGITS && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        let Some((case, number)) = channel else {
            let reason = format!("its name has no number of a channel, as CASE_0000{ending} has");
            return Err(wrong(path, reason));
        };
        if number.bytes().any(|digit| digit != b'0') {
            let reason = format!(
                "it is channel {number} of the case {case:?}, in a file of its own; an image is one file here, grey or RGB, so keep one \
                 channel, or put three into one RGB PNG"
            );
            return Err(wrong(path, reason));
        }
        cases.push((case.to_owned(), path.clone()));
    }
    Ok(cases)
}
