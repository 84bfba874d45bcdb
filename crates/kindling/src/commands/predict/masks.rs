//! `kindling predict` with a network for segmentation: image files in, masks out.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use burn::tensor::Device;
use kindling_data::{Mask, Part, mask_png};
use kindling_runs::{RunDir, write_atomically};
use serde_json::json;

use super::{Args, Format, field, files_of, format_of};
use crate::Done;
use crate::config::RunConfig;
use crate::output::{self, note};
use crate::segmenter::Segmenter;

impl Args {
    /// Writes a mask beside each image's name into the folder of `--out`, and says on standard output what is in it.
    pub(super) fn masks(&self, run: &RunDir, config: &RunConfig, images: &[PathBuf], device: &Device) -> Result<Done> {
        let Some(folder) = &self.out else {
            bail!("{} gives each pixel a class; say with --out where the masks go, a folder", run.path().display());
        };
        if self.top.is_some() {
            bail!("--top is about classes of images; masks have the most probable class of each pixel");
        }
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let network = config.trained_unet(run, self.last, device)?;
        let segmenter = Segmenter { network: &network, config, device, views: self.tta.into() };
        let mut out = output::product();
        if self.format == Format::Csv {
            let classes: Vec<String> = config.data.classes.iter().map(|class| field(class)).collect();
            writeln!(out, "file,mask,{}", classes.join(","))?;
        }
        let (mut done, mut written) = (Done::Complete, BTreeSet::new());
        for path in files_of(&config.data.opening, images)? {
            let format = format_of(&config.data.opening, &path);
            let parts = match format.list(&path) {
                Ok(parts) => parts,
                Err(error) => {
                    note!("error: {:#}", anyhow::Error::from(error));
                    done = Done::SomeFailed;
                    continue;
                }
            };
            for (number, part) in parts.iter().enumerate() {
                let target = folder.join(mask_name(&path, (parts.len() > 1).then_some(number)));
                if !written.insert(target.clone()) {
                    bail!(
                        "two images would have the mask {}; give folders with images of the same names one at a time, each with \
                         a folder of its own",
                        target.display()
                    );
                }
                match mask_of(&segmenter, format.as_ref(), part) {
                    Ok(mask) => {
                        write_atomically(&target, &mask_png(&mask)?)?;
                        self.say_mask(&mut out, &part.name(), &target, &mask, &config.data.classes)?;
                    }
                    Err(error) => {
                        note!("error: {error:#}");
                        done = Done::SomeFailed;
                    }
                }
            }
        }
        out.flush()?;
        Ok(done)
    }

    /// A line about a mask: how many pixels have each class.
    fn say_mask(
        &self,
        out: &mut dyn Write,
        file: &str,
        target: &Path,
        mask: &Mask,
        classes: &[String],
    ) -> std::io::Result<()> {
        let mut counts = vec![0u64; classes.len()];
        mask.classes.iter().for_each(|class| counts[usize::from(*class)] += 1);
        match self.format {
            Format::Csv => {
                let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
                writeln!(out, "{},{},{}", field(file), field(&target.to_string_lossy()), counts.join(","))
            }
            Format::Json => {
                let pixels: serde_json::Map<String, serde_json::Value> =
                    classes.iter().cloned().zip(counts.into_iter().map(|count| json!(count))).collect();
                writeln!(out, "{}", json!({ "file": file, "mask": target, "pixels": pixels }))
            }
        }
    }
}

fn mask_of(segmenter: &Segmenter, format: &dyn kindling_data::Format, part: &Part) -> Result<Mask> {
    segmenter.of(format.read(part)?)
}

/// The name of the mask of an image, or of one of several in a file.
fn mask_name(image: &Path, number: Option<usize>) -> PathBuf {
    let name = image.file_name().unwrap_or_default().to_string_lossy();
    // The two endings of a packed file are one.
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    PathBuf::from(match number {
        None => format!("{stem}.png"),
        Some(number) => format!("{stem}_{number:04}.png"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_called_as_its_image_with_a_number_where_a_file_has_several() {
        assert_eq!(mask_name(Path::new("a/b.c.jpg"), None), PathBuf::from("b.c.png"));
        assert_eq!(mask_name(Path::new("scan.nii.gz"), Some(7)), PathBuf::from("scan_0007.png"));
        assert_eq!(mask_name(Path::new("noend"), None), PathBuf::from("noend.png"));
    }
}
