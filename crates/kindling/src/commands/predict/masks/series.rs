//! Masks of DICOM images as DICOM SEG, one for each series.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use kindling_data::Format;
use kindling_scans::{Dicom, Maker, SegmentationFile, Series};
use kindling_trainer::Ranks;

use super::divided::Masks;
use super::{MaskOutput, stem};
use crate::segmenter::Segmenter;

/// Draws every image of the files, series by series. A series of which an image cannot be read has no mask.
pub(super) fn draw(
    segmenter: &mut Segmenter<'_>,
    ranks: &Ranks,
    files: &[PathBuf],
    out: &mut MaskOutput<'_>,
) -> Result<()> {
    let dicom = Dicom::with_window(segmenter.config.data.opening.window);
    let found = series_of(&dicom, files, out);
    let now = jiff::Zoned::now();
    let (date, time) = (now.strftime("%Y%m%d").to_string(), now.strftime("%H%M%S").to_string());
    let algorithm = format!("Kindling {}", segmenter.config.model.name);
    let maker = Maker { algorithm: &algorithm, version: env!("CARGO_PKG_VERSION"), date: &date, time: &time };
    let mut times = HashMap::new();
    let format: &dyn Format = &dicom;
    let images = found.iter().flat_map(|series| &series.images).map(|image| (format, &image.part));
    let mut masks = Masks::of(images, segmenter, ranks);
    for series in &found {
        let target = out.target(&mask_name(series, &mut times), files)?;
        let mut file = SegmentationFile::new(series, out.classes);
        let mut counts = vec![0u64; out.classes.len()];
        let all = masks.next_case(series.images.len(), |image, mask| {
            counts.iter_mut().zip(out.counts(&mask.classes)).for_each(|(count, more)| *count += more);
            file.set(image, mask)
        })?;
        match all {
            Ok(()) => out.write(&name_of(series), &target, &counts, || Ok(file.bytes(&maker)?))?,
            Err(error) => out.fail(error),
        }
    }
    Ok(())
}

/// The series of the files. What is none is named.
fn series_of(dicom: &Dicom, files: &[PathBuf], out: &mut MaskOutput<'_>) -> Vec<Series> {
    let (scans, others): (Vec<PathBuf>, Vec<PathBuf>) = files.iter().cloned().partition(|path| dicom.claims(path));
    for other in &others {
        out.fail(anyhow!(
            "{} is no DICOM file; --mask-format dicom-seg is for DICOM, and --mask-format png gives other images their masks",
            other.display()
        ));
    }
    let (found, errors) = Series::of_files(&scans);
    errors.into_iter().for_each(|error| out.fail(error));
    found
}

/// What a series is called: as its file if it is in one, and otherwise by its UID.
fn name_of(series: &Series) -> String {
    match series.images.as_slice() {
        [first, ..] if series.files() == 1 => first.part.path.display().to_string(),
        _ => series.uid.clone(),
    }
}

/// The name of a mask: that of the file if the series is in one, and otherwise the UID of the series. Images of several sizes in one series
/// have masks with a number.
fn mask_name(series: &Series, times: &mut HashMap<String, usize>) -> String {
    let name = match series.images.first() {
        Some(first) if series.files() == 1 => return format!("{}.dcm", stem_of_scan(&first.part.path)),
        _ => series.uid.clone(),
    };
    let seen = times.entry(name.clone()).or_insert(0);
    *seen += 1;
    match *seen {
        1 => format!("{name}.dcm"),
        more => format!("{name}_{more}.dcm"),
    }
}

/// The name of a file without its ending. What follows the last point of a UID is no ending.
fn stem_of_scan(path: &Path) -> String {
    let ending = path.extension().unwrap_or_default();
    if ending.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
        return path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    }
    stem(path)
}
