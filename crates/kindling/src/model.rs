//! Models by name, whatever they answer: classifiers, and networks for segmentation.

use anyhow::{Result, bail};
use kindling_data::Task;
use kindling_layers::trace::Trace;
use kindling_zoo::{Model, ModelOptions, SegmentationModel, find, find_segmentation, is_segmentation};

/// A model of the zoo that a run may train.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnyModel {
    /// A class for each image.
    Classifier(Model),
    /// A class for each pixel.
    Segmentation(SegmentationModel),
}

impl AnyModel {
    /// The model of this name.
    ///
    /// # Errors
    /// If there is none, with similar names.
    pub(crate) fn find(name: &str) -> Result<Self> {
        Ok(match is_segmentation(name) {
            true => Self::Segmentation(find_segmentation(name)?),
            false => Self::Classifier(find(name)?),
        })
    }

    /// The name that finds it again.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Classifier(model) => model.key(),
            Self::Segmentation(model) => model.key(),
        }
    }

    /// The classifier that it is, or that is its encoder.
    pub(crate) fn classifier(&self) -> Model {
        match self {
            Self::Classifier(model) => *model,
            Self::Segmentation(model) => model.classifier(),
        }
    }

    /// What it answers about an image.
    pub(crate) fn task(&self) -> Task {
        match self {
            Self::Classifier(_) => Task::MultiClass,
            Self::Segmentation(_) => Task::Segmentation,
        }
    }

    /// Fails unless it takes square images of this size.
    pub(crate) fn check_image_size(&self, size: usize) -> Result<()> {
        match self {
            Self::Classifier(model) => model.check_image_size(size)?,
            Self::Segmentation(model) => model.check_image_size(size)?,
        }
        Ok(())
    }

    /// Its trace for a square image, without weights.
    pub(crate) fn trace(&self, options: &ModelOptions, size: usize) -> Result<Trace> {
        Ok(match self {
            Self::Classifier(model) if options.auxiliary => {
                bail!("{} is a classifier, and these have no auxiliary classifier", model.key())
            }
            Self::Classifier(model) => model.trace(options, size)?,
            Self::Segmentation(model) => model.trace(options, size)?,
        })
    }
}
