//! A folder of images without classes.

use std::path::Path;
use std::sync::Arc;

use super::assemble::part_within;
use super::folder::{Found, collect_images};
use super::{Dataset, Fingerprint, Format, Opening, Part, PassedOver, Source, Task};
use crate::augment::Augment;
use crate::decode::{Image, Preprocess};
use crate::error::DataError;
use crate::split::Split;

/// Opens every image in a folder and in the folders in it, for tasks that need no classes. Where there are `train/`,
/// `val/` and `test/` on top, these are the splits; a split that is missing is the training images. Every header is
/// read, so that a file that is no image is found before the run and not in its middle.
///
/// # Errors
/// [`DataError::MissingFolder`], [`DataError::NoImages`] if there is no image, and those of files, with the path.
pub fn open_images(dir: &Path, opening: &Opening) -> Result<Dataset, DataError> {
    if !dir.is_dir() {
        return Err(DataError::MissingFolder { dir: dir.to_owned() });
    }
    let mut channels = 1;
    let root: Arc<Path> = dir.into();
    let mut of = |dir: &Path| -> Result<Arc<dyn Source>, DataError> {
        let mut files = Vec::new();
        collect_images(dir, opening, &mut files, &mut PassedOver::default())?;
        files.sort_by(|one, other| one.path.cmp(&other.path));
        let mut parts = Vec::new();
        for Found { path, format } in files {
            for part in format.list(&path)? {
                channels = channels.max(part.channels);
                parts.push((part, format.clone()));
            }
        }
        if parts.is_empty() {
            return Err(DataError::NoImages { dir: dir.to_owned() });
        }
        Ok(Arc::new(Images { parts, root: root.clone() }))
    };
    let split = |split: Split| Some(dir.join(split.name())).filter(|path| path.is_dir());
    let train = match split(Split::Train) {
        Some(dir) => of(&dir)?,
        None => of(dir)?,
    };
    let has_train = split(Split::Train).is_some();
    let mut other = |name: Split| match split(name).filter(|_| has_train) {
        Some(dir) => of(&dir),
        None => Ok(train.clone()),
    };
    let (val, test) = (other(Split::Val)?, other(Split::Test)?);
    let name = dir.canonicalize().ok().and_then(|full| Some(full.file_name()?.to_string_lossy().into_owned()));
    Ok(Dataset {
        name: name.unwrap_or_else(|| dir.display().to_string()),
        about: format!("Images in {}, without classes.", dir.display()),
        classes: vec!["image".to_owned()],
        task: Task::MultiClass,
        channels,
        train,
        val,
        test,
        normalisation: None,
        augment: Augment::None,
    })
}

/// Images of no class.
struct Images {
    parts: Vec<(Part, Arc<dyn Format>)>,
    /// The folder of the data set, which names of samples are relative to.
    root: Arc<Path>,
}

impl Images {
    fn part(&self, index: usize) -> Result<&(Part, Arc<dyn Format>), DataError> {
        self.parts.get(index).ok_or(DataError::OutOfRange { index, len: self.parts.len() })
    }
}

impl Source for Images {
    fn len(&self) -> usize {
        self.parts.len()
    }

    fn label(&self, _index: usize) -> usize {
        0
    }

    fn group(&self, index: usize) -> Option<String> {
        self.parts[index].0.group.clone()
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let (part, format) = self.part(index)?;
        format.read(part)
    }

    fn read_fitted(&self, index: usize, preprocess: &Preprocess) -> Result<Image, DataError> {
        let (part, format) = self.part(index)?;
        format.read_fitted(part, preprocess)
    }

    fn name_of(&self, index: usize) -> String {
        self.parts[index].0.name()
    }

    fn name_within(&self, index: usize) -> Option<String> {
        Some(part_within(&self.parts[index].0, &self.root))
    }

    fn fingerprint(&self, index: usize) -> Option<Fingerprint> {
        let (part, format) = &self.parts[index];
        format.fingerprint(part).ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::decode::png_of;
    use crate::source::FileList;
    use std::fs;

    fn save(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, png_of(&Image::filled(4, 4, 1, 0.5), 9).unwrap()).unwrap();
    }

    #[test]
    fn every_image_counts_wherever_it_lies_and_splits_are_kept_apart() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        save(&dir.join("a.png"));
        assert_eq!(open_images(dir, &Opening::new(0)).unwrap().train.len(), 1);
        save(&dir.join("deep/er/b.png"));
        let dataset = open_images(dir, &Opening::new(0)).unwrap();
        assert_eq!((dataset.train.len(), dataset.test.len(), dataset.channels), (2, 2, 1));
        let names: Vec<String> = FileList::of(&dataset).samples.into_iter().map(|sample| sample.name).collect();
        assert_eq!(names, ["a.png", "deep/er/b.png"], "what stands in for a split is listed once");
        save(&dir.join("train/c/d.png"));
        save(&dir.join("train/e.png"));
        save(&dir.join("test/f.png"));
        let dataset = open_images(dir, &Opening::new(0)).unwrap();
        assert_eq!((dataset.train.len(), dataset.val.len(), dataset.test.len()), (2, 2, 1));
    }

    #[test]
    fn folders_without_images_and_files_that_are_none_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(open_images(folder.path(), &Opening::new(0)), Err(DataError::NoImages { .. })));
        assert!(matches!(
            open_images(&folder.path().join("no"), &Opening::new(0)),
            Err(DataError::MissingFolder { .. })
        ));
        fs::write(folder.path().join("a.png"), "text").unwrap();
        assert!(open_images(folder.path(), &Opening::new(0)).unwrap_err().to_string().contains("a.png"));
    }
}
