//! `kindling predict` with a network for segmentation: image files in, masks out.

mod divided;
mod pictures;
mod series;
mod volumes;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use burn::tensor::Device;
use clap::ValueEnum;
use kindling_runs::{RunDir, write_atomically};
use kindling_trainer::{InWindows, Inference, Ranks};
use serde_json::json;

use super::{Args, Format, field, files_of};
use crate::Done;
use crate::config::RunConfig;
use crate::output::{self, note};
use crate::ranks;
use crate::segmenter::Segmenter;

/// The kind of file that masks are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum MaskFormat {
    /// A PNG of class numbers for each image
    #[default]
    Png,
    /// A NIfTI file (.nii.gz) of class numbers for each NIfTI volume, on the grid of the volume
    Nifti,
    /// A DICOM SEG for each series of DICOM images, with the patient and the study of the images
    DicomSeg,
}

impl Args {
    /// Writes masks into the folder of `--out`, and says on standard output what is in them. Of several processes each draws a part, and the
    /// first writes.
    pub(super) fn masks(
        &self,
        run: &RunDir,
        config: &RunConfig,
        images: &[PathBuf],
        device: &Device,
        ranks: &Ranks,
    ) -> Result<Done> {
        let Some(folder) = &self.out else {
            bail!("{} gives each pixel a class; say with --out where the masks go, a folder", run.path().display());
        };
        if self.top.is_some() {
            bail!("--top is about classes of images; masks have the most probable class of each pixel");
        }
        let is_first = ranks.is_first();
        if is_first {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        let network = config.trained_segmenter(run, self.last, device)?;
        let inference = Inference::new(device, config.inference_batch(device), config.train.precision);
        let inference = inference.seeing(self.tta.into());
        let in_windows = |overlap| InWindows::new(&network, &config.data.preprocess, overlap, &inference);
        let windows = self.windows.overlap().map(in_windows);
        let mut segmenter = Segmenter { network: &network, config, inference, windows };
        let files = files_of(&config.data.opening, images)?;
        ranks::check_same("list of files", &files, ranks)?;
        ranks::watch_reading(ranks, self.watched.timeout(), Some(run.path()))?;
        // All look through the same files, which may be many, for what is in them.
        ranks.take_time();
        let (classes, format) = (&config.data.classes, self.format);
        let mut out = MaskOutput { folder, classes, format, is_first, written: BTreeSet::new(), failed: false };
        out.begin()?;
        match self.mask_format.unwrap_or_default() {
            MaskFormat::Png => pictures::draw(&mut segmenter, ranks, &files, &mut out)?,
            MaskFormat::Nifti => volumes::draw(&mut segmenter, ranks, &files, &mut out)?,
            MaskFormat::DicomSeg => series::draw(&mut segmenter, ranks, &files, &mut out)?,
        }
        // Nobody has seen more images than the others.
        ranks::check_same("list of images", &[""; 0], ranks)?;
        output::product().flush()?;
        Ok(if out.failed { Done::SomeFailed } else { Done::Complete })
    }
}

/// Where masks go, and what standard output says about them. Processes but the first know the same, and neither write nor speak.
struct MaskOutput<'a> {
    folder: &'a Path,
    classes: &'a [String],
    format: Format,
    is_first: bool,
    written: BTreeSet<PathBuf>,
    /// Whether a file could not be read or drawn. The exit code of the first process is that of all.
    failed: bool,
}

impl MaskOutput<'_> {
    /// The first line of a table.
    fn begin(&self) -> Result<()> {
        if self.is_first && self.format == Format::Csv {
            let classes: Vec<String> = self.classes.iter().map(|class| field(class)).collect();
            writeln!(output::product(), "file,mask,{}", classes.join(","))?;
        }
        Ok(())
    }

    /// The path of a mask of this name, which none has had yet and which is not that of an image.
    fn target(&mut self, name: &str, images: &[PathBuf]) -> Result<PathBuf> {
        let target = self.folder.join(name);
        if !self.written.insert(target.clone()) {
            bail!(
                "two images would have the mask {}; give folders with images of the same names one at a time, each with a folder of its \
                 own",
                target.display()
            );
        }
        let is_target = |image: &PathBuf| matches!((image.canonicalize(), target.canonicalize()), (Ok(image), Ok(target)) if image == target);
        if self.is_first && target.exists() && images.iter().any(is_target) {
            bail!("the mask {} would replace an image; write masks into another folder", target.display());
        }
        Ok(target)
    }

    /// Names on standard error what could not be read or drawn.
    fn fail(&mut self, error: impl Into<Error>) {
        if self.is_first {
            note!("error: {:#}", error.into());
            self.failed = true;
        }
    }

    /// Writes a mask, and says how many of its pixels have each class.
    fn write(&self, file: &str, target: &Path, counts: &[u64], bytes: impl FnOnce() -> Result<Vec<u8>>) -> Result<()> {
        if self.is_first {
            write_atomically(target, &bytes()?)?;
            self.say(file, target, counts)?;
        }
        Ok(())
    }

    /// A line about a mask: how many pixels have each class.
    fn say(&self, file: &str, target: &Path, counts: &[u64]) -> Result<()> {
        let mut out = output::product();
        match self.format {
            Format::Csv => {
                let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
                writeln!(out, "{},{},{}", field(file), field(&target.to_string_lossy()), counts.join(","))?;
            }
            Format::Json => {
                let pixels: serde_json::Map<String, serde_json::Value> =
                    self.classes.iter().cloned().zip(counts.iter().map(|count| json!(count))).collect();
                writeln!(out, "{}", json!({ "file": file, "mask": target, "pixels": pixels }))?;
            }
        }
        Ok(())
    }

    /// How many of these pixels have each class.
    fn counts(&self, pixels: &[u8]) -> Vec<u64> {
        let mut counts = vec![0u64; self.classes.len()];
        pixels.iter().for_each(|class| counts[usize::from(*class)] += 1);
        counts
    }
}

/// The name of a file without its ending; the two endings of a packed file are one.
fn stem(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_called_as_its_image() {
        assert_eq!(stem(Path::new("a/b.c.jpg")), "b.c");
        assert_eq!(stem(Path::new("scan.nii.gz")), "scan");
        assert_eq!(stem(Path::new("noend")), "noend");
    }
}
