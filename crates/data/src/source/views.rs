//! Samples of other sources, seen together or under other classes.

use std::path::Path;
use std::sync::Arc;

use super::{Fingerprint, Slice, Source};
use crate::decode::{IGNORED, Image, Mask, Preprocess};
use crate::error::DataError;

/// The samples of three splits, one behind the other.
pub(super) struct Joined {
    pub(super) parts: [Arc<dyn Source>; 3],
}

impl Joined {
    /// The part that a sample is in, and its number there. Beyond the last sample: the last part, which says so.
    fn at(&self, index: usize) -> (&dyn Source, usize) {
        let [train, val, test] = &self.parts;
        let (first, second) = (train.len(), train.len() + val.len());
        match index {
            _ if index < first => (train.as_ref(), index),
            _ if index < second => (val.as_ref(), index - first),
            _ => (test.as_ref(), index - second),
        }
    }
}

/// Samples whose classes have other numbers.
pub(super) struct Renumbered {
    pub(super) inner: Arc<dyn Source>,
    /// By the number they have there.
    pub(super) numbers: Vec<usize>,
}

impl Renumbered {
    /// The mask under the other numbers.
    fn renumbered(&self, index: usize, mut mask: Mask) -> Result<Mask, DataError> {
        for class in mask.classes.iter_mut().filter(|class| **class != IGNORED) {
            let number = self.numbers.get(usize::from(*class)).and_then(|number| u8::try_from(*number).ok());
            *class = number.ok_or_else(|| DataError::MaskClass {
                name: self.name_of(index),
                class: *class,
                classes: self.numbers.len(),
            })?;
        }
        Ok(mask)
    }
}

impl Source for Joined {
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    fn label(&self, index: usize) -> usize {
        let (part, index) = self.at(index);
        part.label(index)
    }

    fn labels(&self, index: usize) -> Vec<usize> {
        let (part, index) = self.at(index);
        part.labels(index)
    }

    fn value(&self, index: usize) -> Option<f64> {
        let (part, index) = self.at(index);
        part.value(index)
    }

    fn group(&self, index: usize) -> Option<String> {
        let (part, index) = self.at(index);
        part.group(index)
    }

    fn file(&self, index: usize) -> Option<&Path> {
        let (part, index) = self.at(index);
        part.file(index)
    }

    fn name_within(&self, index: usize) -> Option<String> {
        let (part, index) = self.at(index);
        part.name_within(index)
    }

    fn fingerprint(&self, index: usize) -> Option<Fingerprint> {
        let (part, index) = self.at(index);
        part.fingerprint(index)
    }

    fn slice(&self, index: usize) -> Result<Option<Slice>, DataError> {
        let (part, index) = self.at(index);
        part.slice(index)
    }

    fn weight(&self, index: usize) -> f32 {
        let (part, index) = self.at(index);
        part.weight(index)
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        let (part, index) = self.at(index);
        part.read(index)
    }

    fn read_fitted(&self, index: usize, preprocess: &Preprocess) -> Result<Image, DataError> {
        let (part, index) = self.at(index);
        part.read_fitted(index, preprocess)
    }

    fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
        let (part, index) = self.at(index);
        part.read_mask(index)
    }

    fn usual_mask(&self, index: usize) -> Result<Option<Mask>, DataError> {
        let (part, index) = self.at(index);
        part.usual_mask(index)
    }

    fn read_with_mask(&self, index: usize, preprocess: &Preprocess) -> Result<(Image, Mask), DataError> {
        let (part, index) = self.at(index);
        part.read_with_mask(index, preprocess)
    }

    fn name_of(&self, index: usize) -> String {
        let (part, index) = self.at(index);
        part.name_of(index)
    }
}

impl Source for Renumbered {
    fn len(&self) -> usize {
        self.inner.len()
    }

    fn label(&self, index: usize) -> usize {
        // Of no class the first there is, as everywhere.
        self.labels(index).first().copied().unwrap_or(0)
    }

    fn labels(&self, index: usize) -> Vec<usize> {
        let mut labels: Vec<usize> = self.inner.labels(index).into_iter().map(|label| self.numbers[label]).collect();
        labels.sort_unstable();
        labels
    }

    fn value(&self, index: usize) -> Option<f64> {
        self.inner.value(index)
    }

    fn group(&self, index: usize) -> Option<String> {
        self.inner.group(index)
    }

    fn file(&self, index: usize) -> Option<&Path> {
        self.inner.file(index)
    }

    fn name_within(&self, index: usize) -> Option<String> {
        self.inner.name_within(index)
    }

    fn fingerprint(&self, index: usize) -> Option<Fingerprint> {
        self.inner.fingerprint(index)
    }

    fn slice(&self, index: usize) -> Result<Option<Slice>, DataError> {
        self.inner.slice(index)
    }

    fn stretches(&self) -> Vec<usize> {
        self.inner.stretches()
    }

    fn weight(&self, index: usize) -> f32 {
        self.inner.weight(index)
    }

    fn read(&self, index: usize) -> Result<Image, DataError> {
        self.inner.read(index)
    }

    fn read_fitted(&self, index: usize, preprocess: &Preprocess) -> Result<Image, DataError> {
        self.inner.read_fitted(index, preprocess)
    }

    fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
        self.renumbered(index, self.inner.read_mask(index)?)
    }

    fn usual_mask(&self, index: usize) -> Result<Option<Mask>, DataError> {
        self.inner.usual_mask(index)?.map(|mask| self.renumbered(index, mask)).transpose()
    }

    fn read_with_mask(&self, index: usize, preprocess: &Preprocess) -> Result<(Image, Mask), DataError> {
        let (image, mask) = self.inner.read_with_mask(index, preprocess)?;
        Ok((image, self.renumbered(index, mask)?))
    }

    fn name_of(&self, index: usize) -> String {
        self.inner.name_of(index)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::augment::Augment;
    use crate::source::{Dataset, Task};
    use crate::split::Split;

    /// Samples whose masks know their index.
    struct Masks(usize);

    impl Source for Masks {
        fn len(&self) -> usize {
            3
        }
        fn label(&self, _: usize) -> usize {
            0
        }
        fn labels(&self, _: usize) -> Vec<usize> {
            vec![0, 1]
        }
        fn read(&self, _: usize) -> Result<Image, DataError> {
            Ok(Image::filled(4, 2, 1, 0.5))
        }
        fn read_mask(&self, index: usize) -> Result<Mask, DataError> {
            let classes = vec![0, 1, 2, IGNORED, (self.0 + index) as u8, 0, 0, 0];
            Ok(Mask { width: 4, height: 2, classes })
        }
        fn usual_mask(&self, index: usize) -> Result<Option<Mask>, DataError> {
            self.read_mask(index).map(Some)
        }
        fn name_of(&self, index: usize) -> String {
            format!("{}", self.0 + index)
        }
    }

    fn dataset(classes: [&str; 3]) -> Dataset {
        Dataset {
            name: "masks".into(),
            about: String::new(),
            classes: classes.map(str::to_owned).to_vec(),
            task: Task::Segmentation,
            channels: 1,
            train: Arc::new(Masks(0)),
            val: Arc::new(Masks(0)),
            test: Arc::new(Masks(0)),
            normalisation: None,
            augment: Augment::None,
        }
    }

    #[test]
    fn masks_are_seen_through_every_view() {
        let dataset = dataset(["background", "a", "b"]);
        assert_eq!(dataset.joined().read_mask(4).unwrap(), Masks(0).read_mask(1).unwrap());
        let known = ["background", "b", "c", "a"].map(str::to_owned);
        let other = dataset.under_classes(&known, Task::Segmentation).unwrap();
        assert_eq!(other.train.read_mask(2).unwrap().classes, [0, 3, 1, IGNORED, 1, 0, 0, 0]);
        assert_eq!(other.train.labels(0), [0, 3]);
        assert_eq!(other.joined().usual_mask(2).unwrap(), Some(other.train.read_mask(2).unwrap()));
        let preprocess = Preprocess::padded(4, 1, crate::decode::Normalisation::identity(1));
        let (image, mask) = other.joined().read_with_mask(1, &preprocess).unwrap();
        assert_eq!(image, preprocess.fit(&Image::filled(4, 2, 1, 0.5)));
        assert_eq!(mask, preprocess.fit_mask(&other.train.read_mask(1).unwrap()));
        let beyond = Renumbered { inner: Arc::new(Masks(3)), numbers: vec![0, 1, 2] };
        assert!(beyond.read_mask(0).unwrap_err().to_string().contains("class 3, but there are 3 classes"));
    }

    #[test]
    fn classes_of_pixels_that_a_run_does_not_know_are_refused() {
        let known = ["background", "a"].map(str::to_owned);
        let error = dataset(["background", "a", "b"]).under_classes(&known, Task::Segmentation).unwrap_err();
        assert!(matches!(&error, DataError::ForeignClasses { foreign, .. } if foreign == &["b"]), "{error}");
        let error = dataset(["background", "a", "b"]).under_classes(&known, Task::MultiClass).unwrap_err().to_string();
        assert!(error.contains("gives each pixel a class, but the run gives each image one class"), "{error}");
    }

    #[test]
    fn a_class_counts_in_each_image_whose_mask_has_it() {
        assert_eq!(dataset(["background", "a", "b"]).class_counts(Split::Train), [3, 3, 0]);
    }
}
