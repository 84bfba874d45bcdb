//! Samples of other sources, seen together or under other classes.

use std::path::Path;
use std::sync::Arc;

use super::{Fingerprint, Source};
use crate::decode::{Image, Preprocess};
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

    fn name_of(&self, index: usize) -> String {
        self.inner.name_of(index)
    }
}
